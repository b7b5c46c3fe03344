"""What is trained for an item: variants, each an objective with some settings changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

__all__ = [
    "BASELINES",
    "BREEDS",
    "CORE",
    "DISTANCES",
    "PAPER_DATA",
    "Setting",
    "Variant",
    "label_of",
    "plain",
    "setting_text",
    "varied",
    "with_controls",
]

# What a variant changes, by name; names and values are those of the paper's tables where it has them.
Setting: TypeAlias = Mapping[str, str | int | float]

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
    # Variants of distances in the studies of time.
    "fastft-principal": "FastFT, principal order",
    "emd-pot": "EMD by POT",
    "bures-dense": "Bures, dense",
}


@dataclass(frozen=True)
class Variant:
    """An objective with some settings changed, to be trained on a recipe.

    Attributes:
        objective: Name of the objective.
        setting: What is changed; empty for nothing. A control has that of what it controls.
        overrides: The changed settings, as `--set` takes them.
        seeds: How many seeds at laptop scale; at the paper's scale there are three, or one for a control.
        control: Whether it has a shuffled tree.
    """

    objective: str
    setting: Setting = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    seeds: int = 1
    control: bool = False


def setting_text(setting: Setting) -> str:
    """A setting in a few words.

    Example:
        >>> setting_text({"batch_size": 64, "memory": 0}), setting_text({"backbone": "resnet18"})
        ('batch size 64, memory 0', 'resnet18')
    """
    words = (f"{name.replace('_', ' ')} {v}" if not isinstance(v, str) else v for name, v in setting.items())
    return ", ".join(words)


def label_of(objective: str) -> str:
    """The paper's name of an objective.

    Example:
        >>> label_of("quadruplet"), label_of("fastft"), label_of("mine")
        ('Quad', 'FastFT', 'mine')
    """
    return _LABELS.get(objective, objective)


def plain(objectives: Iterable[str]) -> tuple[Variant, ...]:
    """Objectives as the recipe has them: those of the main tables with three seeds, the others with one.

    Example:
        >>> [(variant.objective, variant.seeds) for variant in plain(["flat", "hxe"])]
        [('flat', 3), ('hxe', 1)]
    """
    return tuple(Variant(name, seeds=3 if name in CORE else 1) for name in objectives)


def varied(
    objectives: Iterable[str], settings: Iterable[tuple[Setting, tuple[str, ...]]]
) -> tuple[Variant, ...]:
    """Every objective at every setting.

    Args:
        objectives: Names.
        settings: What is changed, with the overrides that do so.

    Example:
        >>> sizes = [({"batch_size": n}, (f"batch_size={n}",)) for n in (64, 128)]
        >>> [(variant.setting, variant.overrides) for variant in varied(["l2"], sizes)]
        [({'batch_size': 64}, ('batch_size=64',)), ({'batch_size': 128}, ('batch_size=128',))]
    """
    chosen = tuple(settings)
    return tuple(Variant(name, setting, overrides) for name in objectives for setting, overrides in chosen)


def with_controls(variants: Iterable[Variant]) -> tuple[Variant, ...]:
    """Variants, and those that have a distance once more with a tree in which classes have changed places.

    Example:
        >>> variants = with_controls(varied(["flat", "l2"], [({}, ("batch_size=64",))]))
        >>> [(variant.objective, variant.control) for variant in variants]
        [('flat', False), ('l2', False), ('l2', True)]
        >>> variants[-1].overrides
        ('batch_size=64', 'tree.shuffle_seed=0')
    """
    given = tuple(variants)
    shuffled = (
        replace(variant, overrides=(*variant.overrides, "tree.shuffle_seed=0"), seeds=1, control=True)
        for variant in given
        if variant.objective in DISTANCES
    )
    return (*given, *shuffled)
