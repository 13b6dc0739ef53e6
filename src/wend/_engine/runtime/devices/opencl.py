"""OpenCL devices, as `xpu`: through the package pyopencl, which the extra `opencl` installs.

Code is SPIR-V. Memory is shared with the processor (OpenCL calls it fine-grained). Devices that
cannot share memory, or do not take SPIR-V, are left out.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from wend._engine.base.config import accelerators_asked
from wend._engine.base.devices import COUNTERS, device
from wend._engine.base.errors import CompileError, DeviceError
from wend._engine.compiler.llvm_ir import jit
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.runtime.devices import _ring_select
from wend._engine.runtime.devices.driver import Properties
from wend._engine.runtime.devices.pool import copy_bytes
from wend._engine.runtime.devices.queue import DRIVERS

TARGET = Target("spirv64-unknown-unknown", "", "")
#: The package of a driver that runs kernels on the processor, and the library in it.
_ON_PROCESSOR = "intel-opencl-rt", "libintelocl.so"


@functools.cache
def devices() -> list[Any]:
    """All devices that kernels can run on; GPUs, unless WEND_XPU asks for others too."""
    asked = accelerators_asked()
    if asked == "none":
        return []
    _find_driver()
    try:
        import pyopencl as cl

        platforms = cl.get_platforms()
    except ImportError:  # the extra is not installed
        return []
    except cl.Error:  # no driver is installed
        return []
    usable = [d for platform in platforms for d in platform.get_devices() if _suits(cl, d)]
    return [d for d in usable if asked == "all" or not d.type & cl.device_type.CPU]


def _find_driver() -> None:
    """Name the driver that pip has installed, where the system has no list of drivers."""
    if "OCL_ICD_VENDORS" in os.environ or os.path.isdir("/etc/OpenCL/vendors"):
        return
    package, library = _ON_PROCESSOR
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:  # another driver may be at hand
        return
    for file in files:
        path = os.path.realpath(str(file.locate()))
        if file.name == library and os.path.exists(path):
            os.environ["OCL_ICD_VENDORS"] = path


def _suits(cl: Any, d: Any) -> bool:
    """Whether a device shares memory with the processor, and takes SPIR-V."""
    shared = d.svm_capabilities & cl.device_svm_capabilities.FINE_GRAIN_BUFFER
    return bool(shared and getattr(d, "il_version", ""))


def count() -> int:
    """How many devices there are."""
    return len(devices())


class OpenCLDriver:
    """A device of OpenCL."""

    def __init__(self, place: device) -> None:
        import pyopencl as cl

        # Each message of the driver would be a warning: that a kernel is vectorized, say.
        warnings.filterwarnings("ignore", category=cl.CompilerWarning)
        self.cl = cl
        self.place = place
        self.target = TARGET
        d = self.device = devices()[place.index or 0]
        self.context = cl.Context([d])
        self.queue = cl.CommandQueue(self.context, d)
        self._memory: dict[int, Any] = {}
        self._kernels: dict[int, Any] = {}  # by handle
        settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("CL_CONFIG_"))
        #: The facts that a translation depends on.
        self.about = "\0".join((d.platform.version, d.name, d.driver_version, *settings))
        kinds = {cl.device_type.CPU: "cpu", cl.device_type.GPU: "gpu"}
        self.properties = Properties(
            d.name.strip(), d.vendor, d.driver_version, d.global_mem_size, d.max_compute_units,
            kinds.get(d.type, "accelerator"),
        )  # fmt: skip

    def allocate(self, size: int, is_shared: bool = False) -> int:
        """See `Driver`; all memory is shared."""
        flags = self.cl.svm_mem_flags.READ_WRITE | self.cl.svm_mem_flags.SVM_FINE_GRAIN_BUFFER
        try:
            memory = self.cl.SVMAllocation(self.context, size, 64, flags)
        except self.cl.Error as fault:
            raise MemoryError(str(fault)) from None
        self._memory[memory.svm_ptr] = memory
        return int(memory.svm_ptr)

    def free(self, address: int) -> None:
        """See `Driver`."""
        self._memory.pop(address).release()

    def copy_in(self, address: int, source: int, size: int) -> None:
        """See `Driver`."""
        self.wait()
        copy_bytes(address, source, size)

    def copy_out(self, target: int, address: int, size: int) -> None:
        """See `Driver`."""
        self.wait()
        copy_bytes(target, address, size)

    def load(self, code: bytes, names: Sequence[str], ring: int) -> list[int]:
        """See `Driver`."""
        try:
            program = self._program(code)
            kernels = [self.cl.Kernel(program, name) for name in names]
        except self.cl.Error as fault:
            raise CompileError(f"{self.place}: the driver refuses a kernel: {fault}") from fault
        for kernel in kernels:
            kernel.set_arg(0, self._memory[ring])
            self._kernels[kernel.int_ptr] = kernel
        return [kernel.int_ptr for kernel in kernels]

    def _program(self, code: bytes) -> Any:
        """Return a module as the driver has translated it: that takes long, and is kept."""
        cl = self.cl
        kept = jit.kept_translation(code, self.about)
        if kept is not None:
            try:
                return cl.Program(self.context, [self.device], [kept]).build()
            except cl.Error:  # another driver of the same name: the module is translated anew
                pass
        program = cl.Program(self.context, code).build()
        (translation,) = program.get_info(cl.program_info.BINARIES)
        jit.keep_translation(code, self.about, translation)
        return program

    def launch(self, launches: int, n: int) -> None:
        """See `Driver`."""
        status = _ring.by_opencl(*self._functions, self.queue.int_ptr, launches, n)
        if status:
            names: Any = self.cl.status_code
            raise DeviceError(
                f"{self.place}: the device refuses a launch: {names.to_string(status)}"
            )

    @functools.cached_property
    def _functions(self) -> list[int]:
        """The addresses of the functions that launch: those of the library that pyopencl uses."""
        library = ctypes.CDLL(self.cl._cl.__file__)
        functions = library.clSetKernelArg, library.clEnqueueNDRangeKernel
        return [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions]

    @functools.cached_property
    def _clocked(self) -> Any:
        """A queue whose events have times; the other queue is quicker."""
        return self.cl.CommandQueue(
            self.context, self.device, self.cl.command_queue_properties.PROFILING_ENABLE
        )

    def timed(self, launches: int, n: int) -> list[tuple[int, int]]:
        """See `Driver`."""
        self.wait()
        queue, enqueue = self._clocked, self.cl.enqueue_nd_range_kernel
        events = []
        for handle, place, groups, items, _ in _ring_select.rows_of(launches, n):
            kernel = self._kernels[handle]
            kernel.set_arg(1, np.int64(place))
            events.append(enqueue(queue, kernel, (groups * items,), (items,)))
        self._finish(queue)
        times = [event.profile for event in events]
        begin = times[0].queued if times else 0
        return [(t.start - begin, t.end - begin) for t in times]

    def wait(self) -> None:
        """See `Driver`."""
        self._finish(self.queue)

    def _finish(self, queue: Any) -> None:
        """Wait for a queue. Raises DeviceError."""
        try:
            queue.finish()
        except self.cl.Error as fault:
            raise DeviceError(f"{self.place}: the device has failed: {fault}") from fault


_ring = _ring_select.select()
COUNTERS["xpu"] = count
DRIVERS["xpu"] = OpenCLDriver
