"""Devices: 'cpu', the accelerators that are at hand, and 'meta' for tensors without data.

The drivers of accelerators register themselves in `COUNTERS`, by PyTorch's name of the device.
PyTorch's names of further devices construct, so that a program may ask `torch.device("cuda" if
torch.cuda.is_available() else "cpu")`, and answer clearly when used.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, Self, TypeAlias, TypeVar

from wend._engine.base.errors import ArgumentTypeError, DeviceError

# fmt: off
TYPES: Final = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia",
    "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)
# fmt: on
_PATTERN: Final = re.compile(r"([a-z_]+)(?::(0|[1-9][0-9]*))?")
F = TypeVar("F", bound=Callable[..., Any])
#: Arguments that name a device; None names the default.
DeviceLike: TypeAlias = "device | str | int | None"


class device:
    """device('cpu'), device('cuda:1'), device('cuda', 1), device(another device).

    type: str     index: int or None. Raises DeviceError for a bad name or index.
    As a context manager (or decorator) a device becomes this thread's default device, which 'cpu'
    and 'meta' can be.
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __init__(self, type: str | int | device, index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type._fields(index)
        elif isinstance(type, str):
            type, index = _parse(type, index)
        elif isinstance(type, int) and not isinstance(type, bool):
            kind = accelerator_kind()
            if kind is None:
                raise DeviceError(
                    f"device: {type} names an accelerator by number, and none is available; "
                    "use device('cpu')"
                )
            index, type = type, kind
        else:
            raise ArgumentTypeError(
                f"device: takes a string such as 'cpu', not a {type.__class__.__name__}"
            )
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "index", index)

    def _fields(self, index: int | None) -> tuple[str, int | None]:
        if index is not None:
            raise ArgumentTypeError("device: an index cannot be given beside a device")
        return self.type, self.index

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"device: attribute {name!r} is not writable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"device: attribute {name!r} is not writable")

    def __repr__(self) -> str:
        tail = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{tail})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type,) if self.index is None else (self.type, self.index)

    def __enter__(self) -> Self:
        _DEFAULTS.enter(placement(self, "device"))
        return self

    def __exit__(self, *exc: object) -> None:
        _DEFAULTS.leave()

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def under_device(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return under_device  # type: ignore[return-value]


def _parse(text: str, index: int | None) -> tuple[str, int | None]:
    if not text:
        raise DeviceError("device: the device string must not be empty")
    kind = text.partition(":")[0]
    if kind not in TYPES:
        raise DeviceError(
            f"device: expected one of {', '.join(TYPES)} device type at start of device "
            f"string: {text}"
        )
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise DeviceError(f"device: invalid device string: {text!r}")
    if match[2] is not None:
        if index is not None:
            raise DeviceError(
                f"device: the string {text!r} includes an index, and index={index} was passed too"
            )
        return kind, int(match[2])
    if index is not None and (isinstance(index, bool) or not isinstance(index, int)):
        raise ArgumentTypeError(f"device: index must be an int, not {type(index).__name__}")
    if index is not None and index < 0:
        raise DeviceError(f"device: index must not be negative, and it is {index}")
    return kind, index


CPU: Final = device("cpu")
META: Final = device("meta")

#: Type of accelerator -> the function that counts such devices. A driver is loaded when asked.
COUNTERS: Final[dict[str, Callable[[], int]]] = {}
#: Type of accelerator -> the number of the device that is meant where no number is given.
CURRENT: Final[dict[str, int]] = {}
_ACCELERATORS: Final[dict[tuple[str, int], device]] = {}


def count_of(kind: str) -> int:
    """How many devices of a type there are: 1 for 'cpu', 0 for those that no driver knows."""
    if kind == "cpu":
        return 1
    return COUNTERS[kind]() if kind in COUNTERS else 0


def accelerator_kind() -> str | None:
    """The type of the accelerators that programs mean which name none; None if none is there."""
    return next((kind for kind in COUNTERS if COUNTERS[kind]()), None)


def accelerator(kind: str, index: int) -> device:
    """The only object for an accelerator: types are compared by it."""
    place = _ACCELERATORS.get((kind, index))
    if place is None:
        place = _ACCELERATORS.setdefault((kind, index), device(kind, index))
    return place


#: Defaults other than the CPU that are in force in some thread. Creation functions look here first.
AWAY: Final[list[device]] = []


def accelerator_among(types: Iterable[Any]) -> device | None:
    """The accelerator on which a value of some types lies; None for the processor."""
    if not _ACCELERATORS:
        return None
    places = (t.device for t in types if t is not None)
    return next((place for place in places if place.type not in ("cpu", "meta")), None)


class _Defaults(threading.local):
    """A thread's default devices: that of `set_default_device`, then those of open blocks."""

    def __init__(self) -> None:
        self.stack = [CPU]

    def enter(self, place: device) -> None:
        """Begin a block with that default device."""
        self.stack.append(place)
        if place is not CPU:
            AWAY.append(place)

    def leave(self) -> None:
        """End the innermost block."""
        if self.stack.pop() is not CPU:
            AWAY.pop()

    def set(self, place: device) -> None:
        """Make `place` the default device outside of all blocks."""
        if self.stack[0] is not CPU:
            AWAY.pop()
        if place is not CPU:
            AWAY.append(place)
        self.stack[0] = place


_DEFAULTS: Final = _Defaults()


def default_place() -> device:
    """Where creation functions of this thread put tensors: see `placement`."""
    return _DEFAULTS.stack[-1]


def set_default_place(request: object) -> None:
    """Set this thread's default device outside of all blocks; None means the CPU."""
    _DEFAULTS.set(placement(request, "set_default_device"))


def placement(request: object, op: str) -> device:
    """CPU, META or an accelerator, as asked for. None means the CPU.

    Raises as `usable`.
    """
    if request is META:
        return META
    if isinstance(request, str) and request.startswith("meta"):
        request = device(request)
    if isinstance(request, device) and request.type == "meta":
        return META
    return usable(request, op)


def place_asked(request: object, op: str) -> device:
    """Where a creation function puts a tensor, by its argument `device`: see `placement`.

    None means the default device of the thread. Raises as `usable`.
    """
    if request is not None:
        return placement(request, op)
    return default_place() if AWAY else CPU


class MetaPackage:
    """Tensors on the device `meta`, which the front end makes. Loaded when first used."""

    load: Callable[[], Any]  # set by the package as a whole


def usable(request: object, op: str) -> device:
    """The device that an op is asked for, checked: CPU or an accelerator. None means the CPU.

    request: device, str, int or None     op: public name, for the message
    Raises DeviceError if Wend cannot compute there, ArgumentTypeError if `request` is no device.
    """
    if request is None or request is CPU:
        return CPU
    if not isinstance(request, device):
        if not isinstance(request, str | int):
            raise ArgumentTypeError(f"{op}: {type(request).__name__} is no device; give 'cpu'")
        request = device(request)
    kind = request.type
    if kind == "meta":
        raise DeviceError(
            f"{op}: the device 'meta' has no data, and cannot be used here; use device='cpu'"
        )
    if kind == "cpu":
        if request.index not in (None, 0):
            raise DeviceError(f"{op}: device '{request}' is not available: there is one CPU device")
        return CPU
    count = count_of(kind)
    if not count:
        raise DeviceError(
            f"{op}: device '{request}' is not available: no such device is at hand; ask "
            f"torch.{kind if kind in COUNTERS else 'accelerator'}.is_available() first, or use "
            "device='cpu'"
        )
    index = CURRENT.get(kind, 0) if request.index is None else request.index
    if index >= count:
        raise DeviceError(
            f"{op}: device '{request}' is not available: there {_so_many(count, kind)}"
        )
    return accelerator(kind, index)


def _so_many(count: int, kind: str) -> str:
    return f"is 1 {kind} device" if count == 1 else f"are {count} {kind} devices"
