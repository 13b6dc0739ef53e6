"""The seven verbs that the engine asks of an accelerator, and one for profilers: see `Driver`.

Memory of a driver has addresses that the processor can read and write too, when the device has
nothing to do: OpenCL calls such memory shared, CUDA managed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from wend._engine.base.devices import device
from wend._engine.compiler.llvm_ir.jit import Target


class Properties(NamedTuple):
    """A description of a device.

    name, vendor, version: as the driver tells
    total_memory: in bytes
    units: the processors that run groups
    kind: "gpu", "cpu" or "accelerator"
    capability: of NVIDIA's cards, as (major, minor); (0, 0) for other devices
    """

    name: str
    vendor: str
    version: str
    total_memory: int
    units: int
    kind: str
    capability: tuple[int, int] = (0, 0)


class Driver(Protocol):
    """A device, by seven verbs.

    place: the device as users name it
    target: the processor that code is made for
    properties: a description
    """

    place: device
    target: Target
    properties: Properties

    def allocate(self, size: int, is_shared: bool = False) -> int:
        """Return the address of new memory. Raises MemoryError if there is none left.

        is_shared: the processor writes to the memory while the device works; never freed
        """

    def free(self, address: int) -> None:
        """Give memory back that nobody uses any more."""

    def copy_in(self, address: int, source: int, size: int) -> None:
        """Copy so many bytes from the processor's memory, behind all launches so far."""

    def copy_out(self, target: int, address: int, size: int) -> None:
        """Copy so many bytes to the processor's memory, when all launches so far are done."""

    def load(self, code: bytes, names: Sequence[str], ring: int) -> list[int]:
        """Return handles of a module's functions. Raises CompileError if the module is refused.

        ring: the address of the memory in which all argument blocks lie
        """

    def launch(self, launches: int, n: int) -> None:
        """Run n functions in order, behind all launches so far; do not wait. Raises DeviceError.

        launches: the address of the first in a list, see `_ring`
        """

    def timed(self, launches: int, n: int) -> list[tuple[int, int]]:
        """Run functions as `launch` does, and wait: for profilers.

        Returns the nanoseconds from this call to the begin and the end of each. Raises DeviceError.
        """

    def wait(self) -> None:
        """Return when all launches are done. Raises DeviceError if the device has failed."""
