"""Python objects between ranks: as JSON and arrays, or by pickle where a program has allowed that.

A message never runs code, unless `allow_pickle` has been called by the rank that receives it.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.base.shapes import Size
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor
from wend._frontend import creation
from wend.distributed._collectives import member, place_in
from wend.distributed._engine import gather_bytes
from wend.distributed._group import AnyGroup, ProcessGroup, resolve
from wend.distributed._messages import irecv, send
from wend.distributed._wire._arrays import read
from wend.distributed._wire._transport import Transport

__all__ = [
    "all_gather_object",
    "allow_pickle",
    "broadcast_object_list",
    "decode",
    "encode",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]

_KIND = "$"  # the key of a JSON object that stands for anything but a dict of words
_allowed = [os.environ.get("WEND_ALLOW_PICKLE", "0") not in ("", "0")]


def allow_pickle(flag: bool = True) -> None:
    """Let messages hold any Python object, by pickle: call this in all ranks.

    Whoever can send to this process can then run code in it. `WEND_ALLOW_PICKLE=1` does the same.
    """
    _allowed[0] = bool(flag)


def encode(name: str, obj: object) -> bytes:
    """The bytes of an object.

    Numbers, words, bytes, lists, tuples, dicts, sets, tensors, arrays, sizes and dtypes are told as
    JSON; tensors keep type and shape. name: the public function's, for errors
    Raises ArgumentTypeError for other objects, unless pickle is allowed.
    """
    return json.dumps(_plain(name, obj), separators=(",", ":")).encode()


def decode(name: str, message: bytes) -> Any:
    """The object of `encode`. Raises ArgumentTypeError for a pickle, unless pickle is allowed."""
    return _back(name, json.loads(message))


def _plain(name: str, obj: Any) -> Any:
    """An object in JSON's terms."""
    kind = type(obj)
    if obj is None or kind in (bool, int, float, str):
        return obj
    if kind is list:
        return [_plain(name, x) for x in obj]
    if kind is dict:
        if all(type(key) is str for key in obj) and _KIND not in obj:
            return {key: _plain(name, x) for key, x in obj.items()}
        pairs = [[_plain(name, key), _plain(name, x)] for key, x in obj.items()]
        return {_KIND: "dict", "of": pairs}
    if kind in (tuple, set, frozenset, Size):
        return {_KIND: kind.__name__, "of": [_plain(name, x) for x in obj]}
    if kind is bytes:
        return {_KIND: "bytes", "of": _text(obj)}
    if kind is complex:
        return {_KIND: "complex", "of": [obj.real, obj.imag]}
    if kind is Tensor:
        data = read(obj).view(np.uint8).tobytes() if obj.numel() else b""
        return {
            _KIND: "tensor",
            "type": obj.dtype.name,
            "shape": list(obj.shape),
            "of": _text(data),
        }
    if isinstance(obj, (np.ndarray, np.generic)) and not obj.dtype.hasobject:
        array = np.asarray(obj)
        return {
            _KIND: "array", "type": array.dtype.str, "shape": list(array.shape),
            "of": _text(array.tobytes()),
        }  # fmt: skip
    if isinstance(obj, DType):
        return {_KIND: "dtype", "of": obj.name}
    if _allowed[0]:
        return {_KIND: "pickle", "of": _text(pickle.dumps(obj))}
    raise ArgumentTypeError(
        f"{name}: an object of class {kind.__module__}.{kind.__qualname__} is not told as JSON: "
        "send numbers, words, lists, dicts, tensors and arrays, or let all ranks call "
        "torch.distributed.allow_pickle() (or set WEND_ALLOW_PICKLE=1) first; "
        "a pickle can run any code in the ranks that receive it"
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _tensor(header: dict[str, Any], data: bytes) -> Tensor:
    dtype = dtypes.NAMES[header["type"]]
    shape = tuple(header["shape"])
    array = np.frombuffer(data, np.uint8).copy().view(dtype.numpy).reshape(shape)
    type_ = _types.intern_type(shape, dtype, creation.empty(0).device)
    return _hot.wrap(_hot.held(type_, array))


def _back(name: str, value: object) -> Any:
    """An object from JSON's terms."""
    if isinstance(value, list):
        return [_back(name, x) for x in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_KIND)
    if kind is None:
        return {key: _back(name, x) for key, x in value.items()}
    of = value["of"]
    if kind == "pickle" and not _allowed[0]:
        raise ArgumentTypeError(
            f"{name}: a pickle has come, which can run any code in this process; if all ranks "
            "are trusted, let them call torch.distributed.allow_pickle() first"
        )
    makers: dict[str, Callable[[], Any]] = {
        "dict": lambda: {_back(name, key): _back(name, x) for key, x in of},
        "tuple": lambda: tuple(_back(name, of)),
        "set": lambda: set(_back(name, of)),
        "frozenset": lambda: frozenset(_back(name, of)),
        "Size": lambda: Size(of),
        "bytes": lambda: base64.b64decode(of),
        "complex": lambda: complex(*of),
        "tensor": lambda: _tensor(value, base64.b64decode(of)),
        "array": lambda: (
            np.frombuffer(base64.b64decode(of), np.dtype(value["type"]))
            .reshape(value["shape"])
            .copy()
        ),
        "dtype": lambda: dtypes.NAMES[of],
        "pickle": lambda: pickle.loads(base64.b64decode(of)),
    }
    return makers[kind]()


def _exchange(group: ProcessGroup, name: str, message: bytes) -> list[bytes]:
    """The messages of all ranks, in all ranks."""
    if group.size() == 1:
        return [message]
    messages: list[bytes] = []

    def call(line: Transport) -> None:
        messages.extend(gather_bytes(line, message))

    group.line().run((name,), call)
    return messages


def all_gather_object(object_list: list[Any], obj: object, group: AnyGroup = None) -> None:
    """object_list[rank] = the object of each rank, in all ranks.

    Raises ArgumentTypeError (a TypeError) for objects that JSON does not tell, see `allow_pickle`;
    ArgumentError (a ValueError) for a list of another length.
    """
    process_group = member("all_gather_object", group)
    if process_group is None:
        return
    _check_length("all_gather_object", object_list, process_group.size())
    messages = _exchange(process_group, "all_gather_object", encode("all_gather_object", obj))
    object_list[:] = [decode("all_gather_object", message) for message in messages]


def _check_length(name: str, objects: list[Any], size: int) -> None:
    if len(objects) != size:
        raise ArgumentError(
            f"{name}: the list has {len(objects)} places, and the group has {size} ranks"
        )


def gather_object(
    obj: object,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: AnyGroup = None,
    group_dst: int | None = None,
) -> None:
    """object_gather_list[rank] = the object of each rank, in rank `dst` alone. See above."""
    process_group = member("gather_object", group)
    if process_group is None:
        return
    root = place_in(
        process_group, "gather_object", 0 if dst is group_dst is None else dst, group_dst
    )
    if process_group.own == root:
        if object_gather_list is None:
            raise ArgumentError(
                "gather_object: Argument ``gather_list`` must be specified on destination rank."
            )
        _check_length("gather_object", object_gather_list, process_group.size())
    elif object_gather_list:
        raise ArgumentError(
            "gather_object: Argument ``gather_list`` must NOT be specified on non-destination "
            "ranks."
        )
    messages = _exchange(process_group, "gather_object", encode("gather_object", obj))
    if process_group.own == root and object_gather_list is not None:
        object_gather_list[:] = [decode("gather_object", message) for message in messages]


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: AnyGroup = None,
    device: DeviceLike = None,
    group_src: int | None = None,
) -> None:
    """object_list = the list of rank `src`. Raises as `all_gather_object`."""
    process_group = member("broadcast_object_list", group)
    if process_group is None:
        return
    name = "broadcast_object_list"
    root = place_in(process_group, name, 0 if src is group_src is None else src, group_src)
    own = process_group.own == root
    message = encode(name, [len(object_list), list(object_list)] if own else [len(object_list)])
    messages = _exchange(process_group, name, message)
    count, objects = decode(name, messages[root])
    _check_length(name, object_list, count)
    if not own:
        object_list[:] = objects


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: AnyGroup = None,
    group_src: int | None = None,
) -> None:
    """scatter_object_output_list[0] = scatter_object_input_list[this rank] of rank `src`."""
    process_group = member("scatter_object_list", group)
    if process_group is None:
        return
    name = "scatter_object_list"
    root = place_in(process_group, name, 0 if src is group_src is None else src, group_src)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ArgumentError(
            f"{name}: Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    mine: list[Any] | None = None
    if process_group.own == root:
        mine = list(scatter_object_input_list or [])
        _check_length(name, mine, process_group.size())
    messages = _exchange(process_group, name, encode(name, mine))
    scatter_object_output_list[0] = decode(name, messages[root])[process_group.own]


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: AnyGroup = None,
    device: DeviceLike = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send a list of objects to a rank. Raises as `all_gather_object`."""
    message = encode("send_object_list", list(object_list))
    size = creation.tensor([len(message)], dtype=dtypes.int64)
    send(size, dst, group, 0, group_dst)
    send(creation.tensor(np.frombuffer(message, np.uint8)), dst, group, 0, group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: AnyGroup = None,
    device: DeviceLike = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive a list of objects from a rank, or any; returns the sender's number in the world."""
    process_group = resolve(group)
    size = creation.zeros(1, dtype=dtypes.int64)
    work = irecv(size, src, process_group, 0, group_src)
    if work is None:
        return -1
    source = work.source_rank()
    data = creation.zeros(int(size.item()), dtype=dtypes.uint8)
    later = irecv(data, None, process_group, 0, source)
    if later is not None:
        later.wait()
    objects = decode("recv_object_list", read(data).tobytes())
    _check_length("recv_object_list", object_list, len(objects))
    object_list[:] = objects
    return process_group.ranks[source]
