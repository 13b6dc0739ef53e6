"""Collectives that are begun together, and barriers: with the missing ranks, for a debugger."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np

from wend._engine.base.devices import DeviceLike
from wend._engine.base.errors import ArgumentError, ShapeError
from wend._engine.core._hot import Tensor
from wend.distributed import _collectives
from wend.distributed._collectives import all_gather, all_reduce, alone, barrier, member
from wend.distributed._group import AnyGroup, resolve
from wend.distributed._reduction import AnyOp, ReduceOp
from wend.distributed._wire._arrays import check_list
from wend.distributed._wire._faults import DistBackendError
from wend.distributed._work import Work, seconds_of

__all__ = [
    "all_gather_coalesced",
    "all_reduce_coalesced",
    "breakpoint",
    "coalescing",
    "monitored_barrier",
]

#: Tags of the messages of `monitored_barrier`, which users' messages do not have.
_HERE, _GO_ON = 32766, 32767


class Together(Work):
    """Several works as a single work."""

    def __init__(self, works: list[Work], result: object) -> None:
        self.works, self.outcome = works, result
        self._group_future: Any = None

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Return True when all results are there."""
        answers = [work.wait(timeout) for work in self.works]
        return all(answers)

    def is_completed(self) -> bool:
        """Whether all results are there."""
        answers = [work.is_completed() for work in self.works]
        return all(answers)

    def is_success(self) -> bool:
        """Whether all results are there, without an error."""
        answers = [work.is_success() for work in self.works]
        return all(answers)

    def exception(self) -> BaseException | None:
        """The first error."""
        return next((w.error for w in self.works if w.error is not None), None)

    def get_future(self) -> Any:
        """A future of all tensors with results."""
        from wend.futures import Future, collect_all

        future: Any = Future()
        done = collect_all([work.get_future() for work in self.works])
        done.add_done_callback(lambda _: future.set_result(self.outcome))
        return future


def all_reduce_coalesced(
    tensors: list[Tensor], op: AnyOp = ReduceOp.SUM, group: AnyGroup = None, async_op: bool = False
) -> Work | None:
    """Each tensor = the reduction of all ranks' tensors at that place. See `all_reduce`."""
    process_group = member("all_reduce_coalesced", group)
    if process_group is None:
        return None
    parts = check_list("all_reduce_coalesced", "tensors", tensors)
    works = [all_reduce(tensor, op, process_group, async_op=True) for tensor in parts]
    return _at_once([work for work in works if work is not None], tensors, async_op)


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]],
    input_tensor_list: list[Tensor],
    group: AnyGroup = None,
    async_op: bool = False,
) -> Work | None:
    """output_tensor_lists[rank] = the list of tensors of each rank. See `all_gather`.

    Raises ShapeError for lists that do not fit.
    """
    process_group = member("all_gather_coalesced", group)
    if process_group is None:
        return None
    inputs = check_list("all_gather_coalesced", "input_tensor_list", input_tensor_list)
    if any(len(outs) != len(inputs) for outs in output_tensor_lists):
        raise ShapeError("all_gather_coalesced: each output list needs a tensor for each input")
    works = []
    for k, tensor in enumerate(inputs):
        outs = [outs[k] for outs in output_tensor_lists]
        works.append(all_gather(outs, tensor, process_group, async_op=True))
    return _at_once([w for w in works if w is not None], output_tensor_lists, async_op)


def _at_once(works: list[Work], result: object, async_op: bool) -> Work | None:
    work = Together(works, result)
    if async_op:
        return work
    work.wait()
    return None


class CoalescingManager:
    """Gathers the works of a block; `wait` waits for all."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def append(self, work: Work | None = None) -> None:
        """Add a work."""
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        """Wait for all works."""
        for work in self.works:
            work.wait()


@contextmanager
def coalescing(
    group: AnyGroup = None, device: DeviceLike = None, async_ops: bool = False
) -> Iterator[CoalescingManager]:
    """A block whose collectives run in the background, in order; the end of the block waits.

    async_ops: the end of the block does not wait; `wait` of the block's manager does
    """
    resolve(group)
    manager = CoalescingManager()
    outer = _collectives.GATHERED.value
    _collectives.GATHERED.value = manager.works
    try:
        yield manager
    finally:
        _collectives.GATHERED.value = outer
    if not async_ops:
        manager.wait()


def monitored_barrier(
    group: AnyGroup = None, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
) -> None:
    """Return when all ranks have called; else the first rank tells which ranks are missing.

    timeout: a timedelta; that of the group by default
    wait_all_ranks: tell all missing ranks, not only the first
    Raises DistBackendError (a RuntimeError) after the time.
    """
    process_group = member("monitored_barrier", group)
    if process_group is None:
        return
    if timeout is not None and not isinstance(timeout, timedelta):
        raise ArgumentError("monitored_barrier: timeout must be a timedelta")
    if process_group.size() == 1:
        alone(False, None)
        return
    limit = seconds_of(timeout or process_group.timeout) or 0.0
    end = time.monotonic() + limit
    channel = process_group.line()
    channel.check("monitored_barrier")
    line, note = channel.line, np.zeros(1, np.uint8)
    if process_group.own != 0:
        sent = line.send(note, 0, _HERE)
        answer = line.receive(np.zeros(1, np.uint8), 0, _GO_ON)
        if not await_until(end, sent) or not await_until(end, answer):
            raise DistBackendError(
                f"monitored_barrier: rank {process_group.own} has not heard of rank 0 "
                f"after {limit} s"
            )
        return
    waiting = {
        rank: line.receive(np.zeros(1, np.uint8), rank, _HERE)
        for rank in range(1, process_group.size())
    }
    missing = []
    for rank, request in waiting.items():
        if not await_until(end, request):
            missing.append(rank)
            if not wait_all_ranks:
                break
    if missing:
        ranks = [process_group.ranks[place] for place in missing]
        raise DistBackendError(
            f"monitored_barrier: rank(s) {', '.join(map(str, ranks))} failed to pass "
            f"monitoredBarrier in {limit} s: they have not called, or are late"
        )
    for rank in waiting:
        line.send(note, rank, _GO_ON).wait()


def await_until(end: float, request: Any) -> bool:
    """Whether a message is done before a time."""
    looks = 0
    while not request.test():
        if time.monotonic() > end:
            return False
        looks += 1
        time.sleep(min(looks * 1e-5, 1e-3))
    return True


#: How often a line has called `breakpoint`.
_calls: Counter[tuple[str, int]] = Counter()


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: float | None = 3600) -> None:
    """Open Python's debugger in a rank; the others wait until the debugger goes on. All ranks call.

    rank: the launcher gives the terminal to rank 0 alone
    skip: the first calls from a line that go on at once
    timeout_s: seconds that messages of the default group wait from now on; None for no change
    """
    import pdb  # noqa: T100

    caller = sys._getframe(1)
    place = caller.f_code.co_filename, caller.f_lineno
    _calls[place] += 1
    if _calls[place] <= skip:
        return
    group = resolve(None)
    if timeout_s is not None:
        group.timeout = timedelta(seconds=timeout_s)
    if group.own == rank:
        debugger = pdb.Pdb()
        debugger.message(f"Type 'up' to get to the frame that called dist.breakpoint(rank={rank})")
        debugger.set_trace()
    barrier()
