"""Random trees and slow, obvious reference code for the tests of the tree room."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from cophenet.tree import Hierarchy

CIFAR100 = {
    "aquatic_mammals": ["beaver", "dolphin", "otter", "seal", "whale"],
    "fish": ["aquarium_fish", "flatfish", "ray", "shark", "trout"],
    "flowers": ["orchid", "poppy", "rose", "sunflower", "tulip"],
    "food_containers": ["bottle", "bowl", "can", "cup", "plate"],
    "fruit_and_vegetables": ["apple", "mushroom", "orange", "pear", "sweet_pepper"],
    "household_electrical_devices": ["clock", "keyboard", "lamp", "telephone", "television"],
    "household_furniture": ["bed", "chair", "couch", "table", "wardrobe"],
    "insects": ["bee", "beetle", "butterfly", "caterpillar", "cockroach"],
    "large_carnivores": ["bear", "leopard", "lion", "tiger", "wolf"],
    "large_man-made_outdoor_things": ["bridge", "castle", "house", "road", "skyscraper"],
    "large_natural_outdoor_scenes": ["cloud", "forest", "mountain", "plain", "sea"],
    "large_omnivores_and_herbivores": ["camel", "cattle", "chimpanzee", "elephant", "kangaroo"],
    "medium_mammals": ["fox", "porcupine", "possum", "raccoon", "skunk"],
    "non-insect_invertebrates": ["crab", "lobster", "snail", "spider", "worm"],
    "people": ["baby", "boy", "girl", "man", "woman"],
    "reptiles": ["crocodile", "dinosaur", "lizard", "snake", "turtle"],
    "small_mammals": ["hamster", "mouse", "rabbit", "shrew", "squirrel"],
    "trees": ["maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"],
    "vehicles_1": ["bicycle", "bus", "motorcycle", "pickup_truck", "train"],
    "vehicles_2": ["lawn_mower", "rocket", "streetcar", "tank", "tractor"],
}


def cifar100() -> Hierarchy:
    tree = Hierarchy.from_nested(CIFAR100, level_names=["coarse", "fine"])
    return tree.reorder(sorted(tree.classes))


def animals() -> Hierarchy:
    return Hierarchy.from_paths([("animal", "cat"), ("vehicle", "car"), ("animal", "dog"), ("boat",)])


@st.composite
def trees(draw: st.DrawFn, names: st.SearchStrategy[str] | None = None, max_nodes: int = 14) -> Hierarchy:
    """Trees of any shape, with chains, uneven depths, shuffled classes, weights and level names."""
    size = draw(st.integers(2, max_nodes))
    parents = [-1, *(draw(st.integers(0, node - 1)) for node in range(1, size))]
    if names is None:
        node_names = [f"n{node}" for node in range(size)]
    else:
        node_names = draw(st.lists(names, min_size=size, max_size=size, unique=True))
    weights = None
    if draw(st.booleans()):
        weights = [0.0, *draw(st.lists(st.floats(1e-3, 1e3), min_size=size - 1, max_size=size - 1))]
    leaves = sorted(set(range(size)) - set(parents))
    classes = [node_names[leaf] for leaf in draw(st.permutations(leaves))]
    tree = Hierarchy.from_parents(parents, node_names, weights, classes)
    if names is not None and draw(st.booleans()):
        levels = draw(st.lists(names, min_size=tree.height, max_size=tree.height, unique=True))
        tree = tree.with_level_names(levels)
    return tree


NAMESAKES = ["a", "b", "x", "a/x", "b/x", "a/a/x", "x (2)", "a/x (2)", "a (2)"]


@st.composite
def namesakes(draw: st.DrawFn, max_nodes: int = 16) -> Hierarchy:
    """Trees whose inner nodes share names with each other and with classes, joined and numbered ones too."""
    size = draw(st.integers(2, max_nodes))
    parents = [-1, *(draw(st.integers(max(0, node - 5), node - 1)) for node in range(1, size))]
    names = ["root"]
    for node in range(1, size):
        is_leaf = node not in parents
        taken = {names[other] for other in range(1, node) if is_leaf or parents[other] == parents[node]}
        free = [name for name in NAMESAKES if name not in taken]
        names.append(draw(st.sampled_from(free)) if free else f"n{node}")
    leaves = {node for node in range(size) if node not in parents}
    for node in range(1, size):
        if node not in leaves and any(
            names[other] == names[node] and parents[other] == parents[node] for other in leaves
        ):
            names[node] = f"n{node}"
    return Hierarchy.from_parents(parents, names)


def walk(tree: Hierarchy, start: int) -> dict[int, float]:
    """Weighted distance from a node to every other, edge by edge."""
    near: dict[int, list[tuple[int, float]]] = {node: [] for node in range(tree.num_nodes)}
    for node in range(1, tree.num_nodes):
        parent, weight = int(tree.parents[node]), float(tree.edge_weights[node])
        near[node].append((parent, weight))
        near[parent].append((node, weight))
    seen = {start: 0.0}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for there, weight in near[here]:
            if there not in seen:
                seen[there] = seen[here] + weight
                queue.append(there)
    return seen


def slow_distances(tree: Hierarchy) -> np.ndarray:
    rows = [walk(tree, int(leaf)) for leaf in tree.leaves]
    return np.array([[row[int(leaf)] for leaf in tree.leaves] for row in rows])


def line_up(tree: Hierarchy, node: int) -> list[int]:
    """The node and its ancestors, up to the root."""
    chain = [node]
    while chain[-1]:
        chain.append(int(tree.parents[chain[-1]]))
    return chain


def slow_ancestor(tree: Hierarchy, one: int, other: int) -> int:
    above = set(line_up(tree, other))
    return next(node for node in line_up(tree, one) if node in above)


def there_and_back(tree: Hierarchy, folder: Path, extension: str) -> Hierarchy:
    """Write the tree and read it again."""
    path = folder / f"tree.{extension}"
    tree.write(path)
    return Hierarchy.read(path)
