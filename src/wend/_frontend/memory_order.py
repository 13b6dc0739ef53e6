"""Memory formats of results: in which order PyTorch would keep the elements of an op's result.

Data lies wherever the executor likes; see `layout`. Where no operand has a format of its own, the
results are row-major, and nothing here is called. Else each result is marked with its strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from wend._engine.base.errors import ArgumentTypeError, ShapeError
from wend._engine.base.shapes import contiguous_strides
from wend._engine.core import _hot
from wend._engine.core._hot import Alias, Tensor
from wend._engine.core._types import TensorType
from wend._engine.core.primitive import Primitive, ops
from wend._frontend import formats
from wend._frontend.aliasing.versions import storage_of
from wend._frontend.formats import memory_format
from wend._frontend.strides import MOST_KEPT, concrete, layout_of

__all__ = [
    "as_asked",
    "in_format",
    "is_channels_last",
    "is_row_major",
    "lay_out",
    "like",
    "pointwise",
]

Steps = tuple[int, ...]
Shape = tuple[int, ...]

#: How many dims a tensor has whose channels lie innermost.
RANKS = {formats.channels_last: 4, formats.channels_last_3d: 5}


# --- strides ----------------------------------------------------------------------------------


def _in_order(shape: Shape, dims: Sequence[int]) -> Steps:
    """Strides of a dense tensor whose dims lie in this order, the innermost first."""
    strides, step = [0] * len(shape), 1
    for d in dims:
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def _channels_last_order(rank: int) -> tuple[int, ...]:
    return (1, *range(rank - 1, 1, -1), 0)


def _channels_last_strides(shape: Shape) -> Steps:
    return _in_order(shape, _channels_last_order(len(shape)))


def _row_major(shape: Shape, strides: Steps) -> bool:
    wanted = contiguous_strides(shape)
    return 0 in shape or all(
        n == 1 or s == w for n, s, w in zip(shape, strides, wanted, strict=True)
    )


def _channels_last(shape: Shape, strides: Steps) -> bool:
    """Whether the strides are those of a dense tensor whose channels lie innermost."""
    if len(shape) not in RANKS.values():
        return False
    wanted = _channels_last_strides(shape)
    return all(n == 1 or s == w for n, s, w in zip(shape, strides, wanted, strict=True))


def _suggests_channels_last(shape: Shape, strides: Steps) -> bool:
    """Whether an op is to take the strides for those of channels that lie innermost.

    The strides rise from the channels outwards, with gaps or without. Dims of a single element
    leave the question to their strides; where these do not decide, the tensor is row-major.
    """
    if len(shape) not in RANKS.values() or strides[1] == 0 or 0 in shape:
        return False
    least = 0
    for d in _channels_last_order(len(shape)):
        undecided = d == 0 and least == strides[1]
        if strides[d] < least or undecided:
            return False
        least = strides[d] * shape[d]
    return True


def is_row_major(x: Tensor) -> bool:
    """Whether the elements lie in row-major order without gaps."""
    if x.alias is None and x._layout is None:
        return True
    return _row_major(tuple(x.shape), layout_of(x)[0])


def is_channels_last(x: Tensor, memory_format: memory_format = formats.channels_last) -> bool:
    """Whether the elements of a tensor of that format's rank lie with the channels innermost."""
    return x.dim() == RANKS[memory_format] and _channels_last(tuple(x.shape), layout_of(x)[0])


# --- results of ops ---------------------------------------------------------------------------


def lay_out(
    prim: Primitive | None, operands: list[Tensor], args: list[Any] | None, result: Any
) -> None:
    """Mark the results of an op with the strides that follow from the operands'.

    prim: None for the gradient of a leaf, which lies as the leaf does
    """
    if prim is None:
        like(result, operands[0])
        return
    results = (result,) if isinstance(result, Tensor) else result
    if prim.is_view or prim.piece is not None:
        return  # which derive their strides from the operand's
    types = tuple([concrete(x.value.type) for x in operands])
    kind = _kind(prim, types, args or [])
    if kind == _ROW_MAJOR:
        return
    sources = tuple([layout_of(x)[0] for x in operands])
    dims: tuple[int, ...] = tuple(getattr(prim, "dims", ())) if kind == "indexed" else ()
    for x in results:
        if isinstance(x, Tensor) and x._layout is None:
            strides = _strides(kind, dims, types, sources, concrete(x.value.type))
            if strides is not None:
                mark(x, strides)


def mark(x: Tensor, strides: Steps) -> None:
    """Let a new tensor, which nobody else has, say these strides."""
    if x.alias is None:
        x.alias = Alias()  # which says that strides are to be looked at
    x._layout = strides, 0


#: Kinds: results in row-major order, and ops that treat elements alike.
_ROW_MAJOR, _POINTWISE = "none", "pointwise"


_KINDS: dict[Any, str] = {}


def _kind(prim: Any, types: tuple[TensorType, ...], args: list[Any]) -> str:
    """Which operands' order the results of an op take: see `OpFacts.format_of`."""
    if prim.facts.format_of:
        return str(prim.facts.format_of)
    kind = _KINDS.get(prim)
    if kind is None:
        program = prim.typed(list(types), args)[0]
        if len(_KINDS) >= MOST_KEPT:
            _KINDS.clear()
        kind = _KINDS[prim] = _POINTWISE if pointwise(prim, program) else _ROW_MAJOR
    return kind


#: Ops whose result is the first operand, with another history.
_PASSING = frozenset(("stop_gradient", "graft", "overwrite", "variable"))


def pointwise(prim: Any, program: Any) -> bool:
    """Whether an op computes each element of a result from elements at the same place."""
    if prim.facts.elementwise or prim.name in _PASSING:
        return True
    if not prim.is_composite or program.graph is None:
        return False
    nodes = program.graph.nodes
    return all(pointwise(node.prim, node.program) for node in nodes if node.inputs)


@lru_cache(MOST_KEPT)
def _strides(
    kind: str,
    dims: tuple[int, ...],
    types: tuple[TensorType, ...],
    sources: tuple[Steps, ...],
    out: TensorType,
) -> Steps | None:
    """Strides of a result; None where it lies in row-major order."""
    shape = tuple(out.shape)
    operands = [(tuple(t.shape), s) for t, s in zip(types, sources, strict=True)]
    if kind == _POINTWISE:
        return _followed(operands, shape)
    if kind == "copied":
        return _kept(*operands[0])
    if kind == "indexed":
        depth = len(shape) - len(sources[0]) + len(dims)
        return _ordered([_indexed(sources[0], dims, depth)], shape)
    suggested = [_suggests_channels_last(*x) for x in operands]
    follows = {"first": suggested[0], "any": any(suggested[:2]), "all": all(suggested)}[kind]
    if not follows or len(shape) != len(types[0].shape):
        return None
    return _channels_last_strides(shape)


def _followed(operands: list[tuple[Shape, Steps]], shape: Shape) -> Steps | None:
    """Strides of the result of an op that treats elements alike: in the order of the operands'."""
    if all(own == shape for own, _ in operands):
        if all(_row_major(*x) for x in operands):
            return None
        if all(_channels_last(*x) for x in operands):
            return _channels_last_strides(shape)
    return _ordered([_broadcast(own, strides, shape) for own, strides in operands], shape)


def _ordered(rows: list[Steps], shape: Shape) -> Steps | None:
    """Strides of a dense result whose dims lie as the rows' do; 0 stands for a dim repeated."""
    rank = len(shape)
    order = list(range(rank - 1, -1, -1))  # the innermost first
    for last in range(1, rank):
        at = last
        for before in range(last - 1, -1, -1):
            verdict = _lies_outside(order[before], order[at], rows, shape)
            if verdict < 0:
                break
            if verdict > 0:
                order[before], order[at] = order[at], order[before]
                at = before
    strides = _in_order(shape, order)
    return None if strides == tuple(contiguous_strides(shape)) else strides


def _indexed(strides: Steps, dims: tuple[int, ...], depth: int) -> Steps:
    """Strides by the dims of `x[indices]`: 0 for each of the `depth` dims of the indices."""
    rest = [s for d, s in enumerate(strides) if d not in dims]
    first, last = min(dims), max(dims)
    start = first if last - first + 1 == len(dims) else 0
    return (*rest[:start], *(0,) * depth, *rest[start:])


def _broadcast(own: Shape, strides: Steps, shape: Shape) -> Steps:
    lead = len(shape) - len(own)
    kept = [
        0 if n == 1 and m != 1 else s for n, s, m in zip(own, strides, shape[lead:], strict=True)
    ]
    return (0,) * lead + tuple(kept)


def _lies_outside(d: int, other: int, rows: list[Steps], shape: Shape) -> int:
    """1 if dim d lies outside of the other by the first operand that decides, -1 if inside, or 0.

    Dims that an operand repeats decide nothing.
    """
    for strides in rows:
        a, b = strides[d], strides[other]
        if a == 0 or b == 0:
            continue
        if a != b:
            return 1 if a > b else -1
        if shape[d] > shape[other]:
            return 1
    return 0


# --- formats asked for ------------------------------------------------------------------------


def in_format(x: Tensor, memory_format: Any, op: str, fresh: bool = False) -> Tensor:
    """x if x lies in that format, else a copy marked as lying in the format.

    fresh: x is a new tensor already, that nobody else has. Raises ShapeError for any rank but the
    format's, ArgumentTypeError for anything but a format.
    """
    if memory_format is None or memory_format is formats.preserve_format:
        return x
    if memory_format is formats.contiguous_format:
        if not fresh and is_row_major(x):
            return x
        target: Tensor = x if fresh else ops.clone(x)
        target._layout = None
        return target
    rank = RANKS.get(memory_format)
    if rank is None:
        raise ArgumentTypeError(f"{op}: memory_format is no {type(memory_format).__name__}")
    if x.dim() != rank:
        raise ShapeError(f"{op}: required rank {rank} tensor to use {memory_format.name} format")
    if is_channels_last(x, memory_format) and not is_row_major(x):
        return x
    target = x if fresh else ops.clone(x)
    storage_of(target)
    target._layout = _channels_last_strides(tuple(x.shape)), 0
    return target


def like(output: Tensor, source: Tensor) -> Tensor:
    """A new tensor of the shape of `source`, marked as lying in the same order."""
    if source.alias is not None and output.alias is None:
        strides = _kept(tuple(source.shape), layout_of(source)[0])
        if strides is not None:
            mark(output, strides)
    return output


def _kept(shape: Shape, strides: Steps) -> Steps | None:
    """Strides of a copy: the source's where that is dense, else in the same order."""
    order = sorted(range(len(shape)), key=lambda d: (strides[d], shape[d]))
    dense = all(shape[d] == 1 or strides[d] == s for d, s in enumerate(_in_order(shape, order)))
    if not dense:
        return _followed([(shape, strides)], shape)
    return None if strides == tuple(contiguous_strides(shape)) else strides


def as_asked(output: Tensor, source: Tensor | None, memory_format: Any, op: str) -> Tensor:
    """A new tensor in a format, or in the order of `source` where no format is asked for."""
    if memory_format is None or memory_format is formats.preserve_format:
        return output if source is None else like(output, source)
    return in_format(output, memory_format, op, fresh=True)


_hot.set_slot("lay_out", lay_out)
