"""The rules of ops on the device `meta`: the type rule of an op says the results.

Entries are those ops that take tensors on the CPU beside tensors without data.
"""

from __future__ import annotations

from typing import Any

from wend._engine.base.devices import AWAY, CPU, META, placement
from wend._engine.base.errors import DeviceError, NoDataError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend import creation, random
from wend._frontend.components import Call, mapped, tensors_in
from wend._frontend.meta.classes import TABLE, face
from wend._frontend.meta.recording import under_recording
from wend._frontend.meta.values import has_data

__all__ = ["TABLE"]


def typed(call: Call, rule: None = None) -> Any:
    """The results of a call by the type rules of ops, whatever the devices of the operands."""
    with under_recording():
        result = call()
    return mapped(_faced, result)


def _faced(x: Any) -> Any:
    """A tensor without data as an instance of the class of such tensors."""
    plain = type(x) is Tensor and not has_data(x)
    return face(Tensor, x.value, x._layout) if plain else x


def filled(call: Call, rule: None) -> Any:
    """An op whose sources and indices may lie on the CPU. Raises NoDataError for a target there."""
    if call.args and isinstance(call.args[0], Tensor) and has_data(call.args[0]):
        raise NoDataError("Cannot copy out of meta tensor; no data!")
    return typed(call)


def on_one_device(call: Call) -> Any:
    """An op whose operands all lie on the device meta; numbers are tensors of no dims there.

    Raises DeviceError for a tensor with elements on the CPU, NoDataError for a target there.
    """
    name, kwargs = call.name, call.kwargs
    if "device" in kwargs and (hasattr(creation, name) or hasattr(random, name)):
        return created(call)
    operands = list(tensors_in((*call.args, *kwargs.values())))
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
    return typed(call)


def created(call: Call) -> Any:
    """A creation function like `zeros_like`, with a device, which may be the CPU."""
    kwargs = dict(call.kwargs)
    device = kwargs.pop("device")
    if device is None or placement(device, call.name) is META:
        return TABLE(call.func, call.args, kwargs)
    if AWAY:
        kwargs["device"] = CPU
    kwargs = {key: mapped(_stand_in, value) for key, value in kwargs.items()}
    return call.func(*mapped(_stand_in, call.args), **kwargs)


def _stand_in(x: object) -> Any:
    """A tensor on the CPU of the size and type of one without data; all else as it is."""
    if not isinstance(x, Tensor) or has_data(x):
        return x
    return ops.full(tuple(x.shape), 0, dtype=x.dtype)


TABLE.family(
    filled,
    "copy_ __getitem__ __setitem__ index_put index_put_ set_ repeat_interleave".split(),
)
TABLE.family(typed, ["to", "type_as"])
TABLE.otherwise = on_one_device
