"""A scikit-learn estimator for precomputed vectors, which reshapes them so that they follow a label tree.

`embedder` contains the estimator. Further modules: `validation` and `labels` for user input, `training` of an
`ensemble` or `adapter`, `prediction` by one of the `decisions`, `familiarity` of new vectors, `search`,
`scores`; `saving`, `onnx` and `from_run` for models in files, and `vector_files` for vectors in files.
"""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("cophenet.estimator needs scikit-learn: pip install 'cophenet[embed]'") from error

from cophenet.estimator.embedder import HierarchicalEmbedder
from cophenet.estimator.scores import TreeDistanceScorer
from cophenet.estimator.search import Group, SearchResult

__all__ = ["Group", "HierarchicalEmbedder", "SearchResult", "TreeDistanceScorer"]
