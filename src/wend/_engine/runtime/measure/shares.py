"""Shares of time: how long each op of a fused kernel, or of a run of groups, took by its cost.

A kernel's time is divided by estimated nanoseconds: those of `compiler.parallel.partition`, per
multiplication and addition, per cheap and per expensive op on an element, and per byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.loops import CONTRACT, CONVOLVE, STEPS, Function, Op
from wend._engine.compiler.parallel.partition import BYTE, CHEAP, DEAR, FMA
from wend._engine.core._hot import State
from wend._engine.core._types import LeafPrimitive, TensorType
from wend._engine.core.graph import Node, PathGraph
from wend._engine.runtime.measure.recorder import FlushPart, MeasuredFlush
from wend._engine.runtime.report import maker_of, size_of, work_of


class OpCost(NamedTuple):
    """An op of a part: the number among the flush's steps, and the cost.

    step: -1 where nothing says which step the op belongs to
    weight: estimated nanoseconds
    origin: for an op of a backward pass, the step whose gradient this is; -1 where unknown
    """

    name: str
    step: int
    weight: float
    flops: int
    bytes: int
    origin: int = -1


def origin_of(node: Node, path: PathGraph) -> int:
    """Return the step of the path whose gradient a node is; -1 for a step of an earlier path."""
    source = getattr(node, "source", None)
    if source is None or not 0 <= source.at < path.n_states:
        return -1
    state = path.states[source.at]
    fits = state.prim.name == source.name and (state.code, state.lasti) == source[2:4]
    return int(source.at) if fits else -1


def costs_of_part(part: FlushPart, flush: MeasuredFlush, known: dict[int, Any]) -> list[OpCost]:
    """Return the ops of a part with costs.

    known: the path and the values' makers of paths met before, by id of the path
    """
    if part.plan is None:
        return costs_of_steps(flush)
    row = known.get(id(part.plan))
    if row is None:
        row = known[id(part.plan)] = (part.plan, part.plan.makers())
    path, makers = row
    if part.owner is None:
        costs: list[OpCost] = []
        for node in part.ops:
            step, origin = step_and_origin(makers.get(node.outputs[0]), path)
            costs.append(OpCost(node.prim.name, step, 1.0, 0, 0, origin))
        return costs
    code, value = part.owner.plan.code, part.owner.value
    f, costs = code.function, []
    for k in part.steps:
        step = code.steps[k]
        kernel = step if isinstance(step, Kernel) else None
        for op in [step] if kernel is None else kernel.ops:
            place = step_and_origin(maker_of(op, f, makers), path)
            costs.append(op_cost(op, kernel, f, value, place))
    return costs


def step_and_origin(maker: tuple[int, Node] | None, path: PathGraph) -> tuple[int, int]:
    """Return the step and the `OpCost.origin` of an entry of `PathGraph.makers`."""
    return (-1, -1) if maker is None else (maker[0], origin_of(maker[1], path))


def op_cost(
    op: Op,
    kernel: Kernel | None,
    f: Function,
    value: Callable[[Any], int],
    place: tuple[int, int],
) -> OpCost:
    """Return the cost of an op of a kernel.

    kernel: None for a host step     place: see `step_and_origin`
    """
    step, origin = place
    reads = {f.base(read.value) for read in op.reads}
    outs = set(op.outputs)
    if kernel is not None:
        reads, outs = reads & set(kernel.reads), outs & set(kernel.writes)
    moved = sum([value(size_of(f, i)) for i in reads | outs])
    if kernel is None:
        return OpCost(op.name, step, BYTE * moved + 1.0, 0, moved, origin)
    work = value(work_of(f, op))
    if op.kind in (CONTRACT, CONVOLVE, STEPS):
        weight = work * FMA / 2
    else:
        weight = work * (CHEAP if op.cheap or op.kind != "map" else DEAR)
    return OpCost(op.name, step, weight + BYTE * moved, work, moved, origin)


def costs_of_steps(flush: MeasuredFlush) -> list[OpCost]:
    """Return all steps of a flush with costs, from types alone."""
    costs = []
    for k, state in enumerate(flush.states):
        if isinstance(state.prim, LeafPrimitive):
            continue
        flops = flops_of(state, flush.types)
        moved = bytes_of(state, flush.types)
        costs.append(OpCost(state.prim.name, k, 1.0 + CHEAP * flops + BYTE * moved, flops, moved))
    return costs


def _types_of(state: State, types: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the types of a step's operands and results, as far as known."""
    reads = [types[i] for i in state.operand_indices() if i < len(types)]
    outs = types[state.first : state.first + state.n_out]
    return [t for t in reads if t is not None], [t for t in outs if t is not None]


def _elements(type_: TensorType) -> int:
    """Return how many elements a value has."""
    return prod(map(int, type_.dims))


def bytes_of(state: State, types: list[Any]) -> int:
    """Return the bytes of a step's operands and results."""
    reads, outs = _types_of(state, types)
    return sum([t.nbytes for t in (*reads, *outs)])


#: Ops that multiply matrices, by the operand whose last dim is summed up.
_PRODUCTS = {"matmul": 0, "linear": 0, "mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "mv": 0,
             "dot": 0, "einsum": 0, "addmv": 1, "addbmm": 1}  # fmt: skip


def flops_of(state: State, types: list[Any]) -> int:
    """Return the operations of a step: two per multiplication and addition,
    or else one per element.

    The numbers of elements are those of the result, or of the largest operand of a sum.
    """
    reads, outs = _types_of(state, types)
    name = state.prim.name
    elements = sum([_elements(t) for t in outs])
    at = _PRODUCTS.get(name)
    if at is not None and at < len(reads) and reads[at].dims:
        return 2 * elements * int(reads[at].dims[-1])
    if name.startswith("conv") and len(reads) > 1 and len(reads[1].dims) > 2:
        out = outs[0].dims if outs else (0,)
        return 2 * macs_of_convolution(name, reads[0].dims, reads[1].dims, out)
    return max([elements, *[_elements(t) for t in reads]])


def macs_of_convolution(
    name: str, x: Sequence[int], weight: Sequence[int], out: Sequence[int]
) -> int:
    """Return the multiply-adds of a convolution of these shapes, on each element of a result."""
    across = x if "transpose" in name else out
    return prod(map(int, across)) * (prod(map(int, weight)) // max(int(weight[0]), 1))


def seconds_by_step(
    flush: MeasuredFlush, known: dict[int, Any]
) -> tuple[dict[int, list[tuple[int, float, OpCost, FlushPart]]], int]:
    """Return the nanoseconds of each step of a flush, and those of parts that no step has.

    The rows of a step are (begin, nanoseconds, cost, part).  Parts within a part are left out:
    the outer part has the time of all.
    """
    rows: dict[int, list[tuple[int, float, OpCost, FlushPart]]] = {}
    left = 0
    for part in outermost(flush.parts):
        costs = costs_of_part(part, flush, known)
        total = sum([cost.weight for cost in costs])
        time, at = part.end - part.begin, float(part.begin)
        if not total:
            left += time
            continue
        for cost in costs:
            share = time * cost.weight / total
            if cost.step < 0:
                left += round(share)
            else:
                rows.setdefault(cost.step, []).append((int(at), share, cost, part))
            at += share
    return rows, left


def outermost(parts: list[FlushPart]) -> list[FlushPart]:
    """Return the outermost parts, in order."""
    outer_parts: list[FlushPart] = []
    for part in sorted(parts, key=lambda p: (p.begin, -p.end)):
        if not outer_parts or part.begin >= outer_parts[-1].end:
            outer_parts.append(part)
    return outer_parts
