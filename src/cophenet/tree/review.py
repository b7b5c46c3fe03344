"""Checks of a tree, with or without features, for what is often a mistake or a cause of poor results."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy

__all__ = ["Misplaced", "misplaced_classes", "review_tree"]

_SHOWN = 3
# A group is huge if it has at least _HUGE classes, more than all its siblings together, and at least
# _TIMES their mean.
_HUGE, _TIMES = 10, 5
# Names that differ by one letter are near duplicates if the shorter one has at least this many letters: horse
# and horses, not cat and coat.
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
    """Normalize a name: remove differences in case, spaces and punctuation."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(sign for sign in plain if sign.isalnum()) or plain


def _one_letter_less(letters: str) -> Iterator[str]:
    """Yield the words made by leaving out one letter; digits are not left out, as they distinguish names."""
    if _LETTERS < len(letters) <= 10 * _LETTERS:
        for place, sign in enumerate(letters):
            if not sign.isdecimal():
                yield letters[:place] + letters[place + 1 :]


def _some(tree: Hierarchy, nodes: Iterable[int]) -> str:
    given = [int(node) for node in nodes]
    shown = ", ".join(f"{'/'.join(tree.path(node)) or tree.names[0]!r:.80}" for node in given[:_SHOWN])
    return shown + (", ..." if len(given) > _SHOWN else "")


Floats = NDArray[np.float64]
_NEAREST = 3
_MOST = 5


@dataclass(frozen=True)
class Misplaced:
    """A class that looks misplaced.

    Attributes:
        name: The class.
        group: The group it is in.
        better: The group, at the same depth, that its features are nearest to.
        own: Mean distance of its class mean to the means of the other classes of its group.
        other: Mean distance of its class mean to the means of the classes of the better group.
        nearest: The classes whose means are nearest.
    """

    name: str
    group: str
    better: str
    own: float
    other: float
    nearest: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The finding and its evidence, as a sentence."""
        return (
            f"{self.name} is in {self.group}, but looks like {self.better}: mean distance {self.other:.3g} "
            f"to the classes there, {self.own:.3g} to its own; nearest are {', '.join(self.nearest)}."
        )


def misplaced_classes(features: Any, labels: Any, tree: Hierarchy) -> list[Misplaced]:
    r"""At most five classes that look misplaced in a tree, the clearest first.

    Let $\mu_c$ be the mean of a class c in a group G (its parent), and $d(c, H)$ the mean Euclidean distance
    of $\mu_c$ to the means of the other classes below H. The class looks misplaced if $d(c, H) < d(c, G)$
    for another group H at the depth of G: a silhouette (Rousseeuw 1987) below zero. To rule out chance, both
    halves of its samples must give the same H. The clearest have the smallest $d(c, H) / d(c, G)$.

    Args:
        features: Array of shape (N, d).
        labels: (N,) positions in the classes of the tree; classes with fewer than two samples are skipped.
        tree: The tree.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "pet/van", "car/bus", "car/cab"], sep="/")
        >>> features = np.repeat([[0.0], [1.0], [9.0], [8.0], [10.0]], 2, axis=0)
        >>> [found.sentence for found in misplaced_classes(features, np.arange(10) // 2, tree)][0][:37]
        'van is in pet, but looks like car: me'
    """
    x, y = np.asarray(features, dtype=np.float64), np.asarray(labels)
    count = np.bincount(y, minlength=tree.num_classes)
    order = np.concatenate([np.flatnonzero(y == label) for label in range(tree.num_classes)]).astype(np.int64)
    rank = np.empty(len(y), dtype=np.int64)
    rank[order] = np.arange(len(y)) - np.repeat(np.cumsum(count) - count, count)
    whole = _means(x, y, len(count))
    halves = [_means(x[rank % 2 == side], y[rank % 2 == side], len(count)) for side in (0, 1)]
    judged = np.flatnonzero(count >= 2)
    found = []
    for label in judged.tolist():
        verdict = [_nearest_group(label, means, whole, tree, judged) for means in (whole, *halves)]
        groups = {one[0] for one in verdict if one is not None}
        if None in verdict or len(groups) != 1:
            continue
        assert verdict[0] is not None
        better, own, other = verdict[0]
        others = judged[judged != label]
        near = others[np.linalg.norm(whole[others] - whole[label], axis=1).argsort()[:_NEAREST]]
        nearest = tuple(tree.classes[place] for place in near.tolist())
        group = tree.names[int(tree.parents[tree.leaves[label]])]
        found.append(Misplaced(tree.classes[label], group, tree.names[better], own, other, nearest))
    return sorted(found, key=lambda one: one.other / one.own)[:_MOST]


def _means(x: Floats, y: NDArray[Any], size: int) -> Floats:
    """Class means (size, d); 0 for classes without samples."""
    sums = np.zeros((size, x.shape[1]))
    np.add.at(sums, y, x)
    return sums / np.maximum(np.bincount(y, minlength=size), 1)[:, None]


def _nearest_group(
    label: int, means: Floats, whole: Floats, tree: Hierarchy, judged: NDArray[np.int64]
) -> tuple[int, float, float] | None:
    """Nearest other group at the same depth, distances to own and that group; None if own is nearest."""
    depth = int(tree.depths[tree.leaves[label]]) - 1
    others = judged[judged != label]
    if depth < 1:
        return None
    groups = tree.ancestors(depth)
    distances = np.linalg.norm(whole[others] - means[label], axis=1)
    nodes, places = np.unique(groups[others], return_inverse=True)
    # A class that is its own ancestor at this depth is not a group.
    inner = tree.heights[nodes] > 0
    mean = np.bincount(places, weights=distances) / np.bincount(places)
    own = mean[nodes == groups[label]]
    if not len(own) or not (inner & (nodes != groups[label])).any():
        return None
    mean = np.where(inner & (nodes != groups[label]), mean, np.inf)
    best = int(mean.argmin())
    return (int(nodes[best]), float(own[0]), float(mean[best])) if mean[best] < own[0] else None
