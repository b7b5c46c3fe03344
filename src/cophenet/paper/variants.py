"""What is trained for a study: arms, each an objective with some settings changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

__all__ = [
    "BASELINES",
    "BREEDS",
    "CORE",
    "DISTANCES",
    "PAPER_DATA",
    "Arm",
    "label_of",
    "plain",
    "varied",
    "with_controls",
]

BREEDS = ("living17", "nonliving26", "entity13", "entity30")
PAPER_DATA = ("cifar10", "cifar100", "inat21-mini", *BREEDS)
# The distances that the paper trains with, the objectives of its main tables, and its other baselines.
DISTANCES = ("l2", "fastft", "emd", "sinkhorn", "swd")
CORE = ("flat", *DISTANCES)
BASELINES = ("mtl", "curriculum", "sumloss", "hxe", "soft", "quadruplet", "shc", "gc", "rank")

_LABELS = {
    "flat": "Flat",
    "l2": "l2",
    "fastft": "FastFT",
    "emd": "EMD",
    "sinkhorn": "Sinkhorn",
    "swd": "SWD",
    "twd": "TWD",
    "ft": "FT",
    "bures": "Bures",
    "mtl": "MTL",
    "curriculum": "Curr",
    "sumloss": "SumLoss",
    "hxe": "HXE",
    "soft": "Soft",
    "quadruplet": "Quad",
    "shc": "SHC",
    "gc": "GC",
    "rank": "Rank",
}


@dataclass(frozen=True)
class Arm:
    """An objective with some settings changed, to be trained on a recipe.

    Attributes:
        objective: Name of the objective.
        setting: What is changed, in a word or two; "" for nothing. A control has that of its arm.
        overrides: The changed settings, as `--set` takes them.
        seeds: How many seeds at laptop scale; at the paper's scale there are three, or one for a control.
        control: Whether it has a shuffled tree.
    """

    objective: str
    setting: str = ""
    overrides: tuple[str, ...] = ()
    seeds: int = 1
    control: bool = False


def label_of(objective: str) -> str:
    """The paper's name of an objective.

    Example:
        >>> label_of("quadruplet"), label_of("fastft"), label_of("mine")
        ('Quad', 'FastFT', 'mine')
    """
    return _LABELS.get(objective, objective)


def plain(objectives: Iterable[str]) -> tuple[Arm, ...]:
    """Objectives as the recipe has them: those of the main tables with three seeds, the others with one.

    Example:
        >>> [(arm.objective, arm.seeds) for arm in plain(["flat", "hxe"])]
        [('flat', 3), ('hxe', 1)]
    """
    return tuple(Arm(name, seeds=3 if name in CORE else 1) for name in objectives)


def varied(objectives: Iterable[str], settings: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[Arm, ...]:
    """Every objective at every setting.

    Args:
        objectives: Names.
        settings: What is changed in a word or two, with the overrides that do so.

    Example:
        >>> arms = varied(["l2"], [("64", ("batch_size=64",)), ("128", ("batch_size=128",))])
        >>> [(arm.setting, arm.overrides) for arm in arms]
        [('64', ('batch_size=64',)), ('128', ('batch_size=128',))]
    """
    chosen = tuple(settings)
    return tuple(
        replace(Arm(name), setting=setting, overrides=overrides)
        for name in objectives
        for setting, overrides in chosen
    )


def with_controls(arms: Iterable[Arm]) -> tuple[Arm, ...]:
    """Arms, and those that have a distance once more with a tree in which classes have changed places.

    Example:
        >>> arms = with_controls(varied(["flat", "l2"], [("64", ("batch_size=64",))]))
        >>> [(arm.objective, arm.setting, arm.control) for arm in arms]
        [('flat', '64', False), ('l2', '64', False), ('l2', '64', True)]
        >>> arms[-1].overrides
        ('batch_size=64', 'tree.shuffle_seed=0')
    """
    given = tuple(arms)
    shuffled = (
        replace(arm, overrides=(*arm.overrides, "tree.shuffle_seed=0"), seeds=1, control=True)
        for arm in given
        if arm.objective in DISTANCES
    )
    return (*given, *shuffled)
