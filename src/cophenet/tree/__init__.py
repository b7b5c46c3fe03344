"""The tree room: label trees and everything that can be said about them without data.

Here a :class:`Hierarchy` is made, read, checked, measured, edited, split, drawn and inferred. Only numpy is
imported with the room; scipy and yaml are imported by the functions that need them, torch by `tables` alone.
"""

from cophenet.tree.hierarchy import Hierarchy
from cophenet.tree.names import AmbiguousNameError
from cophenet.tree.split import Split

__all__ = ["AmbiguousNameError", "Hierarchy", "Split"]
