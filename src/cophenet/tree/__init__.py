"""Label trees, and everything that can be computed from them without data.

Construct, read, check, measure, edit, split, draw and infer a :class:`Hierarchy`. Importing this package
loads only numpy; scipy and yaml are imported by the functions that need them, and only `lookup_tables` needs
torch.
"""

from cophenet.tree.hierarchy import Hierarchy
from cophenet.tree.names import AmbiguousNameError
from cophenet.tree.split import Split

__all__ = ["AmbiguousNameError", "Hierarchy", "Split"]
