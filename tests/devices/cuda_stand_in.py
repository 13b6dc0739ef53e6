"""A stand-in of `cuda.bindings.driver`: it records calls, checks their arguments, and runs nothing.

Memory is the processor's. Objects of the driver are `Handle`s of a kind; a function that gets one
of another kind, or one that is no longer there, returns an error, as the driver does.
"""

from __future__ import annotations

import ctypes
import enum
from collections import Counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from wend._engine.runtime.devices._ring_select import CUDA_LAUNCH


class CUresult(enum.IntEnum):
    """Results of functions."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701


class CUdevice_attribute(enum.IntEnum):
    """Properties of devices."""

    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89


class CUjit_option(enum.IntEnum):
    """Options of `cuModuleLoadDataEx`."""

    CU_JIT_ERROR_LOG_BUFFER = 5
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6


class CUstream_flags(enum.IntEnum):
    """Kinds of streams."""

    CU_STREAM_NON_BLOCKING = 1


class CUmemAttach_flags(enum.IntEnum):
    """Who may use managed memory."""

    CU_MEM_ATTACH_GLOBAL = 1


class CUevent_flags(enum.IntEnum):
    """Kinds of events."""

    CU_EVENT_DEFAULT = 0


class Handle(NamedTuple):
    """An object of the driver: a device, context, stream, module, function or event."""

    kind: str
    number: int

    def __int__(self) -> int:
        """The address, so to speak: what a C function takes."""
        return (KINDS.index(self.kind) + 1 << 32) + self.number + 1


#: Kinds of handles that C functions take.
KINDS = "function", "stream"


def handle_at(address: int) -> Handle:
    """The handle of an address. Raises ValueError."""
    kind, number = divmod(address, 1 << 32)
    if not 0 < kind <= len(KINDS) or not number:
        raise ValueError(f"{address:#x} is no handle")
    return Handle(KINDS[kind - 1], number - 1)


class Launch(NamedTuple):
    """A launch as the driver got it: ring and block are the two arguments of the kernel."""

    function: str
    ring: int
    block: int
    groups: int
    items: int


class Card(NamedTuple):
    """A card: its compute capability, and whether the processor shares its memory at any time."""

    capability: tuple[int, int] = (9, 0)
    shares: bool = True


class StandIn:
    """The module. Tests set the first three; the others record.

    cards: what there is     memory: bytes that can be had     fails: a function's name -> its error
    counts: calls of each function     launches: in order     blocks: memory, by address
    events: number of launches before each event, by event; a launch takes 0.25 ms
    """

    CUresult, CUdevice_attribute, CUjit_option = CUresult, CUdevice_attribute, CUjit_option
    CUstream_flags, CUmemAttach_flags = CUstream_flags, CUmemAttach_flags
    CUevent_flags = CUevent_flags

    def __init__(self, *cards: Card, memory: int = 1 << 24) -> None:
        self.cards = cards
        self.memory = memory
        self.fails: dict[str, CUresult] = {}
        self.counts: Counter[str] = Counter()
        self.launches: list[Launch] = []
        self.blocks: dict[int, Any] = {}
        self.events: dict[Handle, int | None] = {}
        self.ready = False
        self.current: Handle | None = None
        self.functions: dict[Handle, str] = {}
        self.lost: CUresult | None = None
        self.launch = CUDA_LAUNCH(lambda *args: int(launch(self, *args)))

    def __getattr__(self, name: str) -> Any:
        function = FUNCTIONS.get(name)
        if function is None:
            raise AttributeError(name)

        def call(*args: Any) -> tuple[Any, ...]:
            self.counts[name] += 1
            status = self._status(name)
            if status is not CUresult.CUDA_SUCCESS and name != "cuGetErrorString":
                if name == "cuModuleLoadDataEx":
                    args[3][0][:11] = b"line 7: bad"
                return status, *[None] * RESULTS.get(name, 0)
            answer = function(self, *args)
            if isinstance(answer, CUresult):
                return answer, *[None] * RESULTS.get(name, 0)
            return CUresult.CUDA_SUCCESS, *(() if answer is None else (answer,))

        return call

    def _status(self, name: str) -> CUresult:
        status = self.fails.get(name, CUresult.CUDA_SUCCESS)
        if self.lost is not None:
            status = self.lost
        if status == CUresult.CUDA_ERROR_ILLEGAL_ADDRESS:
            self.lost = status  # all later functions return it too
        if not self.ready and name != "cuInit" and status is CUresult.CUDA_SUCCESS:
            return CUresult.CUDA_ERROR_NOT_INITIALIZED
        if name in NEEDS_CONTEXT and self.current is None and status is CUresult.CUDA_SUCCESS:
            return CUresult.CUDA_ERROR_INVALID_CONTEXT
        return status


def checked(handle: Any, kind: str) -> Handle:
    """A handle of that kind. Raises TypeError, as the package does."""
    if not isinstance(handle, Handle) or handle.kind != kind:
        raise TypeError(f"{handle!r} is no {kind}")
    return handle


def whole(*numbers: Any) -> None:
    """Raise TypeError unless these are whole numbers, which fit the types of C."""
    for number in numbers:
        if not isinstance(number, int) or number < 0:
            raise TypeError(f"an integer is required, not {number!r}")


def init(me: StandIn, flags: int) -> Any:
    """cuInit."""
    whole(flags)
    me.ready = bool(me.cards)
    return None if me.ready else CUresult.CUDA_ERROR_NO_DEVICE


def attribute(me: StandIn, kind: CUdevice_attribute, device: Handle) -> int:
    """cuDeviceGetAttribute."""
    card = me.cards[checked(device, "device").number]
    known = CUdevice_attribute
    return {
        known.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: 132,
        known.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: card.capability[0],
        known.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: card.capability[1],
        known.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS: int(card.shares),
    }[kind]


def name_of(me: StandIn, length: int, device: Handle) -> bytes:
    """cuDeviceGetName."""
    return f"Card {checked(device, 'device').number}".encode().ljust(length, b"\0")


def set_current(me: StandIn, context: Handle) -> None:
    """cuCtxSetCurrent."""
    me.current = checked(context, "context")


def allocate(me: StandIn, size: int, flags: int) -> Any:
    """cuMemAllocManaged."""
    whole(size, flags)
    if flags != CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL or not size:
        return CUresult.CUDA_ERROR_INVALID_VALUE
    if sum(map(len, me.blocks.values())) + size > me.memory:
        return CUresult.CUDA_ERROR_OUT_OF_MEMORY
    block = np.zeros(size, np.uint8)
    me.blocks[block.ctypes.data] = block
    return block.ctypes.data


def allocate_on_host(me: StandIn, size: int, flags: int) -> Any:
    """cuMemHostAlloc."""
    whole(size, flags)
    block = np.zeros(size, np.uint8)
    me.blocks[block.ctypes.data] = block
    return block.ctypes.data


def free(me: StandIn, address: int) -> Any:
    """cuMemFree."""
    whole(address)
    return None if me.blocks.pop(address, None) is not None else CUresult.CUDA_ERROR_INVALID_VALUE


def copy(me: StandIn, target: int, source: int, size: int, stream: Handle) -> None:
    """cuMemcpyAsync."""
    whole(target, source, size)
    checked(stream, "stream")
    ctypes.memmove(target, source, size)


def load(me: StandIn, image: bytes, count: int, options: list[Any], values: list[Any]) -> Any:
    """cuModuleLoadDataEx: takes what looks like a module of PTX."""
    if count != len(options) or count != len(values) or not isinstance(values[0], bytearray):
        raise TypeError("options and values do not match")
    if not image.endswith(b"\0") or b".version" not in image:
        values[0][:9] = b"not a PTX"
        return CUresult.CUDA_ERROR_INVALID_PTX
    return Handle("module", me.counts["cuModuleLoadDataEx"])


def function_of(me: StandIn, module: Handle, name: bytes) -> Any:
    """cuModuleGetFunction."""
    checked(module, "module")
    if name == b"absent":
        return CUresult.CUDA_ERROR_NOT_FOUND
    function = Handle("function", len(me.functions))
    me.functions[function] = name.decode()
    return function


def launch(me: StandIn, function: int, *rest: int | None) -> int:
    """cuLaunchKernel, in C: notes the launch, and the arguments behind the addresses."""
    me.counts["cuLaunchKernel"] += 1
    status = me._status("cuLaunchKernel")
    if status is not CUresult.CUDA_SUCCESS:
        return status
    x, y, z, items, items_y, items_z, shared, stream, arguments, extra = (n or 0 for n in rest)
    if not x or not items or items > 1024 or (y, z, items_y, items_z, extra) != (1, 1, 1, 1, 0):
        return CUresult.CUDA_ERROR_INVALID_VALUE
    if shared or handle_at(stream).kind != "stream":
        return CUresult.CUDA_ERROR_INVALID_VALUE
    places = (ctypes.c_uint64 * 2).from_address(arguments)
    ring, block = (ctypes.c_int64.from_address(place).value for place in places)
    me.launches.append(Launch(me.functions[handle_at(function)], ring, block, x, items))
    return CUresult.CUDA_SUCCESS


def new_event(me: StandIn, flags: int) -> Handle:
    """cuEventCreate."""
    whole(flags)
    event = Handle("event", me.counts["cuEventCreate"])
    me.events[event] = None
    return event


def record(me: StandIn, event: Handle, stream: Handle) -> None:
    """cuEventRecord."""
    checked(stream, "stream")
    me.events[checked(event, "event")] = len(me.launches)


def elapsed(me: StandIn, first: Handle, last: Handle) -> Any:
    """cuEventElapsedTime: milliseconds, once the card has passed both events."""
    times = [me.events.get(checked(event, "event")) for event in (first, last)]
    if None in times or not me.counts["cuStreamSynchronize"]:
        return CUresult.CUDA_ERROR_INVALID_VALUE
    return 0.25 * (times[1] - times[0])


def drop_event(me: StandIn, event: Handle) -> None:
    """cuEventDestroy."""
    del me.events[checked(event, "event")]


FUNCTIONS: dict[str, Any] = {
    "cuInit": init,
    "cuGetErrorString": lambda me, status: f"what {status.name} means".encode(),
    "cuDriverGetVersion": lambda me: 12080,
    "cuDeviceGetCount": lambda me: len(me.cards),
    "cuDeviceGet": lambda me, n: Handle("device", n),
    "cuDeviceGetAttribute": attribute,
    "cuDeviceGetName": name_of,
    "cuDeviceTotalMem": lambda me, device: me.memory,
    "cuDevicePrimaryCtxRetain": lambda me, d: Handle("context", checked(d, "device").number),
    "cuCtxSetCurrent": set_current,
    "cuStreamCreate": lambda me, flags: Handle("stream", int(flags)),
    "cuStreamSynchronize": lambda me, stream: checked(stream, "stream") and None,
    "cuMemAllocManaged": allocate,
    "cuMemHostAlloc": allocate_on_host,
    "cuMemFree": free,
    "cuMemcpyAsync": copy,
    "cuModuleLoadDataEx": load,
    "cuModuleGetFunction": function_of,
    "cuEventCreate": new_event,
    "cuEventRecord": record,
    "cuEventElapsedTime": elapsed,
    "cuEventDestroy": drop_event,
}
#: Functions that return something beside their status.
RESULTS = {
    name: 1 for name in FUNCTIONS
    if name not in ("cuInit", "cuCtxSetCurrent", "cuStreamSynchronize", "cuMemFree",
                    "cuMemcpyAsync", "cuEventRecord", "cuEventDestroy")
}  # fmt: skip
NEEDS_CONTEXT = {
    "cuStreamCreate", "cuStreamSynchronize", "cuMemAllocManaged", "cuMemHostAlloc", "cuMemFree",
    "cuMemcpyAsync",
    "cuModuleLoadDataEx", "cuModuleGetFunction", "cuLaunchKernel", "cuEventCreate",
    "cuEventRecord",
}  # fmt: skip


def installed(monkeypatch: Any, driver: Any) -> None:
    """Let `import cuda.bindings.driver` give this module, as if the library were there."""
    import sys

    from wend._engine.runtime.devices import cuda

    package = SimpleNamespace(driver=driver, __spec__=SimpleNamespace(name="cuda.bindings"))
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(bindings=package, __path__=[]))
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)
    driver.__spec__ = SimpleNamespace(name="cuda.bindings.driver")
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    monkeypatch.setattr(cuda, "has_library", lambda: True)
    address = ctypes.cast(getattr(driver, "launch", None), ctypes.c_void_p).value
    monkeypatch.setattr(cuda, "address_of_launch", lambda: address)
    for cached in (cuda.calls, cuda.devices):
        cached.cache_clear()
