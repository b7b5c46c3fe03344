"""Draws docs/glosses.svg: distances between classes without and with the regularizer.

Usage: python docs/picture.py RUN RUN; evaluated runs of one seed, recipe glosses, objectives flat and fastft.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import squareform

from cophenet import Hierarchy
from cophenet.runs import Run

# Boxes are drawn around groups of so many classes, and named.
LEAST, MOST = 7, 45
TITLES = ("cross entropy", "cross entropy + (1 - CPCC)")


def groups(tree: Hierarchy) -> dict[str, tuple[int, int]]:
    """Name of a group -> its first place and its number of classes, in the order of the tree."""
    places = {int(tree.leaves[label]): place for place, label in enumerate(tree.class_order)}
    found: dict[str, tuple[int, int]] = {}
    end = 0  # of the nodes below the last group
    for node in range(1, tree.num_nodes):
        below = [places[leaf] for leaf in range(node, node + int(tree.sizes[node])) if leaf in places]
        if node >= end and len(below) <= MOST:
            end = node + int(tree.sizes[node])
            if len(below) >= LEAST:
                name = tree.names[node].rpartition("/")[2].partition(".")[0].replace("_", " ")
                found[name] = (min(below), len(below))
    return found


def main(*folders: str) -> None:
    """Write the picture."""
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "glosses", "font.size": 9}
    runs = [Run.open(folder) for folder in folders]
    tree = runs[0].tree
    panels = {"distances in the tree\n(WordNet)": tree.distances()}
    for title, run in zip(TITLES, runs, strict=True):
        assert run.details is not None
        assert run.results is not None
        metrics = run.results["metrics"]
        score, accuracy = metrics["full/cpcc/fastft"], metrics[f"full/accuracy/{tree.level_names[-1]}"]
        label = f"{title}\nCPCC {score['mean']:.2f}, accuracy {accuracy['mean']:.1%}"
        panels[label] = squareform(run.details["class_distances"]["fastft"])
    order, boxes = tree.class_order, groups(tree)
    fig, axes = plt.subplots(1, 3, figsize=(10.4, 3.6), layout="constrained")
    for ax, (title, table) in zip(axes, panels.items(), strict=True):
        low = table[np.triu_indices(len(table), 1)].min()  # the diagonal, which is 0, would take the contrast
        colors = mpl.colormaps["viridis"].resampled(16)
        ax.imshow(np.maximum(table, low)[order][:, order], interpolation="none", cmap=colors)
        ax.set_title(title, fontsize=10)
        ax.set(xticks=[], yticks=[])
        for start, count in boxes.values():
            ax.add_patch(plt.Rectangle((start - 0.5,) * 2, count, count, fill=False, color="white", lw=1.2))
    axes[0].set_yticks([start + count / 2 for start, count in boxes.values()], list(boxes), fontsize=8)
    axes[0].tick_params(length=0)
    fig.savefig(Path(__file__).parent / "glosses.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
