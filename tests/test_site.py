"""The documentation site, without building it (`make docs` does): its order, its links and its examples."""

import ast
import doctest
import importlib.util
import inspect
import json
import pkgutil
import re
from pathlib import Path

import matplotlib as mpl
import pytest

import cophenet

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((DOCS / "examples").glob("*.ipynb"))
PAGES = [*sorted(DOCS.rglob("*.md")), *NOTEBOOKS]
# Without what results/README.md links to, and what it begins with.
SITE_PAGES = [p for p in PAGES if not re.match(r"results/([^/]+/|reading)", p.relative_to(DOCS).as_posix())]
ROOMS = [
    m.name for m in pkgutil.iter_modules(cophenet.__path__) if m.ispkg and m.name not in ("_common", "cli")
]


def markdown(page: Path) -> str:
    """The text of a page; of a notebook its cells of text."""
    if page.suffix == ".md":
        return page.read_text()
    cells = json.loads(page.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", markdown(page), flags=re.DOTALL)
    found = set(re.findall(r'<a id="([^"]+)"></a>', text))
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"<[^>]+>|[`*]|\]\([^)]*\)", "", title).lower().strip()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def test_every_page_is_in_the_order_once():
    listed = []
    for page in SITE_PAGES:
        for block in re.findall(r"```\{toctree\}\n(.*?)```", markdown(page), re.DOTALL):
            names = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed += [(page.parent / re.sub(r".*<(.*)>", r"\1", name)).resolve() for name in names]
    pages = [page.with_suffix("") for page in SITE_PAGES if page != DOCS / "index.md"]
    assert sorted(listed) == sorted(pages), "see the toctrees of docs/index.md"


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_links_lead_to_headings(page):
    text = re.sub(r"```.*?```", "", markdown(page), flags=re.DOTALL)
    for link, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
        if link.startswith("http"):
            continue
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), f"{link}#{anchor}"


def test_the_reference_has_every_room():
    shown = {
        room
        for page in (DOCS / "api").glob("*.md")
        for room in re.findall(r"automodule:: (\S+)", page.read_text())
    }
    assert shown == {f"cophenet.{room}" for room in ROOMS} | {"cophenet.metrics.streaming"}


@pytest.mark.parametrize("room", ROOMS)
def test_the_reference_tells_the_arguments_of_every_class(room):
    module = importlib.import_module(f"cophenet.{room}")
    for public in (getattr(module, name) for name in module.__all__):
        if inspect.isclass(public):
            kinds = [parameter.kind for parameter in inspect.signature(public).parameters.values()]
            assert inspect.Parameter.VAR_POSITIONAL not in kinds, public


@pytest.mark.parametrize("name", ["docstrings", "links"])
def test_examples_of_the_parts_of_the_site(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / "sphinx_parts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tested = doctest.testmod(module)
    assert tested.attempted > 0
    assert tested.failed == 0


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_notebooks_are_stored_without_output(page):
    for cell in json.loads(page.read_text())["cells"]:
        assert not cell.get("outputs")
        if cell["cell_type"] == "code":
            ast.parse("".join(cell["source"]))


@pytest.mark.parametrize("name", ["own-loop", "trees"])  # the others take longer: `make docs` runs them all
def test_notebooks_run(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with mpl.rc_context({"backend": "agg"}):
        scope = {"__name__": "__main__"}
        for cell in json.loads((DOCS / "examples" / f"{name}.ipynb").read_text())["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), name, "exec"), scope)
        scope["plt"].close("all")
