"""Draws docs/digits.svg: class distances of the digits, without and with the regularizer."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from scipy.spatial.distance import squareform

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import digits

from cophenet import class_distances, cpcc

CELL, LEFT, TOP, GAP = 26, 64, 56, 96
ORDER = [int(digit) for members in digits.SHAPES.values() for digit in members]
# Viridis, which keeps its order for colour-blind readers and in grey print.
STOPS = [(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)]


def colour(share: float) -> str:
    """A colour of the scale for a number from 0 to 1."""
    position = min(max(share, 0.0), 1.0) * (len(STOPS) - 1)
    low = min(int(position), len(STOPS) - 2)
    pairs = zip(STOPS[low], STOPS[low + 1], strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (position - low)):02x}" for a, b in pairs)


def heat_map(title: str, weight: float, x: int) -> list[str]:
    """One matrix as SVG elements."""
    data = digits.Data()
    encoder, _ = digits.train(data, seed=0, weight=weight)
    with torch.no_grad():
        _, rho = class_distances(encoder(data.x_test), data.y_test, "fastft")
    table = squareform(rho.numpy())[ORDER][:, ORDER]
    share = table / table.max()
    score = cpcc(rho, digits.TREE.condensed()).item()
    middle = x + 5 * CELL
    parts = [f'<text x="{middle}" y="22" class="title">{title}</text>']
    parts.append(f'<text x="{middle}" y="42">CPCC {score:.2f}</text>')
    size = f'width="{CELL}" height="{CELL}"'
    for i, digit in enumerate(ORDER):
        centre = i * CELL + CELL / 2
        parts.append(f'<text x="{x - 12}" y="{TOP + centre + 5}">{digit}</text>')
        parts.append(f'<text x="{x + centre}" y="{TOP + 10 * CELL + 18}">{digit}</text>')
        parts += [
            f'<rect x="{x + j * CELL}" y="{TOP + i * CELL}" {size} fill="{colour(v)}"/>'
            for j, v in enumerate(share[i])
        ]
    start = 0
    for members in digits.SHAPES.values():
        side = CELL * len(members)
        corner = start * CELL
        parts.append(
            f'<rect x="{x + corner}" y="{TOP + corner}" width="{side}" height="{side}" class="group"/>'
        )
        start += len(members)
    return parts


def main() -> None:
    """Write the picture."""
    width, height = LEFT + 20 * CELL + GAP + 24, TOP + 10 * CELL + 56
    style = (
        "text{font:14px sans-serif;fill:#555;text-anchor:middle}.title{font-weight:bold}"
        ".group{fill:none;stroke:#fff;stroke-width:3}"
    )
    caption = "distance between feature clouds: dark is near, bright is far; boxes: loops, curves, strokes"
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Distances between digit classes without and with the CPCC regularizer</title>",
        f"<style>{style}</style>",
        *heat_map("cross entropy", 0.0, LEFT),
        *heat_map("cross entropy + (1 - CPCC)", 1.0, LEFT + 10 * CELL + GAP),
        f'<text x="{width / 2}" y="{height - 12}" style="font-size:12px">{caption}</text>',
        "</svg>",
    ]
    (Path(__file__).parent / "digits.svg").write_text("\n".join(elements) + "\n")


if __name__ == "__main__":
    main()
