"""A scikit-learn estimator on vectors made elsewhere: an adapter that reshapes them to follow a label tree.

`embedder` is the estimator. Beside it: `validation` and `labels` of what users give, `training` of an
`ensemble` or `adapter`, `prediction` by one of the `decisions`, `familiarity` of what it is given, `search`,
`scores`; `storage`, `onnx` and `from_run` for models in files, and `files` for vectors in files.
"""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("cophenet.estimator needs scikit-learn: pip install 'cophenet[embed]'") from error

from cophenet.estimator.embedder import HierarchicalEmbedder
from cophenet.estimator.scores import TreeDistanceScorer
from cophenet.estimator.search import Group, SearchResult

__all__ = ["Group", "HierarchicalEmbedder", "SearchResult", "TreeDistanceScorer"]
