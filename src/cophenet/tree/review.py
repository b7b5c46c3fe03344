"""What is odd in a tree: allowed, but often a mistake or a reason for poor results."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy

__all__ = ["review_tree"]

_SHOWN = 3
# A group is huge if it has so many classes, most of its parent's, and so many times those of a sibling.
_HUGE, _TIMES = 10, 5
# Names that differ in one letter are near duplicates from this length on: horse and horses, not cat and coat.
_LETTERS = 5


def review_tree(tree: Hierarchy) -> list[str]:
    """See `Hierarchy.review`."""
    checks = (_stars, _chains, _uneven_depths, _huge_groups, _namesakes, _near_duplicates)
    return [sentence for check in checks for sentence in check(tree)]


def _stars(tree: Hierarchy) -> Iterator[str]:
    if tree.is_equidistant:
        yield "All classes are equally far apart: there are no groups, and CPCC is undefined."


def _chains(tree: Hierarchy) -> Iterator[str]:
    single = np.flatnonzero(np.bincount(tree.parents[1:], minlength=tree.num_nodes) == 1)
    single = single[single > 0]
    if len(single):
        verb = "group has" if len(single) == 1 else "groups have"
        yield (
            f"{len(single):,} {verb} a single child, which tells no classes apart: {_some(tree, single)}. "
            "collapse() joins them."
        )


def _uneven_depths(tree: Hierarchy) -> Iterator[str]:
    depths = tree.depths[tree.leaves]
    low, high = int(depths.min()), int(depths.max())
    if high >= 2 * low and high - low >= 2:
        top, bottom = (tree.classes[int(place)] for place in (depths.argmin(), depths.argmax()))
        yield (
            f"Classes lie at depths {low} to {high}: {top!r:.60} is much nearer to all others than "
            f"{bottom!r:.60}. Level weights, or leaving levels out, make them more alike."
        )


def _huge_groups(tree: Hierarchy) -> Iterator[str]:
    below = np.searchsorted(np.sort(tree.leaves), np.arange(tree.num_nodes) + tree.sizes) - tree._first_leaf
    siblings = np.bincount(tree.parents[1:], minlength=tree.num_nodes)[tree.parents] - 1
    others = below[tree.parents] - below
    huge = (below >= _HUGE) & (below > others) & (siblings >= 2) & (below * siblings >= _TIMES * others)
    huge[0] = False
    for node in np.flatnonzero(huge)[:_SHOWN].tolist():
        yield (
            f"The group {_some(tree, [node])} has {below[node]:,} classes, its {siblings[node]:,} siblings "
            f"{others[node]:,} together. Perhaps it should be divided."
        )
    wide = np.bincount(tree.parents[tree.leaves], minlength=tree.num_nodes)
    most = int(wide.argmax())
    if wide[most] >= 2 * _HUGE and 2 * wide[most] > tree.num_classes and tree.height > 1:
        yield (
            f"{wide[most]:,} of {tree.num_classes:,} classes lie side by side right below "
            f"{_some(tree, [most])}: the tree says nothing about how they are related."
        )


def _namesakes(tree: Hierarchy) -> Iterator[str]:
    shared = [leaf for leaf in tree.leaves.tolist() if tree.names[leaf] != tree.last_names[leaf]]
    if shared:
        verb = "class is" if len(shared) == 1 else "classes are"
        yield f"{len(shared):,} {verb} known by path, for their last names: {_some(tree, shared)}."


def _near_duplicates(tree: Hierarchy) -> Iterator[str]:
    first: dict[str, str] = {}
    pairs: list[tuple[str, str]] = []
    for leaf in tree.leaves.tolist():
        name = tree.last_names[leaf]
        known = first.setdefault(_letters(name), name)
        if known != name:
            pairs.append((known, name))
    for letters, name in first.items():
        shorter = next((short for short in _one_letter_less(letters) if short in first), None)
        if shorter is not None:
            pairs.append((first[shorter], name))
    if pairs:
        shown = ", ".join(f"{one!r:.40} and {other!r:.40}" for one, other in pairs[:_SHOWN])
        more = ", ..." if len(pairs) > _SHOWN else ""
        verb = "pair of classes has" if len(pairs) == 1 else "pairs of classes have"
        yield f"{len(pairs):,} {verb} nearly the same name: {shown}{more}."


def _letters(name: str) -> str:
    """A name without what is easily written differently: case, spaces, signs between words."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(sign for sign in plain if sign.isalnum()) or plain


def _one_letter_less(letters: str) -> Iterator[str]:
    """The words made by leaving out one letter, which is no digit: those count."""
    if _LETTERS < len(letters) <= 10 * _LETTERS:
        for place, sign in enumerate(letters):
            if not sign.isdecimal():
                yield letters[:place] + letters[place + 1 :]


def _some(tree: Hierarchy, nodes: Iterable[int]) -> str:
    given = [int(node) for node in nodes]
    shown = ", ".join(f"{'/'.join(tree.path(node)) or tree.names[0]!r:.80}" for node in given[:_SHOWN])
    return shown + (", ..." if len(given) > _SHOWN else "")
