"""NVIDIA's cards, as `cuda`: through the package cuda-bindings, which the extra `cuda` installs.

Code is the text of PTX, which the driver of the card assembles. Memory is managed: the processor
reads and writes it too. Cards of which the processor cannot use memory at any time are left out.

No card has run this code yet: kernels are assembled by NVIDIA's `ptxas`, and this module is tested
with a stand-in of `cuda.bindings.driver`.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from wend._engine.base.devices import COUNTERS, device
from wend._engine.base.errors import CompileError, DeviceError
from wend._engine.base.system import system
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.runtime.devices import _ring_select
from wend._engine.runtime.devices.driver import Properties
from wend._engine.runtime.devices.queue import DRIVERS

#: Cards that LLVM makes code for, by compute capability, with the first PTX that names these. The
#: driver of a card in between takes the code for the card before.
GENERATIONS: Final = {
    70: "ptx60", 75: "ptx63", 80: "ptx70", 86: "ptx71", 89: "ptx78", 90: "ptx80", 100: "ptx86",
    120: "ptx87",
}  # fmt: skip
#: Bytes of the message in which a driver says why it refuses a module.
LOG: Final = 1 << 13
#: Flags of memory of the processor that all cards use at the same addresses:
#: CU_MEMHOSTALLOC_PORTABLE and CU_MEMHOSTALLOC_DEVICEMAP.
SHARED: Final = 1 | 2
#: Errors after which a process can do nothing more with the card.
FINAL: Final = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ASSERT", "CONTEXT_IS_DESTROYED", "ECC_UNCORRECTABLE", "HARDWARE_STACK_ERROR",
        "ILLEGAL_ADDRESS", "ILLEGAL_INSTRUCTION", "INVALID_ADDRESS_SPACE", "INVALID_PC",
        "LAUNCH_FAILED", "LAUNCH_TIMEOUT", "MISALIGNED_ADDRESS", "UNKNOWN",
    )
)  # fmt: skip


def target_of(major: int, minor: int) -> Target:
    """Return the target for cards of a compute capability. Raises DeviceError for old cards."""
    capability = 10 * major + minor
    known = [c for c in GENERATIONS if c <= capability]
    if not known:
        raise DeviceError(
            f"cuda: cards of compute capability {major}.{minor} are too old; "
            f"Wend needs {min(GENERATIONS) / 10} at least"
        )
    return Target("nvptx64-nvidia-cuda", f"sm_{known[-1]}", f"+{GENERATIONS[known[-1]]}")


def has_library() -> bool:
    """Whether the system has the library of NVIDIA's driver."""
    try:
        ctypes.CDLL(system.cuda_library)
    except OSError:  # no driver is installed
        return False
    return True


def address_of_launch() -> int:
    """The address of cuLaunchKernel."""
    function = ctypes.CDLL(system.cuda_library).cuLaunchKernel
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Failure(Exception):
    """An error of the driver, by its name and its description."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(f"{name}: {description}")
        self.name = name


class Calls:
    """The functions of CUDA's driver.

    library: the module `cuda.bindings.driver`
    """

    def __init__(self, library: Any) -> None:
        self.library = library

    def __call__(self, name: str, *args: Any) -> Any:
        """Return the result of a function, the results if there are several. Raises Failure."""
        status, *results = getattr(self.library, name)(*args)
        if status != self.library.CUresult.CUDA_SUCCESS:
            raise self.failure(status)
        return results[0] if len(results) == 1 else results

    def failure(self, status: Any) -> Failure:
        """Return the error for a status."""
        _, text = self.library.cuGetErrorString(status)
        return Failure(status.name, bytes(text or b"").decode() or "no description")


@functools.cache
def calls() -> Calls | None:
    """CUDA's driver, ready for use; None if there is none, or no card."""
    try:
        if not importlib.util.find_spec("cuda.bindings.driver") or not has_library():
            return None
    except ModuleNotFoundError:  # the extra is not installed
        return None
    from cuda.bindings import driver

    ready = Calls(driver)
    try:
        ready("cuInit", 0)
    except (Failure, RuntimeError):  # no card is there, or the library does not suit the system
        return None
    return ready


@functools.cache
def devices() -> list[Any]:
    """All cards that Wend can use."""
    cu = calls()
    if cu is None:
        return []
    numbers = range(cu("cuDeviceGetCount"))
    return [d for d in (cu("cuDeviceGet", n) for n in numbers) if _suits(cu, d)]


def _attribute(cu: Calls, d: Any, name: str) -> int:
    kinds = cu.library.CUdevice_attribute
    return int(cu("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}"), d))


def _capability(cu: Calls, d: Any) -> tuple[int, int]:
    names = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR")
    return _attribute(cu, d, names[0]), _attribute(cu, d, names[1])


def _suits(cu: Calls, d: Any) -> bool:
    """Whether a card is new enough, and shares its memory with the processor at any time."""
    major, minor = _capability(cu, d)
    new = 10 * major + minor >= min(GENERATIONS)
    return new and bool(_attribute(cu, d, "CONCURRENT_MANAGED_ACCESS"))


def count() -> int:
    """How many cards there are."""
    return len(devices())


class CUDADriver:
    """A card of NVIDIA."""

    def __init__(self, place: device) -> None:
        cu = calls()
        assert cu is not None
        self.cu = cu
        self.place = place
        self._lost = ""  # why the card can do nothing more
        d = devices()[place.index or 0]
        capability = _capability(cu, d)
        self.target = target_of(*capability)
        self._modules: list[Any] = []
        self._ring = 0
        self._context = self._do("cuDevicePrimaryCtxRetain", d)
        self._enter()
        # A stream that does not wait for those of other libraries.
        self._stream = self._do("cuStreamCreate", cu.library.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self._launch, self._stream_handle = address_of_launch(), int(self._stream)
        name = bytes(self._do("cuDeviceGetName", 256, d)).partition(b"\0")[0].decode()
        version = int(self._do("cuDriverGetVersion"))
        self.properties = Properties(
            name.strip(), "NVIDIA", f"{version // 1000}.{version % 1000 // 10}",
            int(self._do("cuDeviceTotalMem", d)), _attribute(cu, d, "MULTIPROCESSOR_COUNT"), "gpu",
            capability,
        )  # fmt: skip

    def _do(self, name: str, *args: Any) -> Any:
        """Call a function of the driver. Raises DeviceError."""
        try:
            return self.cu(name, *args)
        except Failure as fault:
            raise self._failed(fault) from fault

    def _failed(self, fault: Failure) -> DeviceError:
        """Return the error for a failure of the device, and remember failures for good."""
        if fault.name in FINAL:
            self._lost = str(fault)
            return self._no_more()
        return DeviceError(f"{self.place}: the device has failed: {fault}")

    def _no_more(self) -> DeviceError:
        return DeviceError(
            f"{self.place}: the device has failed: {self._lost}. The content of its memory is "
            "lost, and this process cannot use it again; begin anew from a checkpoint"
        )

    def _enter(self) -> None:
        """Make the device's context that of this thread. Raises DeviceError if it is lost."""
        if self._lost:
            raise self._no_more()
        self._do("cuCtxSetCurrent", self._context)

    def allocate(self, size: int, is_shared: bool = False) -> int:
        """See `Driver`.

        Shared memory is the processor's: a page of managed memory would move whenever the other
        side uses it, which takes longer than most kernels.
        """
        self._enter()
        flags = self.cu.library.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value
        try:
            if is_shared:
                return int(self.cu("cuMemHostAlloc", size, SHARED))
            return int(self.cu("cuMemAllocManaged", size, flags))
        except Failure as fault:
            if fault.name == "CUDA_ERROR_OUT_OF_MEMORY":
                raise MemoryError(str(fault)) from None
            raise self._failed(fault) from fault

    def free(self, address: int) -> None:
        """See `Driver`."""
        if not self._lost:  # the memory went with the context
            self._enter()
            self._do("cuMemFree", address)

    def copy_in(self, address: int, source: int, size: int) -> None:
        """See `Driver`."""
        self._copy(address, source, size)

    def copy_out(self, target: int, address: int, size: int) -> None:
        """See `Driver`."""
        self._copy(target, address, size)

    def _copy(self, target: int, source: int, size: int) -> None:
        self._enter()
        self._do("cuMemcpyAsync", target, source, size, self._stream)
        self.wait()

    def load(self, code: bytes, names: Sequence[str], ring: int) -> list[int]:
        """See `Driver`."""
        self._enter()
        options = self.cu.library.CUjit_option
        log = bytearray(LOG)
        keys = [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        try:
            module = self.cu("cuModuleLoadDataEx", code + b"\0", len(keys), keys, [log, LOG])
            functions = [self.cu("cuModuleGetFunction", module, name.encode()) for name in names]
        except Failure as fault:
            if fault.name in FINAL:
                raise self._failed(fault) from fault
            told = bytes(log).partition(b"\0")[0].decode(errors="replace").strip()
            told = f"\n{told}" if told else ""
            raise CompileError(
                f"{self.place}: the driver refuses a kernel for {self.target.cpu}: {fault}{told}"
            ) from fault
        self._modules.append(module)
        self._ring = ring
        return [int(function) for function in functions]

    def launch(self, launches: int, n: int) -> None:
        """See `Driver`."""
        self._enter()
        status = _ring.by_cuda(self._launch, self._stream_handle, self._ring, launches, n)
        if status:
            raise self._failed(self.cu.failure(self.cu.library.CUresult(status)))

    def timed(self, launches: int, n: int) -> list[tuple[int, int]]:
        """See `Driver`."""
        self.wait()
        events: list[Any] = []
        try:
            self._mark(events)
            for k in range(n):
                self.launch(launches + 8 * _ring_select.LAUNCH_WORDS * k, 1)
                self._mark(events)
            self.wait()
            # The driver tells milliseconds.
            ends = [self._do("cuEventElapsedTime", events[0], e) * 1e6 for e in events]
        finally:
            for event in () if self._lost else events:
                self._do("cuEventDestroy", event)
        return [(round(a), round(b)) for a, b in pairwise(ends)]

    def _mark(self, events: list[Any]) -> None:
        """Have the card note the time when all launches so far are done."""
        events.append(self._do("cuEventCreate", self.cu.library.CUevent_flags.CU_EVENT_DEFAULT))
        self._do("cuEventRecord", events[-1], self._stream)

    def wait(self) -> None:
        """See `Driver`."""
        self._enter()
        self._do("cuStreamSynchronize", self._stream)


_ring = _ring_select.select()
COUNTERS["cuda"] = count
DRIVERS["cuda"] = CUDADriver
