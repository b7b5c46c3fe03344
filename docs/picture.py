"""Draws docs/digits.svg: class distances of the digits, without and with the regularizer."""

from __future__ import annotations

import tempfile
from pathlib import Path

from scipy.spatial.distance import squareform

from cophenet.evaluation import evaluate
from cophenet.recipes import load_recipe
from cophenet.report.matrices import tree_order
from cophenet.runs import Run, train

CELL, LEFT, TOP, GAP = 26, 64, 56, 96
# Viridis, which keeps its order for colour-blind readers and in grey print.
STOPS = [(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)]


def colour(share: float) -> str:
    """A colour of the scale for a number from 0 to 1."""
    position = min(max(share, 0.0), 1.0) * (len(STOPS) - 1)
    low = min(int(position), len(STOPS) - 2)
    pairs = zip(STOPS[low], STOPS[low + 1], strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (position - low)):02x}" for a, b in pairs)


def trained(objective: str, folder: Path) -> Run:
    """All ten digits, trained with one seed and measured."""
    overrides = [f"objective.name={objective}", "data.domain=full", "one_shot=null"]
    run = train(load_recipe("digits", overrides=overrides), folder / objective, threads=1, progress=False)
    evaluate(run)
    return run


def heat_map(title: str, run: Run, x: int) -> list[str]:
    """One matrix as SVG elements."""
    assert run.details is not None
    assert run.results is not None
    tree, order = run.tree, tree_order(run.tree)
    table = squareform(run.details["class_distances"]["l2"])[order][:, order]
    share = table / table.max()
    score = run.results["metrics"]["full/cpcc/l2"]["mean"]
    middle = x + 5 * CELL
    parts = [f'<text x="{middle}" y="22" class="title">{title}</text>']
    parts.append(f'<text x="{middle}" y="42">CPCC {score:.2f}</text>')
    size = f'width="{CELL}" height="{CELL}"'
    for i, digit in enumerate(tree.classes[label] for label in order):
        centre = i * CELL + CELL / 2
        parts.append(f'<text x="{x - 12}" y="{TOP + centre + 5}">{digit}</text>')
        parts.append(f'<text x="{x + centre}" y="{TOP + 10 * CELL + 18}">{digit}</text>')
        parts += [
            f'<rect x="{x + j * CELL}" y="{TOP + i * CELL}" {size} fill="{colour(v)}"/>'
            for j, v in enumerate(share[i])
        ]
    start = 0
    for count in tree.sizes[tree.nodes_at(1)] - 1:  # without the group itself
        side = CELL * count
        corner = start * CELL
        parts.append(
            f'<rect x="{x + corner}" y="{TOP + corner}" width="{side}" height="{side}" class="group"/>'
        )
        start += count
    return parts


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        flat, fastft = (trained(objective, Path(folder)) for objective in ("flat", "fastft"))
        maps = heat_map("cross entropy", flat, LEFT)
        maps += heat_map("cross entropy + (1 - CPCC)", fastft, LEFT + 10 * CELL + GAP)
    width, height = LEFT + 20 * CELL + GAP + 24, TOP + 10 * CELL + 56
    style = (
        "text{font:14px sans-serif;fill:#555;text-anchor:middle}.title{font-weight:bold}"
        ".group{fill:none;stroke:#fff;stroke-width:3}"
    )
    caption = "distances of class centroids: dark is near, bright is far; boxes: loops, strokes, curves"
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Distances between digit classes without and with the CPCC regularizer</title>",
        f"<style>{style}</style>",
        *maps,
        f'<text x="{width / 2}" y="{height - 12}" style="font-size:12px">{caption}</text>',
        "</svg>",
    ]
    (Path(__file__).parent / "digits.svg").write_text("\n".join(elements) + "\n")


if __name__ == "__main__":
    main()
