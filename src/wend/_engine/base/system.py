"""The facts and services that depend on the operating system, for Linux, macOS and Windows.

Modules ask `system`, the object for this process, and name no system. A service that a
system lacks has a substitute here, or raises NotAvailable with the reason.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, ClassVar

from wend._engine.base.errors import NotAvailable

if TYPE_CHECKING:
    from pathlib import Path  # not loaded for its name: see `tests/base/test_import.py`


def _folder(variable: str | None, default: Path) -> Path:
    """Return the folder that a variable names, if it is set."""
    return type(default)(variable) if variable else default


class System:
    """A system of no known kind: Python's portable functions only."""

    name: ClassVar[str] = "this system"
    #: How a process of a data loader starts, unless the program chooses; None: as Python does.
    start_method: ClassVar[str | None] = None
    #: Whether `wend.aot` makes libraries for this system.
    links_libraries: ClassVar[bool] = False
    #: Whether `wend launch` and its ranks run.
    launches: ClassVar[bool] = False
    #: The library of NVIDIA's driver.
    cuda_library: ClassVar[str] = "libcuda.so.1"

    # -- the machine ----------------------------------------------------------------------------

    def processors(self) -> int:
        """Return the number of processors that this process may use."""
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    def memory(self) -> int | None:
        """Return the bytes of the machine's memory; None if the system does not tell."""
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):  # the system does not tell
            return None

    def processor(self) -> str:
        """Return the processor's name, for people."""
        import platform

        return platform.processor() or platform.machine()

    def trim_heap(self) -> None:
        """Return free memory of the C heap to the system, if the C library can."""

    # -- files ----------------------------------------------------------------------------------

    def cache_folder(self, home: Path, environment: Mapping[str, str]) -> Path:
        """Return the user's folder for files that can be made again."""
        return _folder(environment.get("XDG_CACHE_HOME"), home / ".cache")

    def state_folder(self, home: Path, environment: Mapping[str, str]) -> Path:
        """Return the user's folder for files that are to stay."""
        return _folder(environment.get("XDG_STATE_HOME"), home / ".local" / "state")

    def owns(self, status: os.stat_result, others: int) -> bool:
        """Return whether a file is this user's and gives nobody else these rights."""
        if not hasattr(os, "getuid"):
            return True  # rights lie in lists of the folder, which the user's own folders have
        return status.st_uid == os.getuid() and not status.st_mode & others

    def unnamed_file(self, label: str) -> int:
        """Return the descriptor of a new, empty file without a name, which the caller closes.

        label: a word that tools for the system may show
        """
        import tempfile

        with tempfile.TemporaryFile(prefix=label) as file:
            return os.dup(file.fileno())

    def read_at(self, descriptor: int, target: memoryview, offset: int) -> int:
        """Fill memory from a place of a file; return the number of bytes, 0 at the end."""
        data = os.pread(descriptor, len(target), offset)
        target[: len(data)] = data
        return len(data)

    @contextlib.contextmanager
    def locked(self, file: IO[bytes]) -> Iterator[None]:
        """Hold a file that several processes use. Raises NotAvailable without locks."""
        raise NotAvailable(f"{self.name} has no locks of files that Wend knows")
        yield

    # -- processes ------------------------------------------------------------------------------

    def sends_files(self) -> bool:
        """Return whether open files go to another process through a socket."""
        return False

    def passed_on(self, descriptor: int) -> Any:
        """Return an object that can be pickled for a new process; `detach()` opens it there.

        Raises NotAvailable if open files cannot be sent.
        """
        if not self.sends_files():
            raise NotAvailable(
                f"shared memory cannot be sent to another process on {self.name}; send a copy: "
                "tensor.clone()"
            )
        return importlib.import_module("multiprocessing.reduction").DupFd(descriptor)

    def cause_of_death(self, code: int) -> str:
        """Return the signal that an exit code below 0 tells of, by name."""
        import signal

        known = {int(number) for number in signal.Signals}
        return signal.Signals(-code).name if -code in known else f"signal {-code}"


class Posix(System):
    """Linux and macOS."""

    def sends_files(self) -> bool:
        """Return whether open files go to another process through a socket."""
        import socket

        return hasattr(socket, "send_fds")

    @contextlib.contextmanager
    def locked(self, file: IO[bytes]) -> Iterator[None]:
        """Hold a file that several processes use; the lock ends with the file at the latest."""
        fcntl = importlib.import_module("fcntl")
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Linux(Posix):
    """Linux, with any C library."""

    name = "Linux"
    start_method = "fork"
    links_libraries = True
    launches = True

    def processor(self) -> str:
        """Return the processor's name and the vector registers that matter."""
        import platform
        import re

        try:
            with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:  # a container may hide the file
            return super().processor()
        model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
        flags = re.search(r"^flags\s*:\s*(.+)$", text, re.MULTILINE)
        present = flags[1].split() if flags else []
        shown = ("sse4_2", "avx2", "fma", "avx512f", "amx_tile")
        vector = [name for name in shown if name in present]
        name = model[1].strip() if model else platform.machine()
        return f"{name} ({', '.join(vector)})" if vector else name

    def trim_heap(self) -> None:
        """Return free memory of the C heap to the system, if the C library can.

        glibc serves arrays of up to 32 MB from its heap, once an array of such a size has been
        freed. Gaps between the arrays that are left there stay in the heap.
        """
        trim = _malloc_trim()
        if trim is not None:
            trim(0)

    def unnamed_file(self, label: str) -> int:
        """Return the descriptor of new, empty memory without a name, which the caller closes."""
        if not hasattr(os, "memfd_create"):
            return super().unnamed_file(label)
        return os.memfd_create(label, os.MFD_CLOEXEC)

    def read_at(self, descriptor: int, target: memoryview, offset: int) -> int:
        """Fill memory from a place of a file, without a copy between; 0 at the end."""
        return os.preadv(descriptor, [target], offset)


class MacOS(Posix):
    """macOS: no affinity of processors, no memory files, processes that are not forks."""

    name = "macOS"

    def cache_folder(self, home: Path, environment: Mapping[str, str]) -> Path:
        """Return the user's folder for files that can be made again."""
        return home / "Library" / "Caches"

    def state_folder(self, home: Path, environment: Mapping[str, str]) -> Path:
        """Return the user's folder for files that are to stay."""
        return home / "Library" / "Application Support"


class Windows(System):
    """Windows: no forks, no descriptors that are sent, locks of bytes."""

    name = "Windows"
    cuda_library = "nvcuda.dll"
    #: A byte that no file has: a lock there keeps nobody from reading.
    LOCKED_BYTE: ClassVar[int] = 1 << 30
    #: Seconds between two tries to take a lock.
    PATIENCE: ClassVar[float] = 0.01

    def memory(self) -> int | None:
        """Return None: Python asks Windows by no portable function."""
        return None

    def cache_folder(self, home: Path, environment: Mapping[str, str]) -> Path:
        """Return the user's folder for files of programs."""
        return _folder(environment.get("LOCALAPPDATA"), home / "AppData" / "Local")

    def state_folder(self, home: Path, environment: Mapping[str, str]) -> Path:
        """Return the user's folder for files of programs."""
        return self.cache_folder(home, environment)

    def owns(self, status: os.stat_result, others: int) -> bool:
        """Return True: Windows keeps rights in lists that the user's own folder passes on."""
        return True

    @contextlib.contextmanager
    def locked(self, file: IO[bytes]) -> Iterator[None]:
        """Hold a file that several processes use."""
        msvcrt = importlib.import_module("msvcrt")
        self._at_locked_byte(file, msvcrt.LK_NBLCK, msvcrt.locking)
        try:
            yield
        finally:
            self._at_locked_byte(file, msvcrt.LK_UNLCK, msvcrt.locking)

    def _at_locked_byte(self, file: IO[bytes], mode: int, locking: Callable[..., None]) -> None:
        file.flush()
        place = os.lseek(file.fileno(), 0, os.SEEK_CUR)
        while True:
            os.lseek(file.fileno(), self.LOCKED_BYTE, os.SEEK_SET)
            try:
                locking(file.fileno(), mode, 1)
                break
            except PermissionError:  # another process has the lock: it is asked for again
                time.sleep(self.PATIENCE)
        os.lseek(file.fileno(), place, os.SEEK_SET)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's `malloc_trim`; None in other C libraries."""
    import ctypes

    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # the C library has no `malloc_trim`
        return None


def system_named(name: str) -> System:
    """Return the services of a system. name: as `sys.platform` has it."""
    kinds = {"linux": Linux, "darwin": MacOS, "win32": Windows}
    return kinds.get(name, Posix if hasattr(os, "fork") else System)()


#: The system of this process.
system = system_named(sys.platform)
