"""A randomly shifted QuadTree over a cloud of points, as the cells of every level."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["quadtree_cells"]

# Halvings of the root cube. Float32 neighbours need 24 below the extent; the rest is for the root's size.
_MAX_DEPTH = 50


def _grid_coordinates(points: NDArray[np.float64], shift: NDArray[np.float64]) -> NDArray[np.int64]:
    """(n, d) cell of every point in the finest grid; its leading bits are the cells above."""
    low = points.min(0)
    extent = np.ptp(points, axis=0).sum()
    if not extent > 0:
        return np.zeros(points.shape, dtype=np.int64)
    position = ((points - low) / extent + shift) / 2
    # Rounding may touch 1 from below: keep the last cell closed.
    grid: NDArray[np.int64] = np.minimum(position * 2.0**_MAX_DEPTH, 2.0**_MAX_DEPTH - 1).astype(np.int64)
    return grid


def _same_rows(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First occurrence of every distinct row, and which distinct row each one is."""
    raw = np.ascontiguousarray(rows).view(f"S{rows.shape[1] * rows.itemsize}").ravel()
    _, first, inverse = np.unique(raw, return_index=True, return_inverse=True)
    return first, inverse


def quadtree_cells(points: NDArray[np.float64], shift: NDArray[np.float64]) -> NDArray[np.int64]:
    """Cells of a QuadTree over the points, from the root cube to cells of one distinct point.

    The root cube has twice the side of the largest l1 distance the points could have (the sum of
    their ranges over the coordinates) and is moved by a random shift, up to half its side; every
    level halves the side. Two points are then separated by a cell of side s with probability at
    most |x - y|_1 / s on every level. Starting from the largest range of one coordinate instead
    would, in hundreds of dimensions, separate all points at once, near ones and far ones alike.

    Levels that split no cell are left out: they change nothing that is computed on the tree.

    Args:
        points: (n, d) finite.
        shift: (d,) in [0, 1), in halves of the root's side.

    Returns:
        (levels, n) number of every point's cell, level by level; all 0 on the first level. On the
        last, cells are shared only by points that coincide (to 2^-50 of the root's side).

    Example:
        >>> quadtree_cells(np.array([[0.0], [8.0], [1.0], [0.0]]), np.array([0.25]))
        array([[0, 0, 0, 0],
               [0, 1, 0, 0],
               [0, 1, 2, 0]])
    """
    grid = _grid_coordinates(points, shift)
    first, inverse = _same_rows(grid)
    grid = grid[first]
    cell = np.zeros(len(grid), dtype=np.int64)
    levels = [cell]
    open_rows = np.arange(len(grid))
    for depth in range(_MAX_DEPTH - 1, -1, -1):
        if len(open_rows) < 2:
            break
        halves = np.packbits((grid[open_rows] >> depth) & 1 != 0, axis=1)
        parts, part = _same_rows(np.concatenate((cell[open_rows, None].view(np.uint8), halves), axis=1))
        split = open_rows[parts][part]  # a cell is named by its first point
        if (split != cell[open_rows]).any():
            cell = cell.copy()
            cell[open_rows] = split
            levels.append(cell)
            open_rows = open_rows[np.bincount(cell)[split] > 1]
    return np.stack(levels)[:, inverse]
