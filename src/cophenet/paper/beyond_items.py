"""Items beyond the paper: objectives compared by purpose, by measuring distance and by settings.

"all" does not include them.
"""

from __future__ import annotations

from dataclasses import replace

from cophenet.paper.item import Item, later
from cophenet.paper.variants import (
    AS_PUBLISHED,
    BASELINES,
    BATCH_SIZES,
    DISTANCES,
    MORE_DISTANCES,
    Variant,
    always,
    plain,
    varied,
    with_controls,
)

__all__ = ["BEYOND_ITEMS", "TUNED_ON"]

_DATA = ("cifar100", "glosses", "cifar10")
_CIFAR100 = ("cifar100",)
_OBJECTIVES = (*DISTANCES, "flat", *BASELINES, "cosine")

# Tuning is evaluated on a part of the training samples instead of the test part.
TUNED_ON = "data.validation=0.2"
_RATES = (1e-3, 3e-3)
# The second setting to tune for each objective, with two values; for objectives not listed the weight decay.
_SECOND: dict[str, tuple[str, tuple[float, float]]] = {
    **dict.fromkeys(DISTANCES, ("objective.cpcc.weight={}", (0.3, 1.0))),
    "cosine": ("objective.options.cosine={{cpcc: {{weight: {}}}}}", (0.1, 0.3)),
    "hxe": ("objective.options.hxe.alpha={}", (0.1, 0.4)),
    "soft": ("objective.options.soft.beta={}", (4.0, 10.0)),
    "quadruplet": ("objective.options.quadruplet.weight={}", (0.2, 1.0)),
    "rank": ("objective.options.rank.weight={}", (0.3, 1.0)),
}
_DECAY = ("optimizer.weight_decay={}", (1e-2, 1e-1))

_WEIGHTS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_UNIT = "objective.cpcc.normalize=true"
# Parts of the objective `cosine`, and CPCC combined with other objectives.
_COMBINATIONS = (
    # The better learning rate for Flat; the recipe has the better one for the others, see docs/models.md.
    Variant("flat", {"variant": "rate 0.001"}, ("optimizer.lr=1e-3",)),
    *(
        Variant("fastft", {"variant": f"unit vectors, weight {w:g}"}, (_UNIT, f"objective.cpcc.weight={w}"))
        for w in (0.1, 0.3, 1.0)
    ),
    *(
        Variant(
            "mtl",
            {"variant": f"with FastFT of weight {w:g}"},
            (f"objective.options.mtl={{cpcc: {{distance: fastft, weight: {w}}}}}",),
        )
        for w in (0.1, 0.3, 1.0)
    ),
    Variant(
        "sumloss",
        {"variant": "with FastFT of weight 0.3"},
        ("objective.options.sumloss={cpcc: {distance: fastft, weight: 0.3}}",),
    ),
    *(
        Variant("cosine", {"variant": text}, (f"objective.options.cosine={options}",))
        for text, options in {
            "cosine head alone": "{coarse_weight: 0, cpcc: {weight: 0}}",
            "without CPCC": "{cpcc: {weight: 0}}",
            "without the coarse head": "{coarse_weight: 0}",
            "l2 in place of FastFT": "{cpcc: {distance: l2}}",
            "weight 0.3": "{cpcc: {weight: 0.3}}",
            "coarse weight 0.5": "{coarse_weight: 0.5}",
        }.items()
    ),
)
# All layers are trained, on smaller images and for fewer epochs, as a step costs forty times as much.
_TRAINED_TRUNK = (
    "model.frozen=false",
    "data.image_size=64",
    "data.augment=cifar",
    "batch_size=128",
    "epochs=5",
)


# Each coarse class has five modes, its fine classes, whose labels no objective gets.
_SEVERAL_MODES = ("data.options={classes: coarse}", "data.domain=full", "one_shot=null")


def _tuning() -> tuple[Variant, ...]:
    """Four trials for each objective: two learning rates, each with two values of a second setting."""
    return tuple(
        Variant(
            name,
            {"lr": rate, override.partition("=")[0].rpartition(".")[2]: value},
            (TUNED_ON, *AS_PUBLISHED.get(name, ()), f"optimizer.lr={rate}", override.format(value)),
            seeds=1,
        )
        for name in _OBJECTIVES
        for override, values in [_SECOND.get(name, _DECAY)]
        for rate in _RATES
        for value in values
    )


def _pareto() -> tuple[Variant, ...]:
    """Objectives over a range of weights, and combinations."""
    weights = [({"variant": f"weight {w:g}"}, (f"objective.cpcc.weight={w}",)) for w in _WEIGHTS]
    others = (replace(variant, seeds=3) for variant in plain(("flat", "mtl", "sumloss", "cosine")))
    return (*others, *varied(("l2", "emd", "fastft"), weights), *_COMBINATIONS)


def _equal_steps(_recipe: str, scale: str) -> tuple[Variant, ...]:
    """Batches of several sizes, each for the number of epochs that gives the same number of steps."""
    size, epochs = (128, 20) if scale == "scratch" else (256, 15) if scale == "laptop" else (128, 200)
    settings = [
        ({"batch_size": each}, (f"batch_size={each}", f"epochs={max(1, round(epochs * each / size))}"))
        for each in BATCH_SIZES
    ]
    return with_controls(varied(("l2", "emd", "fastft"), settings))


def _item(
    name: str, title: str, *, table: str = "purposes", figure: str = "pareto_figure", **about: object
) -> Item:
    tables, figures = later("beyond_tables", table), later("beyond_tables", figure)
    return Item(name, title, (), tables=tables, figures=figures, alone=True, **about)  # type: ignore[arg-type]


BEYOND_ITEMS: tuple[Item, ...] = (
    _item(
        "tuning",
        "learning rate and weight of every objective, on a validation part",
        table="tuning",
        figure="tuning_figure",
        recipes=_CIFAR100,
        variants=always(_tuning()),
    ),
    _item(
        "objectives",
        "all objectives on three data sets, with controls",
        recipes=_DATA,
        variants=always(with_controls(plain(_OBJECTIVES))),
    ),
    _item(
        "yardsticks",
        "trained with one distance, measured by another",
        table="yardsticks",
        figure="yardsticks_figure",
        recipes=_DATA,
        variants=always(tuple(replace(v, seeds=3) for v in plain(("flat", *DISTANCES, *MORE_DISTANCES)))),
    ),
    _item(
        "pareto",
        "which objective for which purpose: weights and combinations",
        recipes=_DATA,
        variants=always(_pareto()),
    ),
    _item(
        "several-modes",
        "classes of five modes each: coarse classes under a coarser tree",
        recipes=_CIFAR100,
        variants=always(
            with_controls(varied(("flat", *DISTANCES), [({"classes": "coarse"}, _SEVERAL_MODES)]))
        ),
        fixed=True,
    ),
    _item(
        "equal-steps",
        "TestCPCC by batch size at equal steps",
        recipes=_CIFAR100,
        variants=_equal_steps,
        fixed=True,
    ),
    _item(
        "fine-tuning",
        "the backbone trained too",
        recipes=_CIFAR100,
        variants=always(
            # The setting is empty, so that claims are judged in this regime too, beside the frozen backbone.
            with_controls(varied(("flat", "l2", "fastft", "emd"), [({}, _TRAINED_TRUNK)]))
        ),
        minutes=160.0,
        fixed=True,
    ),
)
