"""An accelerator as the engine sees the device: memory, code, and the launches of a plan."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from wend._engine.base.devices import device
from wend._engine.base.errors import CompileError, DeviceError
from wend._engine.base.forking import at_fork
from wend._engine.compiler.codegen.device_nest import Launch, launches_of
from wend._engine.compiler.llvm_ir import jit
from wend._engine.runtime.devices import _ring_select
from wend._engine.runtime.devices.driver import Driver
from wend._engine.runtime.devices.pool import DeviceBlock, Pool
from wend._engine.runtime.native._launch_select import CALL_WORDS
from wend._engine.runtime.native.temporaries import Arena

#: Bytes of the ring in which argument blocks lie until their kernels have run.
RING = 1 << 20
#: The most groups of a call: each goes on with later turns.
MOST_GROUPS = 1 << 14
#: So many launches are handed to the driver at a time, so that the device begins early.
AT_A_TIME = 16
_WORD = ctypes.c_int64
_ring = _ring_select.select()


class KernelFailure(Exception):
    """A kernel refuses its operands; running the ops again tells which op, and why."""


class DeviceLibrary:
    """The functions of a module, as numbers in the table of their accelerator."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers

    def address(self, name: str) -> int:
        """The number of a function. Raises CompileError for a name that was not asked for."""
        try:
            return self._numbers[name]
        except KeyError:
            raise CompileError(f"address: {name!r} is none of {list(self._numbers)}") from None


class Accelerator:
    """A device with memory and a queue.

    fault: the address of the word in which kernels note failures
    launches, waits: how often kernels were launched, and waited for, so far
    host_steps: ops on the device's values that the processor has run so far
    copied_in: bytes that were copied to the device's memory
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.place: device = driver.place
        self.target = driver.target
        self.pool = Pool(str(driver.place), driver.allocate, driver.free, self.wait)
        self._facts: list[Any] = []  # of each function, as words
        self._functions = np.zeros(64, np.int64)  # addresses of these
        self._libraries: dict[str, DeviceLibrary] = {}
        self._launches = np.zeros(_ring_select.LAUNCH_WORDS * AT_A_TIME, np.int64)
        address = self._launches.ctypes.data
        self._ring = _ring.Ring(driver.allocate(RING, True), RING, address, AT_A_TIME, MOST_GROUPS)
        self._lock = threading.RLock()
        self._queueing = 0  # the thread whose launches are not waited for, see `queued`
        self._failures_of_queued = 0  # as far as another thread has come upon these
        self.fault = driver.allocate(64, True)
        #: A word that stays 0: launches without a guard look at it.
        self._zero = self.fault + 32
        (_WORD * 8).from_address(self.fault)[:] = [0] * 8
        self._pending = 0  # where the failures of launches go that nobody has waited for
        self._waited = 0  # launches so far that were waited for
        self.launches = self.waits = self.host_steps = self.copied_in = 0
        #: Whether this process is a child of that which opened the device.
        self.is_forked = False

    def check_process(self) -> None:
        """Raise DeviceError in a forked process, where a driver would wait for ever."""
        if self.is_forked:
            raise DeviceError(
                f"{self.place}: cannot be used in a forked process; start the process by the "
                "'spawn' method of multiprocessing"
            )

    # -- memory ---------------------------------------------------------------------------------

    def empty(self, shape: Any, dtype: Any) -> Any:
        """Return an array of the device's memory without a content."""
        return self.pool.empty(shape, dtype)

    def arena(self, size: int) -> Arena:
        """Return memory for the temporaries of a run."""
        return Arena(size, self.pool.empty)

    def copied(self, array: Any) -> Any:
        """Return an array in the device's memory with the same elements: perhaps the array itself.

        array: dense
        """
        if self.pool.holds(array.ctypes.data) or not array.size:
            return array
        self.copied_in += array.nbytes
        return self.pool.copy(array)

    def resident(self, value: Any, array: Any, data: int) -> Any:
        """Return the elements of a leaf in the device's memory, where the leaf keeps them.

        array: the leaf's elements, dense     data: their address
        """
        if self.pool.holds(data) or not array.size:
            return array
        copy = self.copied(array)
        if value.extra is None and value.buffer is array and value.type.device is self.place:
            value.buffer = copy
        return copy

    def owns(self, array: Any) -> bool:
        """Whether an array was made by `empty`, and shows all of its block."""
        return type(array.base) is DeviceBlock

    # -- code -----------------------------------------------------------------------------------

    def load(self, text: str, names: list[str]) -> DeviceLibrary:
        """Return the functions of a module, compiled now. Raises CompileError and DeviceError."""
        self.check_process()
        with self._lock:
            library = self._libraries.get(text)
            if library is None:
                launches = launches_of(text)
                code = jit.device_code(text, self.target)
                numbers = {}
                for name, handle in zip(names, self.driver.load(code, names, self._ring.address)):
                    numbers[name] = self._add_function(handle, launches[name])
                library = self._libraries[text] = DeviceLibrary(numbers)
            return library

    def _add_function(self, handle: int, launch: Launch) -> int:
        """Note how a function is launched; return its number."""
        sizes = [word for pair in launch.sizes for word in pair]
        row = [handle, launch.items, launch.per_group, launch.words, len(launch.sizes), *sizes]
        number = len(self._facts)
        if number == len(self._functions):
            self._functions = np.resize(self._functions, 2 * number)
        self._facts.append(np.array(row, np.int64))
        self._functions[number] = self._facts[number].ctypes.data
        return number

    # -- launches -------------------------------------------------------------------------------

    def run(self, code: int, n: int, scratch: int, fault: int, later: bool = False) -> None:
        """Make n calls in order, and wait for them.

        code: address of the calls     scratch: address of their scratch memory
        fault: address of the word that failures are added to
        later: do not wait; calls with the same `fault` follow. These do nothing after a failure.
        """
        self.check_process()
        with self._lock:
            queued = self._is_queueing()
            if queued and self._pending:
                self._hand_on()
            if not queued and self._pending != fault:
                if self._pending or self._queueing:  # launches of other runs, or of another thread
                    self._hand_on()
                if _WORD.from_address(fault).value:
                    return
            guard = self.fault if self._pending else self._zero
            if not queued:
                self._pending = fault
            try:
                ring, functions = self._ring, self._functions.ctypes.data
                ring.at, ring.left, end = code, 0, code + 8 * CALL_WORDS * n
                while ring.at < end:
                    ring.add_rounds(end, functions, scratch, guard)
                    self._launch(is_full=ring.at < end)
            except BaseException:
                self.settle()
                raise
            if queued == later:  # the next calls write over operands, or the host goes on
                self.settle()

    def settle(self) -> None:
        """Wait for launches that nobody has waited for, so that the host may go on.

        Their failures are handed on; those within `queued` raise KernelFailure.
        """
        with self._lock:
            if self._is_queueing():
                failures = self._failures_of_queued | self._take_failures()
                self._failures_of_queued = 0
                if failures:
                    raise KernelFailure(f"{self.place}: a kernel noted a failure")
            elif self._pending:
                self._hand_on()

    def _is_queueing(self) -> bool:
        """Whether this thread is within `queued`."""
        return self._queueing == threading.get_ident()

    def _hand_on(self) -> None:
        """Wait for launches, and hand on their failures to the run or the block they belong to."""
        fault, self._pending = self._pending, 0
        failures = self._take_failures()
        if fault:
            _WORD.from_address(fault).value |= failures
        else:
            self._failures_of_queued |= failures

    def _take_failures(self) -> int:
        """Wait for launches that were not waited for; return the failures, and forget them."""
        if self.launches != self._waited:
            self.wait()
        word = _WORD.from_address(self.fault)
        failures, word.value = word.value, 0
        return failures

    def call(self, number: int, words: Any, groups: int) -> None:
        """Launch a function by so many groups. words: the argument block, an array of int64"""
        self.check_process()
        block, size, functions = words.ctypes.data, words.nbytes, self._functions.ctypes.data
        with self._lock:
            while not self._ring.add(number, block, size, groups, functions, self._zero):
                self._launch(is_full=True)
            self._launch()
            if not self._is_queueing():
                self.wait()

    @contextmanager
    def queued(self) -> Iterator[None]:
        """Within the block, launches of this thread are not waited for; at the end all are.

        Until then nobody gets memory that is given back. Raises KernelFailure.
        """
        with self._lock:
            is_first = not self._queueing
            if is_first:
                self.settle()
                self._queueing, self.pool.holds_back = threading.get_ident(), True
        if not is_first:
            yield
            return
        try:
            yield
            self.settle()
        finally:
            with self._lock:
                if not self.is_forked:
                    if self._pending:  # of another thread
                        self._hand_on()
                    self._take_failures()
                self._queueing = self._failures_of_queued = 0
            self.pool.release()

    def _launch(self, is_full: bool = False) -> None:
        """Launch what is in the list.

        is_full: more is to come, for which there is no room in the list or in the ring
        """
        ring = self._ring
        n, ring.count = ring.count, 0
        if n:
            self.launches += n
            self.start(ring.launches, n)
        if is_full and n < AT_A_TIME:  # blocks are written over when their kernels have run
            if not ring.next:
                raise DeviceError(f"{self.place}: an argument block is larger than {ring.size} B")
            self.wait()
            ring.next = 0

    def start(self, launches: int, n: int) -> None:
        """Let the driver run n launches. A profiler measures these here."""
        self.driver.launch(launches, n)

    def wait(self) -> None:
        """Return when the device has nothing to do."""
        self.check_process()
        self.waits += 1
        self._waited = self.launches
        self.driver.wait()


#: Functions that make the driver of a device, by type.
DRIVERS: dict[str, Callable[[device], Driver]] = {}
_OPEN: dict[device, Accelerator] = {}
_opening = threading.Lock()


def accelerator_at(place: device) -> Accelerator:
    """Return the accelerator at a place, opened at the first call. Raises DeviceError."""
    with _opening:
        accelerator = _OPEN.get(place)
        if accelerator is None:
            accelerator = _OPEN[place] = Accelerator(DRIVERS[place.type](place))
        return accelerator


def _after_fork() -> None:
    """Note in a child that the devices of the parent are out of reach."""
    for accelerator in _OPEN.values():
        accelerator.is_forked = True


at_fork(lambda: None, lambda: None, _after_fork)


def opened() -> dict[device, Accelerator]:
    """The accelerators that have been used."""
    return dict(_OPEN)


def wait_for_all() -> None:
    """Return when no accelerator has anything to do."""
    for accelerator in list(_OPEN.values()):
        accelerator.wait()
