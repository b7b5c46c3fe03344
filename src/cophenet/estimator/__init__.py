"""A scikit-learn estimator on vectors made elsewhere: an adapter that reshapes them to follow a label tree.

`embedder` is the estimator; what it does is in the modules beside it, as functions: `labels` and `inputs`
read what users have, `fit` and `trainer` train `network`, `decisions` choose a node, `index` searches,
`storage` and `onnx` write files.
"""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("cophenet.estimator needs scikit-learn: pip install 'cophenet[embed]'") from error

from cophenet.estimator.embedder import HierarchicalEmbedder
from cophenet.estimator.search import Group, SearchResult

__all__ = ["Group", "HierarchicalEmbedder", "SearchResult"]
