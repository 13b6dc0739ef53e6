"""The recorder of the device `meta`: type rules run, and nothing is recorded or computed.

The recorder takes the place of the thread's trace, and asks each op for the types of its results.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wend._engine.base import random_state
from wend._engine.core import _hot
from wend._engine.core._hot import Leaf, Tensor, Value
from wend._engine.core.primitive import Primitive
from wend._engine.core.symbolic import hint_of
from wend._engine.ops.views.family import Rescaled
from wend._frontend.layout import check_view
from wend._frontend.meta.classes import face
from wend._frontend.meta.values import SERIAL, Facts, has_data, meta_value
from wend._frontend.methods import DisableTorchFunctionSubclass
from wend._frontend.strides import layout_of

__all__ = ["under_recording"]


class MetaRecorder:
    """Stands in the place of a trace: each op gives values of the right types."""

    maps = True  # in-place ops rebind handles here as anywhere
    serial = SERIAL

    def record(self, prim: Primitive, tensors: list[Any], args: list[Any]) -> Any:
        """The results of an op: types, requirements of gradients, strides; no data."""
        numbers = [hint_of(a) for a in args]
        if tensors and all(map(has_data, tensors)):
            with plainly():
                return _hot.record_list(prim, tensors, numbers)
        program, outs = prim.typed([t.value.type for t in tensors], numbers)
        facts = None
        if program.differentiable and _hot.current_trace().mode.grad:
            sources = tuple([_identity(t) for t in tensors if t.requires_grad])
            facts = Facts(_node_name(prim), sources) if sources else None
        layouts = _layouts(prim, tensors, numbers, outs)
        results = []
        for type_, layout in zip(outs, layouts, strict=True):
            flows = facts is not None and type_.dtype.category >= 2
            value = meta_value(type_, facts if flows else None)
            value.requires_grad = flows
            results.append(face(Tensor, value, layout))
        wrap = program.wrap
        return results[0] if wrap is None else wrap(results)


def _identity(tensor: Tensor) -> Value | Leaf:
    """Where a gradient of an operand goes: to a leaf, or to the value's sources."""
    return tensor.value if tensor.leaf is None else tensor.leaf


def _node_name(prim: Primitive) -> str:
    name = prim.torch.grad_name
    return name or f"{prim.name.title().replace('_', '')}Backward0"


def _layouts(prim: Primitive, tensors: list[Any], args: list[Any], outs: Any) -> list[Any]:
    """`_layout` of each result."""
    if prim.piece is not None:  # an op that cuts a dim into parts
        layouts, start = [], 0
        for type_ in outs:
            length = type_.shape[prim.piece_dim]
            layouts.append(_layout(prim.piece, tensors, [start, length]))
            start += length
        return layouts
    if prim.is_view and len(outs) == 1:
        return [_layout(prim, tensors, args)]
    return [None] * len(outs)


def _layout(prim: Any, tensors: list[Any], args: list[Any]) -> Any:
    """(strides, offset) of a view; None where the elements lie in row-major order."""
    source = tensors[0]
    check_view(prim, source, args)
    strides, offset = layout_of(source)
    type_ = source.value.type
    if isinstance(prim, Rescaled):
        return prim.rescaled(type_.dtype, strides, offset)
    layout = prim.strides(tuple(type_.shape), strides, *prim.arrange([None], args)[1:])
    return None if layout is None else (tuple(layout[0]), offset + layout[1])


RECORDER = MetaRecorder()


@contextmanager
def under_recording() -> Iterator[None]:
    """Ops inside are typed, and not recorded; classes of tensors are not asked.

    Random numbers are not drawn: the generator of the thread stays where it is.
    """
    trace = _hot.current_trace()
    before, trace.symbolic = trace.symbolic, RECORDER
    generator = random_state.current()
    seed, offset = generator.seed, generator.offset
    try:
        with DisableTorchFunctionSubclass():
            yield
    finally:
        trace.symbolic = before
        generator.seed, generator.offset = seed, offset


@contextmanager
def plainly() -> Iterator[None]:
    """Inside of `under_recording`: ops on tensors with data are recorded as ever."""
    trace = _hot.current_trace()
    before, trace.symbolic = trace.symbolic, None
    try:
        yield
    finally:
        trace.symbolic = before
