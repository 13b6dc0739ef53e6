"""Gradients averaged over processes, while the rest of the backward pass is still computed.

A pass ends when its gradients are *recorded*. Each rank then knows from its path which parameters
have a gradient. An OR over all ranks puts these flags together while the flush runs. A parameter
that no rank uses stays without gradient. Where only some ranks use a parameter, zeros stand for the
gradient in the rest. No rank has to walk a graph for that, and no rank waits for a gradient that
never comes.

The buckets of a round are those for the parameters of the round before: all ranks know these
without asking. Parameters that are new in a round follow in further buckets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from wend._engine.core import _backward, _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.provenance import user_site
from wend._engine.core.step_log import ROWS, BackwardRow
from wend._engine.runtime.compiled.announce import announce
from wend._engine.runtime.compiled.handover import received
from wend._engine.runtime.native.launcher import maker
from wend._engine.transforms.hooks import made_of_parts
from wend.distributed._engine import Channel
from wend.distributed._group import ProcessGroup
from wend.distributed._group import state as group_state
from wend.distributed._reduction import RedOpType, Reduction
from wend.distributed._replicas.buckets import Bucket, buckets_of, flags_of, words_of
from wend.distributed._replicas.counters import Counters, Round
from wend.distributed._replicas.shared_line import shared
from wend.distributed._work import Work
from wend.distributed.algorithms.ddp_comm_hooks.default_hooks import WIRES

__all__ = ["Exchange", "Reducer", "own_channel"]

_SUM = Reduction(RedOpType.SUM, "sum", None, False, False)
#: The bit of the first word by which rank 0 says that there is an order to tell.
ORDER = 1


class Reducer:
    """Averages the gradients of parameters over the ranks of a channel, after backward passes.

    parameters: the same in all ranks, and in the same order
    first_bytes, most_bytes: see `buckets_of`
    """

    def __init__(
        self, parameters: Sequence[Any], channel: Channel, first_bytes: int, most_bytes: int
    ) -> None:
        self.parameters = list(parameters)
        self.channel = channel
        self.first_bytes, self.most_bytes = first_bytes, most_bytes
        self.sizes = [int(p.numel()) for p in parameters]
        self.dtypes = [p.dtype.numpy for p in parameters]
        #: Numbers of the parameters, in the order in which gradients become ready.
        self.order = list(reversed(range(len(self.parameters))))
        self.order_to_tell: list[int] | None = None
        self.knows_order = False
        self.divisor = self.ranks_at_start = channel.line.size
        self.sync = True  # whether passes end with a round: see `no_sync`
        self.armed = False  # whether the module was called since the last round
        #: Parameters whose gradient has changed since the last round.
        self.touched = np.zeros(len(self.parameters), bool)
        self.expected: np.ndarray | None = None  # the parameters of the last round
        self.hook: Callable[[Any], Any] | None = None
        self.wire: np.dtype | None = None  # the type in which gradients travel; None for no other
        self.counters = Counters()
        self._before: list[Any] = []
        self._layouts: dict[bytes, list[Bucket]] = {}
        self._scratch: dict[np.dtype, np.ndarray] = {}

    # -- passes -----------------------------------------------------------------------------

    def begin_pass(self) -> None:
        """Remember all gradients: see `PassWatcher`."""
        self._before = [None if g is None else (g, state_of(g)) for g in self._gradients()]

    def cancel_pass(self) -> None:
        """Forget the gradients: see `PassWatcher`."""
        self._before = []

    def end_pass(self, kept: bool = False) -> None:
        """Find the gradients that have changed, and average over the ranks: see `PassWatcher`."""
        before, self._before = self._before, []
        for k, (g, old) in enumerate(zip(self._gradients(), before, strict=True)):
            if g is not None and (old is None or old[0] is not g or old[1] is not state_of(g)):
                self.touched[k] = True
        del before, old
        if self.sync and (self.armed or self.touched.any()):
            self.run_round()

    def _gradients(self) -> list[Any]:
        return [p._grad for p in self.parameters]

    def run_round(self, idle: bool = False) -> None:
        """Average the gradients that any rank has changed.

        idle: this rank has no more data: zeros stand for its own gradients
        """
        exchange = Exchange(self, idle)
        exchange.run()
        present = exchange.present
        self.touched[:] = False
        self.armed = self.armed and not present.any()
        self.expected = present & ~exchange.sparse

    def use_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Let a communication hook reduce buckets; known hooks are only a type to travel in."""
        if state is None and hook in WIRES:
            wire = WIRES[hook]
            self.wire = None if wire is None else wire.numpy
        else:
            self.hook = partial(hook, state)

    # -- buckets ----------------------------------------------------------------------------

    def layout(self, flags: np.ndarray) -> list[Bucket]:
        """The buckets for the parameters with these flags."""
        key = flags.tobytes()
        buckets = self._layouts.get(key)
        if buckets is None:
            if len(self._layouts) >= 256:
                self._layouts.clear()
            numbers = [k for k in self.order if flags[k]]
            buckets = self._layouts[key] = buckets_of(
                numbers, self.sizes, self.dtypes, self.first_bytes, self.most_bytes
            )
        return buckets

    def set_order(self, order: list[int]) -> None:
        """Sort gradients into buckets in this order from now on."""
        self.order = order
        self.knows_order = True
        self.order_to_tell = None
        self._layouts.clear()

    def scratch(self, bucket: Bucket) -> np.ndarray:
        """Memory for the rank's own part of a bucket; used by the channel's thread alone."""
        have = self._scratch.get(bucket.dtype)
        if have is None or have.size < bucket.size:
            have = self._scratch[bucket.dtype] = np.empty(bucket.size, bucket.dtype)
        return have[: bucket.size]

    def fill(self, bucket: Bucket, arrays: list[Any], out: np.ndarray, divisor: int) -> None:
        """Write gradients into a bucket, divided by a number; None for zeros."""
        end = 0
        for place, array in zip(bucket.places, arrays, strict=True):
            if place.begin > end:
                out[end : place.begin] = 0
            end = place.end
            part = out[place.begin : end]
            if array is None:
                part[:] = 0
            elif divisor == 1:
                part[:] = array.reshape(-1)
            else:
                np.divide(array.reshape(-1), divisor, out=part, casting="unsafe")
        out[end:] = 0

    def reduce(self, bucket: Bucket, arrays: list[Any], divisor: int, clock: Round) -> Work:
        """Have the average of a bucket computed by the channel's thread; `found` is the result."""
        kind = _SUM
        handed = time.perf_counter()
        wire = self.wire if self.wire is not None and bucket.dtype.itemsize > 2 else None
        if bucket.dtype.itemsize == 2:  # summed in float32, so the average is rounded once
            kind = Reduction(RedOpType.PREMUL_SUM, "sum", 1.0 / divisor, True, False)
            divisor = 1
        elif wire is not None:
            kind = Reduction(RedOpType.SUM, "sum", None, True, False)

        if self.channel.line.rescue is not None:
            return self._reduce_in_spite(bucket, arrays, wire)

        def call(line: Any) -> np.ndarray:
            begin = time.perf_counter()
            mine = self.scratch(bucket)
            self.fill(bucket, arrays, mine, divisor)
            arrays.clear()
            shape = (bucket.size,)
            out: np.ndarray = maker(shape, bucket.dtype)(shape, bucket.dtype)
            if wire is None:
                kind.all_reduce(line, mine, out)
            else:
                short = np.empty(shape, wire)
                with np.errstate(all="ignore"):
                    kind.all_reduce(line, mine.astype(wire), short)
                out[:] = short
            clock.note_move(handed, begin, time.perf_counter())
            return out

        return self.channel.run(self._counted(bucket), call, background=True)

    def _counted(self, bucket: Bucket) -> tuple[str, str, str, str]:
        """Count a bucket that is handed over; returns the parts by which ranks compare the call."""
        self.counters.add_bucket(bucket.n_bytes)
        return ("gradients", f"{bucket.dtype}", f"[{bucket.size}]", f"bucket {bucket.index}")

    def _reduce_in_spite(self, bucket: Bucket, arrays: list[Any], wire: np.dtype | None) -> Work:
        """As `reduce`, where ranks may be lost: divided by the ranks that have taken part.

        wire: gradients and averages are rounded to this type; they travel in their own
        The work's `took_part` is the number of these ranks.
        """
        divisor = None if self.divisor == self.ranks_at_start else self.divisor
        kind = np.promote_types(bucket.dtype, np.float32) if bucket.dtype.itemsize == 2 else None

        def call(line: Any) -> np.ndarray:
            shape = (bucket.size,)
            mine: np.ndarray = np.empty(shape, bucket.dtype if kind is None else kind)
            self.fill(bucket, arrays, mine, 1)
            if wire is not None:
                with np.errstate(all="ignore"):
                    mine[:] = mine.astype(wire)
            total = np.empty_like(mine)
            line.all_reduce(mine, total, "sum")
            work.took_part = line.took_part()
            out: np.ndarray = maker(shape, bucket.dtype)(shape, bucket.dtype)
            np.divide(total, divisor or work.took_part, out=out, casting="unsafe")
            if wire is not None:
                with np.errstate(all="ignore"):
                    out[:] = out.astype(wire)
            return out

        work = Work(self.channel, self._counted(bucket), call, None, user_site(), None)
        return self.channel.submit(work, background=True)

    def write(self, number: int, array: np.ndarray) -> None:
        """Make an array the gradient of a parameter."""
        parameter = self.parameters[number]
        assign(parameter, array)


def own_channel(group: ProcessGroup, purpose: str) -> Channel:
    """A channel for the ranks of a group, beside that of the group; all ranks of the group call."""
    world = group_state
    root = world.root
    assert root is not None, "a group of several ranks has a world"
    name = f"{purpose} of {group.group_name}"
    channel = Channel(shared(root.part(group.ranks, 1)), name)
    rest = group.own, channel, name, group.backend, group.timeout
    world.add(ProcessGroup(group.ranks, *rest, purpose))  # ends with the default group
    return channel


def state_of(g: Any) -> Any:
    """An object that is replaced by each write to a gradient."""
    if made_of_parts(g):
        return g
    return g.value if g.alias is None else _hot.value_of(g)


def assign(parameter: Tensor, array: np.ndarray) -> None:
    """Make an array the gradient of a parameter: the same `.grad` handle, if there is any."""
    type_ = _hot.value_of(parameter).type
    value = _hot.held(type_, array.reshape(tuple(type_.shape)))
    have = parameter._grad
    if have is None or made_of_parts(have):
        parameter._grad = _hot.wrap(value)
    elif have.alias is None and have.leaf is None and have.value.type is type_:
        _backward.renew_value(have, have.value, value)
    else:
        _hot.slot("assign")(have, _hot.wrap(value), None)


class Exchange:
    """A round: the flags of all ranks, then bucket after bucket.

    present: the parameters that any rank has a new gradient for
    sparse: those of which any rank has a sparse gradient
    """

    def __init__(self, reducer: Reducer, idle: bool) -> None:
        self.reducer = reducer
        self.idle = idle
        self.clock = Round()
        count = len(reducer.parameters)
        self.gradients: list[Any] = [None] * count
        parts: np.ndarray = np.zeros(count, bool)
        if not idle:
            self.gradients = [p._grad for p in reducer.parameters]
            parts = np.array([g is not None and made_of_parts(g) for g in self.gradients], bool)
        self.mine = reducer.touched & (not idle)
        told = reducer.order_to_tell is not None
        words = [np.array([ORDER if told else 0], np.uint64), words_of(self.mine), words_of(parts)]
        self.flags = self._begin_or(np.concatenate(words))
        self.arrays: dict[int, Any] = {}
        self.taken: list[int] = []  # the numbers taken while the flush ran
        self.flushing = False
        self.fault: BaseException | None = None
        self.numbers: dict[int, int] = {}  # place on the path -> number of the parameter
        self.buckets: list[Bucket] = []
        self.left: list[set[int]] = []  # by bucket: the parameters that are waited for
        self.bucket_of: dict[int, int] = {}
        self.works: list[tuple[Bucket, Work]] = []
        self.next = 0
        self.present = self.sparse = parts

    def _begin_or(self, words: np.ndarray) -> Work:
        handed = time.perf_counter()

        def call(line: Any) -> np.ndarray:
            begin = time.perf_counter()
            out = np.empty_like(words)
            line.all_reduce(words, out, "bor")
            self.clock.note_move(handed, begin, time.perf_counter())
            return out

        what = ("gradients", "uint64", f"[{words.size}]", "flags")
        return self.reducer.channel.run(what, call, background=True)

    # -- in the flush -----------------------------------------------------------------------

    def take(self, index: int, array: np.ndarray) -> None:
        """Take an array of the flush: see `Receiver`. Raises nothing, as a plan is running."""
        try:
            number = self.numbers.get(index)
            if number is not None and number not in self.arrays:
                self.taken.append(number)
                self.give(number, array)
        except BaseException as error:
            # A plan is running, which may not end here. The exception is kept, and raised behind
            # the flush.
            self.fault = error

    def give(self, number: int, array: object) -> None:
        """Note a gradient as complete, and begin with each bucket whose turn has come."""
        self.arrays[number] = array
        k = self.bucket_of.get(number)
        if k is not None:
            self.left[k].discard(number)
            self.launch()

    def launch(self) -> None:
        """Begin with complete buckets, in order."""
        while self.next < len(self.buckets) and not self.left[self.next]:
            self.send(self.buckets[self.next])
            self.next += 1
            self.reducer.counters.early += self.flushing

    def send(self, bucket: Bucket) -> None:
        """Hand a bucket to the channel's thread."""
        arrays = [self.arrays.get(place.number) for place in bucket.places]
        reducer = self.reducer
        work = reducer.reduce(bucket, arrays, reducer.divisor, self.clock)
        self.works.append((bucket, work))

    # -- the round --------------------------------------------------------------------------

    def run(self) -> None:
        """Compute, reduce, and write all gradients of the round."""
        reducer = self.reducer
        reducer.counters.rounds += 1
        expected = reducer.expected
        if expected is not None and reducer.hook is None:
            self.buckets = reducer.layout(expected)
            self.left = [{place.number for place in b.places} for b in self.buckets]
            self.bucket_of = {n: k for k, numbers in enumerate(self.left) for n in numbers}
        if not self.idle:
            self.flush()
        self.finish()

    def flush(self) -> None:
        """Compute all that is pending; gradients that become ready meanwhile are taken."""
        trace = _hot.current_trace()
        dense = [
            (k, g) for k, g in enumerate(self.gradients) if g is not None and not made_of_parts(g)
        ]
        for k, g in dense:
            value = _hot.value_of(g)
            if value.buffer is not None:
                self.give(k, value.buffer)
            elif value.trace is trace and self.bucket_of:
                self.numbers[value.index] = k
        for k in list(self.bucket_of):
            if self.gradients[k] is None:
                self.give(k, None)
        state = trace.state
        self.flushing = True
        try:
            with received(self):
                _hot.flush(trace)
        finally:
            self.flushing = False
        if self.fault is not None:
            raise self.fault
        if state is not None and self.numbers:
            announce_last(state, self.numbers)
        for k, g in dense:
            if k not in self.arrays:
                self.give(k, _hot.ensure(_hot.value_of(g)))

    def finish(self) -> None:
        """Reduce all that is left, and write the results."""
        reducer = self.reducer
        for k in range(self.next, len(self.buckets)):
            self.left[k].clear()
        self.launch()
        with self.clock.waiting():
            self.flags.wait()
        words = self.flags.found
        count = len(reducer.parameters)
        n = -(-count // 64)
        self.present = flags_of(words[1 : 1 + n], count)
        self.sparse = flags_of(words[1 + n :], count) & self.present
        late = self.present & ~self.sparse
        if reducer.hook is not None:
            self.by_hook(late)
        else:
            if reducer.expected is not None:
                late &= ~reducer.expected
            for bucket in reducer.layout(late):
                self.send(bucket)
            self.collect()
        for number in np.flatnonzero(self.sparse).tolist():
            self.reduce_sparse(number)
        if int(words[0]) & ORDER:
            self.share_order()
        elif reducer.channel.line.rank == 0 and not reducer.knows_order:
            self.find_order()
        reducer.counters.add(self.clock)

    def collect(self) -> None:
        """Wait for all buckets, and make the parts the gradients."""
        with self.clock.waiting():
            for _, work in self.works:
                work.wait()
            while self._begin_again():
                pass
        for bucket, work in self.works:
            self.write(bucket, work.found)

    def _begin_again(self) -> bool:
        """Do buckets again that hold values of a lost rank, if not all do; whether there were any.

        All ranks that live see the same numbers here, and so do the same.
        """
        if self.reducer.channel.line.rescue is None or not self.works:
            return False
        least = min(work.took_part for _, work in self.works)
        old = [(bucket, work) for bucket, work in self.works if work.took_part > least]
        self.works = [(bucket, work) for bucket, work in self.works if work.took_part == least]
        for bucket, _ in old:
            self.send(bucket)
        for _, work in self.works:
            work.wait()
        return bool(old)

    def write(self, bucket: Bucket, flat: np.ndarray) -> None:
        """Make the parts of a reduced bucket the gradients."""
        for place in bucket.places:
            if self.present[place.number] and not self.sparse[place.number]:
                self.reducer.write(place.number, flat[place.begin : place.end])

    # -- order ------------------------------------------------------------------------------

    def find_order(self) -> None:
        """Remember the order in which a plan has completed the gradients, to be told."""
        reducer = self.reducer
        expected = reducer.expected
        if expected is None or not self.taken or len(self.taken) < len(self.numbers):
            return
        early = set(self.taken)
        reducer.order_to_tell = self.taken + [k for k in reducer.order if k not in early]

    def share_order(self) -> None:
        """Have all ranks sort gradients as rank 0 does."""
        reducer = self.reducer
        order = np.array(reducer.order_to_tell or reducer.order, np.int64)

        def call(line: Any) -> None:
            line.broadcast(order, 0)

        reducer.channel.run(("gradients", "int64", f"[{order.size}]", "order"), call)
        reducer.set_order(order.tolist())

    # -- hooks, sparse gradients ------------------------------------------------------------

    def by_hook(self, flags: np.ndarray) -> None:
        """Let the user's hook reduce the buckets."""
        from wend.distributed._replicas.grad_bucket import GradBucket

        reducer = self.reducer
        hook = reducer.hook
        assert hook is not None
        self._check_all_live()
        buckets = reducer.layout(flags)
        futures = []
        for bucket in buckets:
            flat = np.empty(bucket.size, bucket.dtype)
            arrays = [self.arrays.get(place.number) for place in bucket.places]
            reducer.fill(bucket, arrays, flat, 1)
            grad_bucket = GradBucket(bucket, flat, reducer.parameters, bucket is buckets[-1])
            futures.append((bucket, hook(grad_bucket)))
            reducer.counters.add_bucket(bucket.n_bytes)
        with self.clock.waiting():
            results = [(bucket, result_of(future)) for bucket, future in futures]
        self._check_all_live()
        for bucket, array in results:
            self.write(bucket, array)

    def _check_all_live(self) -> None:
        """Have all ranks start again if one is lost: a hook divides by a number of its own."""
        reducer, line = self.reducer, self.reducer.channel.line
        if line.rescue is not None and line.size != reducer.ranks_at_start:
            raise line.rescue.give_up(
                "DistributedDataParallel: a rank is lost, and the user's communication hook may "
                f"count on {reducer.ranks_at_start} ranks; start again from a checkpoint"
            )

    def reduce_sparse(self, number: int) -> None:
        """Average a sparse gradient: the elements of all ranks in a row."""
        from wend.distributed._replicas.sparse_average import average

        reducer = self.reducer
        parameter = reducer.parameters[number]
        with self.clock.waiting(moves=True):
            mean = average(reducer.channel, parameter, self.gradients[number], reducer.divisor)
        parameter._grad = mean


def result_of(future: object) -> np.ndarray:
    """The flat array that a hook's future holds: of a tensor, or of a list with a single tensor."""
    value = future.wait() if hasattr(future, "wait") else future
    if isinstance(value, (list, tuple)):
        (value,) = value
    assert isinstance(value, Tensor)
    array: np.ndarray = np.ascontiguousarray(_hot.ensure(_hot.value_of(value))).reshape(-1)
    return array


def announce_last(state: object, numbers: dict[int, int]) -> None:
    """Let the plan that has run a path hand these values over early from now on."""
    for row in reversed(ROWS):
        if not isinstance(row, BackwardRow) and row[1] is state:
            compiled = getattr(row[0], "compiled", None)
            if compiled is not None:
                announce(compiled, numbers)
            return
