"""Buffer reuse: results of nests take the memory of operands that are not read again.

A nest that reads each element of an operand just where it writes a result needs no room for both:
the result overwrites the operand element by element. So a result may take the memory of a leaf
(`CompiledPath.donations`), if no other tensor holds that memory when the plan runs. A temporary
may take the memory of another temporary.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.symbolic_extents import Poly
from wend._engine.compiler.schedule.loop_order import Nest

Shape = tuple[Poly, ...]
#: (bytes, first step, last step)
Life = tuple[Poly, int, int]


def operand_for(nest: Nest, out: int, shape: Shape, free: Container[int]) -> int | None:
    """Return an operand in `free` whose memory the result `out` may take, or None.

    The operand has the shape `shape`, and each element is read just where `out` is written. No
    element may be read after it would have been overwritten.
    """
    store = nest.stores[out]
    if set(nest.outer + nest.inner) - set(nest.loops[out]):
        return None  # each element of `out` is written more than once
    # Each turn of a phase reads all its elements before it writes any; rows have no such order.
    if out in nest.late or out in nest.row_folds or store.row >= 0 or nest.is_row[out]:
        return None
    for load in nest.loads.values():
        if load.base not in free or load.dtype is not store.dtype:
            continue
        alike = [(user, a) for (user, _), a in nest.loads.items() if a.base == load.base]
        if any(
            nest.is_row[user]
            or a.strides != store.strides
            or a.offset != store.offset
            or a.shifts
            or a.row >= 0
            for user, a in alike
        ):
            continue
        if nest.function.shape(load.base) == shape and not _read_later(nest, load.base, out):
            return load.base
    return None


def _read_later(nest: Nest, base: int, out: int) -> bool:
    """Whether a phase later than the writer of a result reads a value from memory."""
    return any(
        (access := nest.loads.get((op.out, k))) is not None and access.base == base
        for phase in range(nest.phase[out] + 1, nest.phases)
        for op in nest.demanded(phase)[0]
        for k in range(len(op.reads))
    )


def shared_places(
    steps: Sequence[Any], lifetimes: Mapping[int, Life]
) -> tuple[dict[int, int], dict[int, Life]]:
    """Find temporaries that take the memory of other temporaries.

    Returns (temporary -> the temporary in whose memory it lies, lifetimes of those with memory of
    their own).
    """
    homes: dict[int, int] = {}
    lives = dict(lifetimes)
    for k, step in enumerate(steps):
        if not isinstance(step, Kernel) or step.nest is None:
            continue
        free = {i for i in step.reads if i in lifetimes and lifetimes[i][2] == k}
        for out in step.writes:
            if out not in lifetimes:
                continue
            taken = operand_for(step.nest, out, step.nest.function.shape(out), free)
            if taken is None:
                continue
            free.discard(taken)
            home = homes[out] = homes.get(taken, taken)
            size, first, _ = lives[home]
            lives[home] = size, first, lives.pop(out)[2]
    return homes, lives
