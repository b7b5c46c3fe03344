"""The documentation site: `make docs` builds it into build/docs. Nothing in it comes from a network."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "cophenet"
author = "The cophenet maintainers"
version = release = installed_version("cophenet")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "myst_nb",
    "sphinx_parts.mathml",
    "sphinx_parts.commands",
    "sphinx_parts.docstrings",
    "sphinx_parts.gallery",
    "sphinx_parts.links",
]
root_doc = "index"
# Of the folders of results only the pages, not their tables; reading.md is the beginning of their README.
exclude_patterns = ["results/*/[!R]*", "results/reading.md"]

html_theme = "furo"
html_title = "cophenet"
html_static_path: list[str] = []
html_show_sphinx = html_show_copyright = False
html_copy_source = False
html_math_renderer = "mathml"

# Anchors as GitHub makes them, so that links lead to the same headings in both.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
# Pages of results begin sections at any depth; formats that a page shows need no highlighting of their own.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

# Examples are run when the site is built, and an error in one of them ends it.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "imported-members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
python_maximum_signature_line_length = 100
