"""The functions of `wend.cuda`, `wend.xpu` and `wend.accelerator`: one class, an object a module.

Where no device is there, questions have an answer, seeding does nothing, and all else raises
DeviceError.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wend._engine.base.devices import (
    CURRENT,
    DeviceLike,
    accelerator_kind,
    count_of,
    device,
)
from wend._engine.base.errors import ArgumentTypeError, ValueRefused
from wend._engine.core._hot import Tensor
from wend._engine.core._hot import synchronize as compute_pending
from wend._engine.runtime.devices.queue import Accelerator, accelerator_at, opened
from wend._frontend import random
from wend._frontend.devices import memory
from wend._frontend.devices.places import (
    kind_at_hand,
    make_current,
    place_of,
    refuse_kind,
    unit_at,
    unit_in_use,
)
from wend._frontend.devices.queues import Stream, StreamContext
from wend._frontend.devices.streams import choose_stream, current_stream_of, default_stream_of

__all__ = ["DeviceFunctions", "DeviceProperties"]


class DeviceProperties:
    """Facts of a device: name, vendor, driver_version, type, total_memory, and its units.

    multi_processor_count, max_compute_units, gpu_eu_count: how many groups run at a time
    major, minor: of the capability; 0 and 0 for devices that have no such number
    """

    def __init__(self, unit: Accelerator) -> None:
        facts = unit.driver.properties
        self.name, self.vendor, self.driver_version = facts.name, facts.vendor, facts.version
        self.type, self.total_memory = facts.kind, facts.total_memory
        self.multi_processor_count = self.max_compute_units = self.gpu_eu_count = facts.units
        self.major, self.minor = facts.capability

    def __repr__(self) -> str:
        shown = ("name", "vendor", "driver_version", "type", "multi_processor_count")
        facts = ", ".join(f"{key}={getattr(self, key)!r}" for key in shown)
        return f"_DeviceProperties({facts}, total_memory={self.total_memory >> 20}MB)"


class DeviceFunctions:
    """The functions of the module of a kind of accelerator.

    kind: "cuda", "xpu", ...; None: the kind of the current accelerator
    stream_class: of the streams that are handed out
    """

    def __init__(self, kind: str | None, stream_class: type[Stream] = Stream) -> None:
        self._kind = kind
        self._streams = stream_class

    # -- devices ----------------------------------------------------------------------------

    def is_available(self) -> bool:
        """Whether there is such a device."""
        return self.device_count() > 0

    def device_count(self) -> int:
        """How many such devices there are."""
        kind = accelerator_kind() if self._kind is None else self._kind
        return 0 if kind is None else count_of(kind)

    def is_initialized(self) -> bool:
        """Whether such a device has been used."""
        return any(self._kind in (None, place.type) for place in opened())

    def init(self) -> None:
        """Open the current device."""
        unit_at(self._kind, None, "init")

    def current_device(self) -> int:
        """The number of the device that is meant where no number is given."""
        return CURRENT.get(kind_at_hand(self._kind, "current_device"), 0)

    def set_device(self, device: DeviceLike) -> None:
        """Let this device be meant where no number is given; a negative number changes nothing."""
        kind_at_hand(self._kind, "set_device")
        if not isinstance(device, int) or device >= 0:
            make_current(place_of(self._kind, device, "set_device"))

    def get_device_properties(self, device: DeviceLike = None) -> DeviceProperties:
        """The facts of a device."""
        return DeviceProperties(unit_at(self._kind, device, "get_device_properties"))

    def get_device_name(self, device: DeviceLike = None) -> str:
        """The name of a device, as the driver tells."""
        return unit_at(self._kind, device, "get_device_name").driver.properties.name

    def get_device_capability(self, device: DeviceLike = None) -> Any:
        """(major, minor) of a device of NVIDIA; a dict of facts of other devices."""
        unit = unit_at(self._kind, device, "get_device_capability")
        if unit.target.is_nvidia:
            return unit.driver.properties.capability
        return vars(DeviceProperties(unit))

    def get_arch_list(self) -> list[str]:
        """The names of the processors that kernels are made for; [] if there is no device."""
        if not self.is_available():
            return []
        kind = kind_at_hand(self._kind, "get_arch_list")
        units = [accelerator_at(device(kind, i)) for i in range(count_of(kind))]
        return sorted({unit.target.cpu or unit.target.triple.split("-")[0] for unit in units})

    def can_device_access_peer(self, device: DeviceLike, peer_device: DeviceLike) -> bool:
        """False: each device reads its own memory and the processor's."""
        place_of(self._kind, device, "can_device_access_peer")
        place_of(self._kind, peer_device, "can_device_access_peer")
        return False

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        """Whether there is a device: kernels compute bfloat16 in float32."""
        return self.is_available()

    def is_tf32_supported(self) -> bool:
        """False: products are computed in float32."""
        return False

    def current_accelerator(self, check_available: bool = False) -> device | None:
        """The kind of the current accelerator, as a device; None if there is none."""
        kind = accelerator_kind()
        return None if kind is None else device(kind)

    # -- the order of work ------------------------------------------------------------------

    def synchronize(self, device: DeviceLike = None) -> None:
        """Compute all that is pending in this thread, and wait for the device."""
        compute_pending()
        unit = unit_in_use(self._kind, device, "synchronize")
        if unit is not None:
            unit.wait()

    def stream(self, stream: Any) -> StreamContext:
        """The block of a stream."""
        return StreamContext(stream)

    def set_stream(self, stream: Any) -> None:
        """Use a stream from now on, in this thread; None changes nothing."""
        if stream is None:
            return
        if not self.is_available():
            refuse_kind(self._kind, "set_stream")
        choose_stream(stream)

    def current_stream(self, device: DeviceLike = None) -> Any:
        """The stream in force in this thread."""
        return current_stream_of(self._streams, place_of(self._kind, device, "current_stream"))

    def default_stream(self, device: DeviceLike = None) -> Any:
        """The stream of programs that choose none."""
        return default_stream_of(self._streams, place_of(self._kind, device, "default_stream"))

    def is_current_stream_capturing(self) -> bool:
        """False: nothing is captured, see `CUDAGraph`."""
        return False

    # -- memory -----------------------------------------------------------------------------

    def _pool(self, device: DeviceLike, name: str) -> Any:
        unit = unit_in_use(self._kind, device, name)
        return None if unit is None else unit.pool

    def memory_allocated(self, device: DeviceLike = None) -> int:
        """Bytes in use by tensors."""
        return memory.stat(self._pool(device, "memory_allocated"), "allocated")

    def max_memory_allocated(self, device: DeviceLike = None) -> int:
        """The most bytes in use by tensors since the last `reset_peak_memory_stats`."""
        return memory.stat(self._pool(device, "max_memory_allocated"), "peak")

    def memory_reserved(self, device: DeviceLike = None) -> int:
        """Bytes that the pool has of the device, in use or not."""
        return memory.stat(self._pool(device, "memory_reserved"), "reserved")

    def max_memory_reserved(self, device: DeviceLike = None) -> int:
        """The most bytes that the pool had since the last `reset_peak_memory_stats`."""
        return memory.stat(self._pool(device, "max_memory_reserved"), "most_reserved")

    def reset_peak_memory_stats(self, device: DeviceLike = None) -> None:
        """Let the greatest numbers of bytes begin anew."""
        memory.reset_peak(self._pool(device, "reset_peak_memory_stats"))

    def reset_accumulated_memory_stats(self, device: DeviceLike = None) -> None:
        """Let the count of arrays begin anew."""
        memory.reset_count(self._pool(device, "reset_accumulated_memory_stats"))

    def memory_stats(self, device: DeviceLike = None) -> dict[str, Any]:
        """Numbers of the pool by PyTorch's names; {} if the device has not been used."""
        return memory.stats(self._pool(device, "memory_stats"))

    def memory_stats_as_nested_dict(self, device: DeviceLike = None) -> dict[str, Any]:
        """The numbers of `memory_stats` as dicts of dicts."""
        return memory.nested(memory.stats(self._pool(device, "memory_stats_as_nested_dict")))

    def memory_summary(self, device: DeviceLike = None, abbreviated: bool = False) -> str:
        """The numbers of the pool as a table; and launches, waits, host steps and copies so far."""
        return memory.summary(unit_at(self._kind, device, "memory_summary"))

    def mem_get_info(self, device: DeviceLike = None) -> tuple[int, int]:
        """(bytes of the device that this process has not taken, bytes of the device)."""
        unit = unit_at(self._kind, device, "mem_get_info")
        total = unit.driver.properties.total_memory
        return max(total - unit.pool.reserved, 0), total

    def device_memory_used(self, device: DeviceLike = None) -> int:
        """Bytes of the device that this process has taken."""
        return unit_at(self._kind, device, "device_memory_used").pool.reserved

    def empty_cache(self) -> None:
        """Give memory back to the devices that no tensor uses."""
        compute_pending()
        for place, unit in opened().items():
            if self._kind in (None, place.type):
                unit.pool.shed()

    def set_per_process_memory_fraction(self, fraction: float, device: DeviceLike = None) -> None:
        """Bound the memory of tensors by a share of the device's; beyond, OutOfMemoryError.

        Raises ArgumentTypeError for anything but a float, ValueRefused beyond 0 to 1.
        """
        unit = unit_at(self._kind, device, "set_per_process_memory_fraction")
        if not isinstance(fraction, float):
            raise ArgumentTypeError(
                "set_per_process_memory_fraction: Invalid type for fraction argument, must be "
                "`float`"
            )
        if not 0 <= fraction <= 1:
            raise ValueRefused(
                f"set_per_process_memory_fraction: Invalid fraction value: {fraction}. Allowed "
                "range: 0~1"
            )
        unit.pool.limit = int(fraction * unit.driver.properties.total_memory)

    def get_per_process_memory_fraction(self, device: DeviceLike = None) -> float:
        """The share of the device's memory that tensors may take."""
        unit = unit_at(self._kind, device, "get_per_process_memory_fraction")
        limit = unit.pool.limit
        return 1.0 if limit is None else limit / unit.driver.properties.total_memory

    # -- random numbers: equal on all devices, so there is a single generator ---------------------

    def manual_seed(self, seed: int) -> None:
        """Seed the default generator, which all devices share; without a device, nothing."""
        if self.is_available():
            random.manual_seed(seed)

    def seed(self) -> None:
        """Seed the default generator from the operating system; without a device, nothing."""
        if self.is_available():
            random.seed()

    def initial_seed(self) -> int:
        """The default generator's seed."""
        kind_at_hand(self._kind, "initial_seed")
        return random.initial_seed()

    def get_rng_state(self, device: DeviceLike = None) -> Tensor:
        """The state of the default generator, which all devices share."""
        place_of(self._kind, device, "get_rng_state")
        return random.get_rng_state()

    def set_rng_state(self, new_state: Tensor, device: DeviceLike = None) -> None:
        """Set the state of the default generator, which all devices share."""
        place_of(self._kind, device, "set_rng_state")
        random.set_rng_state(new_state)

    def get_rng_state_all(self) -> list[Tensor]:
        """The state of each device: that of the default generator, which all share."""
        return [random.get_rng_state() for _ in range(self.device_count())]

    def set_rng_state_all(self, new_states: Iterable[Tensor]) -> None:
        """Set the states of all devices."""
        for i, state in enumerate(new_states):
            self.set_rng_state(state, i)

    def generators(self) -> tuple[random.Generator, ...]:
        """The generator of each device: the default one."""
        return (random.default_generator,) * self.device_count()
