"""Classes of CIFAR-10 and CIFAR-100 under their official names, their trees and their splits."""

from __future__ import annotations

from typing import Literal, get_args

from cophenet._common.checks import wrong_argument
from cophenet.tree import Hierarchy, Split

__all__ = ["CIFAR10", "CIFAR100", "Depth", "cifar10_split", "cifar10_tree", "cifar100_split", "cifar100_tree"]

Depth = Literal[3, 4, 5]

# In label order: all ten, then which are animals.
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")
_CIFAR10_TARGET = ("airplane", "automobile", "bird", "cat")

# Coarse classes in label order; the fine labels are the alphabetical order of all hundred names.
CIFAR100 = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}


def cifar10_tree() -> Hierarchy:
    """The paper's tree of CIFAR-10.

    Example:
        >>> cifar10_tree().cut("coarse")[0].classes
        ('transportation', 'animal')
    """
    paths = [("animal" if name in _ANIMALS else "transportation", name) for name in CIFAR10]
    return Hierarchy.from_paths(paths, root="cifar10", level_names=("coarse", "fine"))


def cifar10_split() -> Split:
    """The paper's split of CIFAR-10: a list, not the 0.4 rule; horse is in the source.

    Example:
        >>> cifar10_split().target.classes
        ('airplane', 'automobile', 'bird', 'cat')
    """
    source = [name for name in CIFAR10 if name not in _CIFAR10_TARGET]
    return cifar10_tree().source_target_split(source=source, target=_CIFAR10_TARGET)


def cifar100_tree(depth: Depth = 3) -> Hierarchy:
    """The tree of CIFAR-100 with as many levels as wanted, the root counted.

    Args:
        depth: 3 for coarse and fine; 4 adds a mid level, each five fine classes cut by name into two and
            three; 5 also adds a coarser level, neighbouring pairs of coarse classes.

    Example:
        >>> cifar100_tree(5).level_names
        ('coarser', 'coarse', 'mid', 'fine')
        >>> cifar100_tree(5).path("rose")[1:]
        ('flowers', 'rose+sunflower+tulip', 'rose')
    """
    if depth not in get_args(Depth):
        raise wrong_argument("depth", f"must be one of {get_args(Depth)}, got {depth!r}")
    coarse = {fine: name for name, children in CIFAR100.items() for fine in children}
    paths = [(coarse[fine], fine) for fine in sorted(coarse)]
    tree = Hierarchy.from_paths(paths, root="cifar100", level_names=("coarse", "fine"))
    if depth >= 4:
        tree = tree.insert_level("fine", [2, 3], name="mid")
    return tree.insert_level("coarse", [2], name="coarser") if depth == 5 else tree


def cifar100_split(depth: Depth = 3) -> Split:
    """The paper's split of CIFAR-100: of each coarse class the first two by name are the target.

    Example:
        >>> split = cifar100_split()
        >>> split.source.num_classes, split.target.classes[:3]
        (60, ('apple', 'aquarium_fish', 'baby'))
    """
    # Always by the coarse classes: a mid level would leave groups of two and three to the rule.
    split = cifar100_tree().source_target_split(0.4)
    return cifar100_tree(depth).source_target_split(source=split.source.classes, target=split.target.classes)
