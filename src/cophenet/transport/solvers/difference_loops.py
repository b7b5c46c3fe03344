"""Numba kernels on differences of samples: distances of pairs, and the forces that pull their samples.

They take the time of reading the samples, where torch writes all differences to memory and reads them again.
The results are bit-identical to those of torch's operations in `transport.differences`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from cophenet.transport.differences import LANES
from cophenet.transport.solvers.decorators import borrowed, kernel
from cophenet.transport.solvers.problem import Floats, Indices

__all__ = ["lengths_of_pairs", "pull_rows"]

_INT = ir.IntType(64)


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Write the code of `_squared_gap`: the same additions in the same order on any processor."""
    real = context.get_value_type(signature.return_type)
    arrays = zip(signature.args, arguments, strict=True)
    left, right = (context.make_array(kind)(context, builder, value) for kind, value in arrays)
    size = builder.extract_value(left.shape, 0)
    begin = builder.block
    loop, after = (builder.append_basic_block(f"squares.{name}") for name in ("loop", "after"))

    def whole(number: int) -> Any:
        return ir.Constant(_INT, number)

    def square(start: Any, width: int) -> Any:
        vector = ir.VectorType(real, width)
        sides = []
        for array in (left, right):
            place = builder.bitcast(builder.gep(array.data, [start]), vector.as_pointer())
            sides.append(builder.load(place, align=context.get_abi_sizeof(real)))
        gap = builder.fsub(*sides)
        return builder.fmul(gap, gap)

    end = builder.and_(size, whole(-LANES))
    zeros = ir.Constant(ir.VectorType(real, LANES), [0.0] * LANES)
    builder.cbranch(builder.icmp_unsigned("==", end, whole(0)), after, loop)
    builder.position_at_end(loop)
    start, total = builder.phi(_INT), builder.phi(zeros.type)
    more, following = builder.fadd(total, square(start, LANES)), builder.add(start, whole(LANES))
    for phi, first, then in ((start, whole(0), following), (total, zeros, more)):
        phi.add_incoming(first, begin)
        phi.add_incoming(then, loop)
    builder.cbranch(builder.icmp_unsigned("<", following, end), loop, after)
    builder.position_at_end(after)
    lanes, start, width = builder.phi(zeros.type), end, LANES
    lanes.add_incoming(zeros, begin)
    lanes.add_incoming(more, loop)
    while width > 1:
        width //= 2
        nothing = ir.Constant(lanes.type, ir.Undefined)
        kept = (
            ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(low, low + width)))
            for low in (0, width)
        )
        lanes = builder.fadd(*[builder.shuffle_vector(lanes, nothing, part) for part in kept])
        before = builder.block
        with builder.if_then(builder.icmp_unsigned("!=", builder.and_(size, whole(width)), whole(0))):
            more, following = builder.fadd(lanes, square(start, width)), builder.add(start, whole(width))
            inside = builder.block
        lanes, start = (_either(builder, before, inside, *two) for two in ((lanes, more), (start, following)))
    return builder.extract_element(lanes, ir.Constant(ir.IntType(32), 0))


def _either(builder: Any, before: Any, inside: Any, old: Any, new: Any) -> Any:
    phi = builder.phi(old.type)
    phi.add_incoming(old, before)
    phi.add_incoming(new, inside)
    return phi


def _typed(_: Any, left: Any, right: Any) -> Any:
    return left.dtype(left, right), _generate


# Squared distance of two contiguous rows (d,), summed as by torch in `transport.differences`. Numba would add
# one number after the other or, if it may reorder sums, in an order of its own choice.
_squared_gap: Any = intrinsic(_typed)


@kernel
def lengths_of_pairs(z: Floats, source: Indices, target: Indices, lengths: Floats) -> None:
    """Write the distances (E,) of pairs of samples (B, d) into `lengths`."""
    rows = borrowed(z)
    for e in range(len(source)):
        i, j = source[e], target[e]
        if min(i, j) < 0 or max(i, j) >= len(z):
            raise IndexError("a plan must be of the samples of the batch")
        lengths[e] = np.sqrt(_squared_gap(rows[i], rows[j]))


@kernel
def pull_rows(
    z: Floats, source: Indices, target: Indices, pull: Floats, only: tuple[int, int], out: Floats
) -> None:
    """Add pull * (z_i - z_j) to row i of `out` (B, d) and subtract it from row j, for pairs (E,).

    Only rows `only[0]:only[1]` of `out` are changed, so that threads can share the rows among them.
    """
    low, high = only
    rows, forces = borrowed(z), borrowed(out)
    for e in range(len(source)):
        i, j = source[e], target[e]
        if min(i, j) < 0 or max(i, j) >= len(z):
            raise IndexError("a plan must be of the samples of the batch")
        own, other = low <= i < high, low <= j < high
        if not (own or other):
            continue
        left, right, strength = rows[i], rows[j], pull[e]
        if own and other:
            to, by = forces[i], forces[j]
            for c in range(len(left)):
                force = (left[c] - right[c]) * strength
                to[c] += force
                by[c] -= force
        elif own:
            to = forces[i]
            for c in range(len(left)):
                to[c] += (left[c] - right[c]) * strength
        else:
            by = forces[j]
            for c in range(len(left)):
                by[c] -= (left[c] - right[c]) * strength
