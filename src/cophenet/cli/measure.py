"""The command that computes metrics of feature files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cophenet.cli.printing import print_table
from cophenet.metrics.streaming import StreamedDistance

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = ["measure"]


def measure(
    features: Annotated[
        list[Path],
        typer.Argument(
            metavar="FEATURES...",
            help="Files of features with labels, one after the other, such as embed writes: {formats}. A "
            ".safetensors may hold logits too; a .npy has 'features' in the name, and lies beside one with "
            "'labels' (and 'logits').",
        ),
    ],
    tree: Annotated[Path, typer.Option(metavar="FILE", help="The label tree.")],
    distance: Annotated[
        list[StreamedDistance] | None,
        typer.Option(help="Class distance of CPCC; may be given twice. Both unless given."),
    ] = None,
    train: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Training features, whose class means retrieve the others: MAP."),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Who computes: this process (local), or the workers of Ray (ray).")
    ] = "local",
) -> None:
    """Measure features on a tree: CPCC, MAP with --train, and accuracy if the files hold logits.

    Files are memory-mapped and read in blocks, so that they may be larger than memory. Labels are names of
    classes of the tree; numbers are positions in its classes.

    Example: cophenet measure run/features/source-test.safetensors --tree run/tree.json
    """
    from cophenet._common.checks import check_choice
    from cophenet.metrics.streaming import (
        FeatureShards,
        stream_accuracy,
        stream_cpcc,
        stream_map,
        stream_prototypes,
    )
    from cophenet.tree import Hierarchy

    check_choice("--engine", engine, ("local", "ray"))
    label_tree = Hierarchy.read(tree)
    shards = FeatureShards.open(features, label_tree)
    shards.check_labels(label_tree)
    shown = sys.stderr.isatty()
    rows: list[tuple[str, str, str]] = []
    with _engine(engine, label_tree):
        for name in distance or list(StreamedDistance):
            value = _value(partial(stream_cpcc, shards, label_tree, name.value, progress=shown))
            rows.append(("CPCC", name.value, value))
        if train:
            known = FeatureShards.open(train, label_tree)
            known.check_labels(label_tree)
            for level in label_tree.level_names:
                classes, means = stream_prototypes(known.at_level(label_tree, level), progress=shown)
                own = shards.at_level(label_tree, level)
                rows.append(("MAP", level, _value(partial(stream_map, own, means, classes, progress=shown))))
        if len(shards.logits):
            rates = stream_accuracy(shards, label_tree, progress=shown)
            rows += [("accuracy", level, _value(rate.item)) for level, rate in rates.items()]
    print_table(("metric", "of", "value"), rows)


def _engine(name: str, tree: Hierarchy) -> AbstractContextManager[None]:
    """A context manager that selects where passes over the shards run."""
    if name == "local":
        return nullcontext()
    from cophenet.integrations.ray import ray_passes

    return ray_passes(tree)


def _value(compute: Callable[[], Any]) -> str:
    """A metric as text; the reason if it is undefined."""
    from cophenet._common.checks import with_reasons
    from cophenet.report.table import number

    value, reasons = with_reasons(compute)
    return number(float(value), "fraction") if value == value else f"undefined: {'; '.join(reasons)}"
