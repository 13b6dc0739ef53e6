"""Ops on the device `meta`: type rules run, and nothing is recorded or computed.

A call with a tensor without data comes by `dispatch`. Meanwhile a recorder takes the place of the
thread's trace, and asks each op for the types of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wend._engine.base import random_state
from wend._engine.base.devices import AWAY, CPU, META, placement
from wend._engine.base.errors import DeviceError, NoDataError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.core.symbolic import hint_of
from wend._engine.ops.views.family import Rescaled
from wend._frontend import creation, random
from wend._frontend.layout import check_view
from wend._frontend.meta.values import SERIAL, Facts, has_data, meta_value
from wend._frontend.methods import DisableTorchFunctionSubclass
from wend._frontend.strides import layout_of

__all__ = ["FACE", "dispatch", "under_recording"]

#: The function that gives a handle of a class beside `cls` a value: set by the module of classes.
FACE: list[Callable[..., Any]] = []


class MetaRecorder:
    """Stands in the place of a trace: each op gives values of the right types."""

    maps = True  # in-place ops rebind handles here as anywhere
    serial = SERIAL

    def record(self, prim: Any, tensors: list[Any], args: list[Any]) -> Any:
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
            results.append(FACE[0](Tensor, value, layout))
        wrap = program.wrap
        return results[0] if wrap is None else wrap(results)


def _identity(tensor: Any) -> Any:
    """Where a gradient of an operand goes: to a leaf, or to the value's sources."""
    return tensor.value if tensor.leaf is None else tensor.leaf


def _node_name(prim: Any) -> str:
    name = getattr(prim, "grad_name", None)
    return name if isinstance(name, str) else f"{prim.name.title().replace('_', '')}Backward0"


def _layouts(prim: Any, tensors: list[Any], args: list[Any], outs: Any) -> list[Any]:
    """`_layout` of each result."""
    if prim.piece is not None:  # an op that cuts a dim into parts
        found, start = [], 0
        for type_ in outs:
            length = type_.shape[prim.piece_dim]
            found.append(_layout(prim.piece, tensors, [start, length]))
            start += length
        return found
    if prim.is_view and len(outs) == 1:
        return [_layout(prim, tensors, args)]
    return [None] * len(outs)


def _layout(prim: Any, tensors: list[Any], args: list[Any]) -> Any:
    """(strides, offset) of a view; None where the elements lie in row-major order."""
    source = tensors[0]
    check_view(prim, source, args) if hasattr(prim, "must_view") else None
    strides, offset = layout_of(source)
    type_ = source.value.type
    if isinstance(prim, Rescaled):
        return prim.rescaled(type_.dtype, strides, offset)
    found = prim.strides(tuple(type_.shape), strides, *prim.arrange([None], args)[1:])
    return None if found is None else (tuple(found[0]), offset + found[1])


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


# -- calls ----------------------------------------------------------------------------------

#: Functions that take tensors on the CPU beside those without data: sources of copies, and indices.
_MIXING = frozenset(
    "copy_ __getitem__ __setitem__ index_put index_put_ _index_put_impl_ set_ to type_as "
    "repeat_interleave".split()
)


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `func`, of which some arguments have no data.

    Raises DeviceError where tensors with elements on the CPU are among the arguments,
    NoDataError where they would be written to, or elements are read.
    """
    name = getattr(func, "__name__", "")
    if "device" in kwargs and hasattr(creation, name) | hasattr(random, name):
        return _created(func, args, kwargs)
    if name in _MIXING:
        if name not in ("to", "type_as"):
            _refuse_destination(args)
    else:
        _check_devices(name, args, kwargs)
    with under_recording():
        result = func(*args, **kwargs)
    return faced(result)


def _created(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A creation function like `zeros_like`, with a device: made on the CPU where that was asked
    for."""
    kwargs = dict(kwargs)
    device = kwargs.pop("device")
    if device is None or placement(device, func.__name__) is META:
        return dispatch(func, args, kwargs)
    if AWAY:
        kwargs["device"] = CPU
    return func(*[_stand_in(a) for a in args], **{k: _stand_in(a) for k, a in kwargs.items()})


def _stand_in(a: Any) -> Any:
    """A tensor on the CPU of the size and type of one without data; all else as it is."""
    if not isinstance(a, Tensor) or has_data(a):
        return a
    return ops.full(tuple(a.shape), 0, dtype=a.dtype)


def tensors_in(values: Any) -> Iterator[Any]:
    """The tensors among arguments, those in lists and tuples included."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (list, tuple):
            yield from tensors_in(value)


def _check_devices(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    operands = list(tensors_in((*args, *kwargs.values())))
    wrong = next((x for x in operands if has_data(x) and x.dim() > 0), None)
    if wrong is None and operands and has_data(operands[0]) and name.endswith("_"):
        raise NoDataError(f"{name}: Cannot copy out of meta tensor; no data!")
    out = kwargs.get("out")
    if wrong is None and isinstance(out, Tensor) and has_data(out):
        wrong = out
    if wrong is not None:
        raise DeviceError(
            f"{name}: expected all tensors to be on the same device, but found at least two "
            f"devices, meta and {wrong.device}: the CPU tensor has shape {tuple(wrong.shape)}"
        )


def _refuse_destination(args: tuple[Any, ...]) -> None:
    if args and isinstance(args[0], Tensor) and has_data(args[0]):
        raise NoDataError("Cannot copy out of meta tensor; no data!")


def faced(result: Any) -> Any:
    """A result whose tensors without data are of the classes of such tensors."""
    if isinstance(result, Tensor):
        if type(result) is Tensor and not has_data(result):
            return FACE[0](Tensor, result.value, result._layout)
        return result
    if isinstance(result, tuple) and hasattr(result, "_make"):
        return result._make(faced(r) for r in result)
    if type(result) in (list, tuple):
        return type(result)([faced(r) for r in result])
    return result
