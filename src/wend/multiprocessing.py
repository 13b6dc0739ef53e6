"""wend.multiprocessing: Python's own; functions in many processes; tensors between these.

A tensor in shared memory is sent as an open file, so that each process sees the writes of the
others; the rest goes by value.
"""

from __future__ import annotations

import multiprocessing as _python
import pickle
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from multiprocessing import connection as _connection
from multiprocessing import get_context, set_start_method
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from wend._engine.base.dtypes import NAMES
from wend._engine.base.errors import ArgumentError, GraphError
from wend._engine.base.system import system
from wend._engine.core._hot import Tensor
from wend._frontend.interop.shared import block_of, mapped, tensor_in
from wend.nn.parameter import Parameter

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_context",
    "get_sharing_strategy",
    "init_reductions",
    "set_sharing_strategy",
    "set_start_method",
    "spawn",
    "start_processes",
]

_strategies = frozenset(("file_descriptor", "file_system"))
_strategy = ["file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    """Names of the ways in which PyTorch shares memory."""
    return set(_strategies)


def get_sharing_strategy() -> str:
    """The name that was set; shared memory is an open file all the same."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Set a name. Raises ArgumentError for another than PyTorch's."""
    if new_strategy not in _strategies:
        raise ArgumentError(
            f"set_sharing_strategy: {sorted(_strategies)} are known, not {new_strategy!r}"
        )
    _strategy[0] = new_strategy


class ProcessException(Exception):
    """A process did not end well."""

    def __init__(self, msg: str, error_index: int, pid: int | None) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid


class ProcessRaisedException(ProcessException):
    """A process raised an error; the message has the traceback."""


class ProcessExitedException(ProcessException):
    """A process ended with another exit code than 0, or by a signal."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int | None, exit_code: int | None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code


def _run(fn: Callable[..., Any], i: int, args: tuple[Any, ...], errors: str) -> None:
    """The main function of a process: the traceback of an error goes to a file."""
    try:
        fn(i, *args)
    except KeyboardInterrupt:  # the process that waits gets the signal as well, and tells
        pass  # the process that waits gets the signal as well
    except Exception:
        Path(errors).write_bytes(pickle.dumps(traceback.format_exc()))
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that run the same function."""

    def __init__(self, processes: list[Any], folder: Any) -> None:
        self.processes = processes
        self._folder = folder

    def pids(self) -> list[int | None]:
        """Numbers of the processes."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the next process to end; whether all have ended.

        Raises ProcessRaisedException or ProcessExitedException for the first that failed, when
        all have been ended.
        """
        running = [process for process in self.processes if process.is_alive()]
        if running:
            _connection.wait([process.sentinel for process in running], timeout)
        failed = next((i for i, p in enumerate(self.processes) if p.exitcode), None)
        if failed is None:
            return all(process.exitcode == 0 for process in self.processes)
        time.sleep(grace_period or 0)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()
        self._tell(failed)
        return False

    def _tell(self, index: int) -> None:
        process = self.processes[index]
        errors = _errors(self._folder.name, index)
        if errors.exists():
            text = pickle.loads(errors.read_bytes())
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}",
                index,
                process.pid,
            )
        raise ProcessExitedException(
            f"process {index} terminated with exit code {process.exitcode}",
            index,
            process.pid,
            process.exitcode,
        )


SpawnContext = ProcessContext


def _errors(folder: str, index: int) -> Path:
    return Path(folder) / f"{index}.pickle"


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    numa_options: Any = None,
) -> ProcessContext | None:
    """Call fn(i, *args) in processes i = 0 ... nprocs - 1, and wait for all if join is true."""
    context: Any = _python.get_context(start_method)
    folder = tempfile.TemporaryDirectory(prefix="wend-processes-")
    processes = []
    for i in range(nprocs):
        arguments = (fn, i, args, str(_errors(folder.name, i)))
        process = context.Process(target=_run, args=arguments, daemon=daemon)
        process.start()
        processes.append(process)
    process_context = ProcessContext(processes, folder)
    if not join:
        return process_context
    while not process_context.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """As `start_processes`, by new processes."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


# -- tensors between processes --------------------------------------------------------------


def rebuild_shared(
    descriptor: Any, size: int, dtype: str, shape: Any, strides: Any, offset: int, leaf: Any
) -> Any:
    """A tensor in the memory of an open file; leaf: (whether a Parameter, requires_grad)."""
    block = mapped(descriptor.detach(), size)
    tensor = tensor_in(block, NAMES[dtype], tuple(shape), tuple(strides), offset)
    is_parameter, requires_grad = leaf
    if is_parameter:
        return Parameter(tensor, requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor


def reduce_tensor(tensor: Any) -> Any:
    """How the pickler of processes takes a tensor apart.

    Raises GraphError for a tensor with a history: gradients do not cross processes.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise GraphError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    block, offset = block_of(tensor)
    if block is None:
        return tensor.__reduce_ex__(4)
    name = str(tensor.dtype).split(".")[1]
    leaf = (isinstance(tensor, Parameter), tensor.requires_grad)
    return rebuild_shared, (
        system.passed_on(block.descriptor),
        block.size_asked,
        name,
        tuple(tensor.shape),
        tuple(tensor.stride()),
        offset,
        leaf,
    )


def init_reductions() -> None:
    """Have processes hand tensors over in this way."""
    for cls in (Tensor, Parameter):
        ForkingPickler.register(cls, reduce_tensor)


init_reductions()
