"""The QuadTree of FlowTree: cells of randomly shifted grids, level by level."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["quadtree_cells"]

Indices = NDArray[np.int64]

# Halvings of the root cube. Float32 neighbours need 24 below the extent; the rest is for the root's size.
_MAX_DEPTH = 50
# Levels that are processed at a time: 16-bit integers are compared faster than 64-bit ones.
_PLANE = 10


def _grid_coordinates(points: NDArray[np.float64], shift: NDArray[np.float64]) -> Indices:
    """(n, d) cell of every point in the finest grid; its leading bits are the cells above."""
    low = points.min(0)
    extent = (points.max(0) - low).sum()
    if not extent > 0:
        return np.zeros(points.shape, dtype=np.int64)
    # In units of the finest cells, from 0 to 2^depth; computed in place.
    position = points - low
    position /= extent
    position += shift
    position *= 2.0 ** (_MAX_DEPTH - 1)
    # Rounding may reach the upper end of the root cube: put such points into the last cell.
    grid: Indices = np.minimum(position, 2.0**_MAX_DEPTH - 1, out=position).astype(np.int64)
    return grid


def _same_rows(rows: NDArray[Any]) -> tuple[Indices, Indices]:
    """First occurrence of every distinct row, and for each row the number of its distinct row."""
    raw = np.ascontiguousarray(rows).view(f"S{rows.shape[1] * rows.itemsize}").ravel()
    _, first, inverse = np.unique(raw, return_index=True, return_inverse=True)
    return first, inverse


def quadtree_cells(points: NDArray[np.float64], shift: NDArray[np.float64]) -> Indices:
    """Cells of a QuadTree over the points, from the root cube to cells of one distinct point.

    The randomly shifted grids of Indyk and Thaper, "Fast Image Retrieval via Embeddings", 2003,
    used by Backurs et al. 2020 (arXiv:1910.04126).

    The root cube has twice the side of the largest l1 distance the points could have (the sum of
    their ranges over the coordinates) and is moved by a random shift, up to half its side; every
    level halves the side. Two points are then separated by a cell of side s with probability at
    most |x - y|_1 / s on every level. Starting from the largest range of one coordinate instead
    would, in hundreds of dimensions, separate all points at once, near ones and far ones alike.

    Levels that split no cell are left out: they change nothing that is computed on the tree.

    Args:
        points: (n, d) finite.
        shift: (d,) in [0, 1), in units of half the root's side.

    Returns:
        (levels, n) cell of every point on every level, numbered by the first point in the cell; all 0 on the
        first level. On the last, only points that coincide (to 2^-50 of the root's side) share a cell.

    Example:
        >>> quadtree_cells(np.array([[0.0], [8.0], [1.0], [0.0]]), np.array([0.25]))
        array([[0, 0, 0, 0],
               [0, 1, 0, 0],
               [0, 1, 2, 0]])
    """
    grid = _grid_coordinates(points, shift)
    cell = np.zeros(len(grid), dtype=np.int64)
    levels = [cell]
    rows = np.arange(len(grid))  # points whose cell may have to be split
    twin = rows.copy()  # the first point at the same position
    for depth in range(_MAX_DEPTH - _PLANE, -1, -_PLANE):
        if len(rows) < 2:
            break
        if depth < _MAX_DEPTH - _PLANE:  # points that still share a cell may coincide
            first, same = _same_rows(grid[rows])
            twin[rows] = rows[first[same]]
            rows = rows[np.sort(first)]
        plane = (grid >> depth).astype(np.uint16)[rows]
        for bit in range(_PLANE - 1, -1, -1):
            halves = np.packbits(plane & (1 << bit) != 0, axis=1)
            parts, part = _same_rows(np.concatenate((cell[rows, None].view(np.uint8), halves), axis=1))
            split = rows[parts[part]]
            if (split != cell[rows]).any():
                cell = cell.copy()
                cell[rows] = split
                levels.append(cell)
                shared = np.bincount(split)[split] > 1
                rows, plane = rows[shared], plane[shared]
    cells: Indices = np.stack(levels).take(twin, axis=1)
    return cells
