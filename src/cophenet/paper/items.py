"""The items of the paper, and some beyond it, as data: what each shows and what must be trained for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cophenet._common.checks import check_choice
from cophenet.paper.variants import (
    BASELINES,
    BREEDS,
    CORE,
    DISTANCES,
    PAPER_DATA,
    Setting,
    Variant,
    plain,
    varied,
    with_controls,
)

__all__ = ["ITEMS", "SUBTREE", "Item", "find_items", "item_names"]

Variants = Callable[[str, str], tuple[Variant, ...]]
_FULL = ("data.domain=full", "one_shot=null")
_CIFAR100 = ("cifar100",)
# The coarse class of CIFAR-100 whose edges the study of tree weights makes longer.
SUBTREE = "aquatic_mammals"
_FASTFT = "objective.options.fastft"


def _none(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    return ()


def _core(recipe: str, _scale: str) -> tuple[Variant, ...]:
    # The paper has no EMD on BREEDS, for its cost.
    return plain(name for name in CORE if not (recipe in BREEDS and name == "emd"))


def _with_controls(recipe: str, scale: str) -> tuple[Variant, ...]:
    return with_controls(_core(recipe, scale))


def _l2(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    return plain(["l2"])


def _modes(recipe: str, scale: str) -> tuple[Variant, ...]:
    # The paper has l2 alone on the data sets beside CIFAR-100.
    others = recipe in PAPER_DATA and recipe not in _CIFAR100
    return _l2(recipe, scale) if others else _core(recipe, scale)


def _umap(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    return plain(["l2", "emd"])


def _baselines(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    return with_controls(plain((*DISTANCES, "flat", *BASELINES)))


def _rank(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    return plain(["flat", "rank"])


def _batch_sizes(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    sizes = (64, 128, 512, 1024)
    settings = [({"batch_size": size}, (f"batch_size={size}",)) for size in sizes]
    return with_controls(varied(["l2", "emd", "fastft"], settings))


def _weights(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    weights = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0)
    settings = [({"lambda": weight}, (f"objective.cpcc.weight={weight}",)) for weight in weights]
    return with_controls(varied(["l2", "emd", "fastft"], settings))


def _backbones(_recipe: str, scale: str) -> tuple[Variant, ...]:
    names = ("resnet18", "resnet34", "resnet50") if scale == "paper" else ("resnet10-w16", "resnet18-w16")
    settings: list[tuple[Setting, tuple[str, ...]]] = [
        ({"backbone": name}, (f"model.backbone={name}",)) for name in names
    ]
    if scale == "paper":
        # ImageNet weights of these names are looked for beside the run, as in the recipe of iNaturalist.
        settings += [
            ({"backbone": name}, (f"model={{backbone: {name}, weights: {name}.pth}}", "data.image_size=224"))
            for name in ("vit_b_16", "vit_l_16")
        ]
    else:
        settings.insert(1, ({"backbone": "as in the recipe"}, ()))
    return with_controls(varied(["l2", "emd", "fastft"], settings))


def _depths(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    settings = [
        ({"depth": depth}, (*_FULL, "batch_size=128", f"data.options.depth={depth}")) for depth in (3, 4, 5)
    ]
    return with_controls(varied(["emd", "fastft"], settings))


def _edge_weights(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    settings: list[tuple[Setting, tuple[str, ...]]] = [({"weight": 1}, (*_FULL, "batch_size=1024"))]
    settings += [
        ({"weight": factor}, (*_FULL, "batch_size=1024", f"tree.node_weights.{SUBTREE}={factor}.0"))
        for factor in (2, 4)
    ]
    return with_controls(varied(["emd", "fastft"], settings))


def _flow_weights(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    settings = [
        ({"flow_weights": scheme}, (f"objective.cpcc.flow_weights={scheme}",))
        for scheme in ("uniform", "distance", "inverse")
    ]
    return with_controls(varied(["fastft", "emd"], settings))


def _times(recipe: str, _scale: str) -> tuple[Variant, ...]:
    batch = ("batch_size=128",) if recipe == "cifar10" else ()
    return varied(CORE, [({}, ("epochs=3", *batch))])


def _shuffled(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    return with_controls(plain(CORE))


def _orders(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    principal = f"{_FASTFT}.order=principal"
    return with_controls(
        (
            Variant("fastft", {"order": "batch order"}, seeds=3),
            Variant("fastft", {"order": "principal"}, (principal,), seeds=3),
            Variant("fastft", {"order": "three principal"}, (principal, f"{_FASTFT}.n_orders=3"), seeds=3),
            *plain(["emd"]),
        )
    )


def _memory(_recipe: str, _scale: str) -> tuple[Variant, ...]:
    settings = [
        ({"batch_size": size, "memory": memory}, (f"batch_size={size}", f"objective.cpcc.memory={memory}"))
        for size in (64, 128, 512)
        for memory in (0, 4096)
    ]
    return with_controls(varied(["fastft", "emd"], settings))


@dataclass(frozen=True)
class Item:
    """Something to reproduce.

    Attributes:
        name: What it is called on the command line.
        title: What it shows.
        labels: Labels in the paper; none for what is beyond it.
        recipes: The data sets, by their recipes.
        variants: What is trained, by recipe and scale.
        minutes: What it computes beside the runs takes on a laptop.
        fixed: Whether it makes sense on its own recipes only.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    recipes: tuple[str, ...] = ()
    variants: Variants = _none
    minutes: float = 0.0
    fixed: bool = False


ITEMS: tuple[Item, ...] = (
    Item("data", "sizes of the data sets", ("tab:data-stats",), PAPER_DATA, minutes=1),
    Item(
        "testcpcc", "TestCPCC of all objectives, with control", ("tab:testcpcc",), PAPER_DATA, _with_controls
    ),
    Item(
        "coarse",
        "coarse accuracy and retrieval",
        ("tab:coarse", "tab:coarse-detail", "tab:breeds-coarse"),
        PAPER_DATA,
        _core,
    ),
    Item(
        "fine",
        "fine accuracy and retrieval",
        ("tab:fine", "tab:fine-detail", "tab:breeds-fine"),
        PAPER_DATA,
        _core,
    ),
    Item(
        "modes",
        "mixture components per class",
        ("fig:CIFAR100-gmm_comparison",),
        PAPER_DATA,
        _modes,
        minutes=15,
    ),
    Item("umap", "UMAP of l2 and EMD features", ("fig:umap",), _CIFAR100, _umap, minutes=1),
    Item("baselines", "CPCC of fifteen objectives", ("fig:hierarchical-baselines",), _CIFAR100, _baselines),
    Item(
        "scatter",
        "CPCC against mean fine and coarse metrics",
        ("fig:hierarchical-baselines",),
        _CIFAR100,
        _baselines,
    ),
    Item("rank", "Flat against the rank loss", ("tab:rank",), _CIFAR100, _rank),
    Item("batch-size", "TestCPCC by batch size", ("fig:cpcc_ablation",), _CIFAR100, _batch_sizes),
    Item("weight", "TestCPCC by the weight lambda", ("fig:cpcc_ablation",), _CIFAR100, _weights),
    Item("backbone", "TestCPCC by backbone", ("fig:cpcc_ablation",), _CIFAR100, _backbones),
    Item(
        "tree-depth",
        "trees of depth 3, 4 and 5",
        ("tab:tree-depth-tab", "fig:tree-depth-distM"),
        _CIFAR100,
        _depths,
        fixed=True,
    ),
    Item(
        "tree-weights",
        "a subtree of weight 1, 2 and 4",
        ("tab:tree-weight-tab", "fig:tree-weight-distM"),
        _CIFAR100,
        _edge_weights,
        fixed=True,
    ),
    Item(
        "flow-weights",
        "uniform, distance and inverse flow weights",
        ("tab:comparison_colored_normalized",),
        _CIFAR100,
        _flow_weights,
    ),
    Item("synthetic", "time and error of distances", ("fig:synthetic", "tab:ot_comparison"), minutes=8),
    Item("epoch-time", "seconds per epoch", ("tab:ot-wallclock",), ("cifar10", "inat21-mini"), _times),
    Item("batch-time", "seconds per batch, Bures too", ("tab:bures-others",), minutes=1),
    Item("shuffled", "does the tree help? shuffled-tree control", (), _CIFAR100, _shuffled),
    Item("orders", "FastFT in batch and principal order", (), _CIFAR100, _orders, minutes=2),
    Item("memory", "cross-batch memory against batch size", (), _CIFAR100, _memory),
)


def item_names() -> tuple[str, ...]:
    """Names of all items.

    Example:
        >>> item_names()[:3]
        ('data', 'testcpcc', 'coarse')
    """
    return tuple(item.name for item in ITEMS)


def find_items(names: tuple[str, ...]) -> tuple[Item, ...]:
    """Items by name, in the order of the list; "all" stands for every one.

    Raises:
        ValueError: If there is no such item.

    Example:
        >>> [item.name for item in find_items(("fine", "data"))]
        ['data', 'fine']
    """
    for name in names:
        check_choice("item", name, ("all", *item_names()))
    return tuple(item for item in ITEMS if "all" in names or item.name in names)
