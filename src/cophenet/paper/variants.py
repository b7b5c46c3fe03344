"""What is trained for an item: variants, each an objective with some settings changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

__all__ = [
    "AS_PUBLISHED",
    "BACKBONES",
    "BASELINES",
    "BATCH_SIZES",
    "BREEDS",
    "CORE",
    "CPCC_WEIGHTS",
    "DEPTHS",
    "DISTANCES",
    "FLOW_WEIGHTS",
    "MEMORY_BATCH_SIZES",
    "MODE_BY_MODE",
    "MORE_DISTANCES",
    "ORDER_VARIANTS",
    "PAPER_DATA",
    "RANK_VARIANTS",
    "SUBTREE",
    "SUBTREE_WEIGHTS",
    "Setting",
    "Variant",
    "Variants",
    "always",
    "backbones",
    "core",
    "core_with_controls",
    "l2_or_core",
    "label_of",
    "memory_sizes",
    "plain",
    "setting_text",
    "subtree_weights",
    "sweep",
    "three_epochs",
    "tree_depths",
    "varied",
    "with_controls",
]

# Changed settings by name; names and values are those of the paper's tables, if it has them.
Setting: TypeAlias = Mapping[str, str | int | float]

BREEDS = ("living17", "nonliving26", "entity13", "entity30")
PAPER_DATA = ("cifar10", "cifar100", "inat21-mini", *BREEDS)
# The distances that the paper trains with, the objectives of its main tables, and its other baselines.
DISTANCES = ("l2", "fastft", "emd", "sinkhorn", "swd")
CORE = ("flat", *DISTANCES)
MORE_DISTANCES = ("twd", "ft", "bures")
BASELINES = ("mtl", "curriculum", "sumloss", "hxe", "soft", "quadruplet", "shc", "gc", "rank")

# The values that studies of a setting compare; claims use the same values.
BATCH_SIZES = (64, 128, 512, 1024)
MEMORY_BATCH_SIZES = (64, 128, 512)
CPCC_WEIGHTS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0)
DEPTHS = (3, 4, 5)
SUBTREE_WEIGHTS = (1, 2, 4)
FLOW_WEIGHTS = ("uniform", "distance", "inverse")
_UNCHANGED = "as in the recipe"
_VISION_TRANSFORMERS = ("vit_b_16", "vit_l_16")
# The kind of synthetic clouds whose samples are sorted by mode.
MODE_BY_MODE = "mixture, mode by mode"
BACKBONES = {
    "laptop": (_UNCHANGED, "efficientnet-lite1", "efficientnet-lite2"),
    "scratch": ("resnet10-w16", _UNCHANGED, "resnet18-w16"),
    "paper": ("resnet18", "resnet34", "resnet50", *_VISION_TRANSFORMERS),
}
# Overrides where the authors' code differs from the recipe: its Rank has another target.
AS_PUBLISHED = {"rank": ("objective.options.rank.target=published",)}
# The coarse class of CIFAR-100 whose classes are moved apart in the study of tree weights.
SUBTREE = "aquatic_mammals"
_FULL = ("data.domain=full", "one_shot=null")

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
    "cosine": "Cosine",
    "mtl": "MTL",
    "curriculum": "Curr",
    "sumloss": "SumLoss",
    "hxe": "HXE",
    "soft": "Soft",
    "quadruplet": "Quad",
    "shc": "SHC",
    "gc": "GC",
    "rank": "Rank",
    # Variants of distances in the timing studies.
    "fastft-principal": "FastFT, principal order",
    "emd-pot": "EMD by POT",
    "bures-dense": "Bures, dense",
}


@dataclass(frozen=True)
class Variant:
    """An objective with some settings changed, to be trained on a recipe.

    Attributes:
        objective: Name of the objective.
        setting: The changed settings by name; empty for none. A control has the setting of what it controls.
        overrides: The changed settings, in the form of `--set`.
        seeds: Number of seeds at laptop scale; at most three at others, one for a control at paper scale.
        control: Whether the tree is shuffled.
    """

    objective: str
    setting: Setting = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    seeds: int = 3
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
    """Objectives as in the paper, with five seeds.

    Example:
        >>> [(variant.objective, variant.seeds) for variant in plain(["flat", "hxe"])]
        [('flat', 5), ('hxe', 5)]
    """
    return tuple(Variant(name, overrides=AS_PUBLISHED.get(name, ()), seeds=5) for name in objectives)


def varied(
    objectives: Iterable[str], settings: Iterable[tuple[Setting, tuple[str, ...]]]
) -> tuple[Variant, ...]:
    """Every objective at every setting.

    Args:
        objectives: Names.
        settings: The changed settings by name, with the overrides that change them.

    Example:
        >>> sizes = [({"batch_size": n}, (f"batch_size={n}",)) for n in (64, 128)]
        >>> [(variant.setting, variant.overrides) for variant in varied(["l2"], sizes)]
        [({'batch_size': 64}, ('batch_size=64',)), ({'batch_size': 128}, ('batch_size=128',))]
    """
    chosen = tuple(settings)
    return tuple(Variant(name, setting, overrides) for name in objectives for setting, overrides in chosen)


def with_controls(variants: Iterable[Variant]) -> tuple[Variant, ...]:
    """Variants, followed by those with CPCC once more with a shuffled tree, as controls.

    Example:
        >>> variants = with_controls(varied(["flat", "l2"], [({}, ("batch_size=64",))]))
        >>> [(variant.objective, variant.control) for variant in variants]
        [('flat', False), ('l2', False), ('l2', True)]
        >>> variants[-1].overrides
        ('batch_size=64', 'tree.shuffle_seed=0')
    """
    given = tuple(variants)
    shuffled = (
        replace(variant, overrides=(*variant.overrides, "tree.shuffle_seed=0"), control=True)
        for variant in given
        if variant.objective in (*DISTANCES, *MORE_DISTANCES, "cosine")
    )
    return (*given, *shuffled)


def sweep(
    objectives: Iterable[str], name: str, values: Iterable[str | float], override: str, *always: str
) -> tuple[Variant, ...]:
    """Every objective at every value of a setting, with controls.

    Args:
        objectives: Names.
        name: Name of the setting.
        values: Its values.
        override: Override that changes it, with "{}" for the value.
        *always: Overrides of all variants.

    Example:
        >>> [variant.overrides for variant in sweep(["flat"], "batch_size", (64, 128), "batch_size={}")]
        [('batch_size=64',), ('batch_size=128',)]
    """
    settings = [({name: each}, (*always, override.format(each))) for each in values]
    return with_controls(varied(objectives, settings))


# Returns the variants that an item trains, from recipe and scale.
Variants: TypeAlias = Callable[[str, str], tuple[Variant, ...]]


def always(variants: tuple[Variant, ...]) -> Variants:
    """The same on every recipe and scale."""
    return lambda _recipe, _scale: variants


def core(recipe: str, _scale: str) -> tuple[Variant, ...]:
    """The objectives of the main tables; without EMD on BREEDS, which the paper left out for its cost."""
    return plain(name for name in CORE if not (recipe in BREEDS and name == "emd"))


def core_with_controls(recipe: str, scale: str) -> tuple[Variant, ...]:
    """The objectives of the main tables, with controls."""
    return with_controls(core(recipe, scale))


def l2_or_core(recipe: str, scale: str) -> tuple[Variant, ...]:
    """The objectives of the main tables; on the paper's data sets other than CIFAR-100 only l2."""
    return plain(["l2"]) if recipe in PAPER_DATA and recipe != "cifar100" else core(recipe, scale)


def three_epochs(recipe: str, _scale: str) -> tuple[Variant, ...]:
    """The objectives of the main tables for three epochs, which are enough to measure times."""
    batch = ("batch_size=128",) if recipe == "cifar10" else ()
    return varied(CORE, [({}, ("epochs=3", *batch))])


def backbones(_recipe: str, scale: str) -> tuple[Variant, ...]:
    """Networks of several sizes."""

    def overrides(name: str) -> tuple[str, ...]:
        if name in _VISION_TRANSFORMERS:
            # ImageNet weights are read from files of these names, as in the recipe of iNaturalist.
            return f"model={{backbone: {name}, weights: {name}.pth}}", "data.image_size=224"
        return () if name == _UNCHANGED else (f"model.backbone={name}",)

    settings = [({"backbone": name}, overrides(name)) for name in BACKBONES[scale]]
    return with_controls(varied(["l2", "emd", "fastft"], settings))


def subtree_weights() -> tuple[Variant, ...]:
    """Longer tree distances between the classes of one coarse class; they are then not those of any tree."""
    factors = {w: (f"objective.cpcc.inside_factors.{SUBTREE}={w}.0",) for w in SUBTREE_WEIGHTS[1:]}
    changes: dict[int, tuple[str, ...]] = {SUBTREE_WEIGHTS[0]: (), **factors}
    settings = [({"weight": w}, (*_FULL, "batch_size=1024", *more)) for w, more in changes.items()]
    return with_controls(varied(["emd", "fastft"], settings))


def tree_depths() -> tuple[Variant, ...]:
    """Trees of several depths."""
    return sweep(["emd", "fastft"], "depth", DEPTHS, "data.options.depth={}", *_FULL, "batch_size=128")


def memory_sizes() -> tuple[Variant, ...]:
    """Batches of several sizes, without and with a memory of earlier batches."""
    settings = [
        ({"batch_size": size, "memory": memory}, (f"batch_size={size}", f"objective.cpcc.memory={memory}"))
        for size in MEMORY_BATCH_SIZES
        for memory in (0, 4096)
    ]
    return with_controls(varied(["fastft", "emd"], settings))


# The last one, without overrides, uses the target of the library.
RANK_VARIANTS = (*plain(["flat", "rank"]), Variant("rank", {"target": "mean"}))
_PRINCIPAL = "objective.options.fastft.order=principal"
_THREE_ORDERS = (_PRINCIPAL, "objective.options.fastft.n_orders=3")
ORDER_VARIANTS = (
    Variant("fastft", {"order": "batch order"}),
    Variant("fastft", {"order": "principal"}, (_PRINCIPAL,)),
    Variant("fastft", {"order": "three principal"}, _THREE_ORDERS),
    *plain(["emd"]),
)
