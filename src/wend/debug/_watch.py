"""Watching a step: each flush of this thread is kept with path, lines and modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from wend._engine.base import config
from wend._engine.base.errors import ArgumentError
from wend._engine.core import _hot
from wend._engine.core._hot import FlushJob
from wend._engine.core.graph import PathGraph
from wend._engine.core.provenance import module_path
from wend._engine.core.step_log import ROWS
from wend._engine.runtime.batching.noted import Noted, next_record, records
from wend._engine.runtime.measure.engine import measure_engine
from wend._engine.runtime.measure.recorder import RUNNING, MeasuredFlush, Scopes, SliceRecorder
from wend._engine.runtime.measure.shares import seconds_by_step
from wend._engine.runtime.measure.summary import summary
from wend._engine.runtime.verify.flushes import unwatched
from wend._engine.runtime.verify.flushes import watch as watch_flushes
from wend._engine.transforms.grad import recorded_passes
from wend.debug._members import members
from wend.nn.modules.module import (
    Module,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from wend.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

__all__ = ["Watch", "WatchedFlush", "watching"]


@dataclass
class WatchedFlush:
    """A path as taken: all that a picture needs.

    serial: that of the trace    sites: of this visit, where unlike those of the path
    types: of the path's values    args: run-time numbers; None where not known any more
    values: id -> value of the path, as far as known; kept so that ids stay unique
    plan: the plan that ran, or None    segment: the flush as gradients need the values
    summaries: of values, by id, if kept     nanoseconds: by number of the state, if measured
    groups: number of the group that made a value, by id     members: how many ran, per group
    record: where several flushes have the same groups, the same number
    env: id in the path -> id of the node, of a flush in two parts
    scopes: calls of modules and steps of optimizers around the ops
    """

    path: PathGraph
    serial: int
    sites: dict[int, Any]
    types: list[Any]
    args: list[Any]
    values: dict[int, Any] = field(default_factory=dict)
    plan: Any = None
    segment: Any = None
    summaries: dict[int, dict[str, Any]] = field(default_factory=dict)
    nanoseconds: dict[int, float] = field(default_factory=dict)
    groups: dict[int, int] = field(default_factory=dict)
    members: list[int] = field(default_factory=list)
    record: int | None = None
    env: dict[int, int] | None = None
    scopes: Scopes = field(default_factory=list)

    def note_groups(self, noted: Noted) -> None:
        """Put the groups of a record into the flush."""
        if noted.owners is None:
            return
        before = len(self.members)
        self.groups.update((i, before + k) for i, k in noted.owners().items())
        self.members += [members for _, members, *_ in noted.listed()]


@dataclass
class Watch:
    """All that was seen of a step.

    recorder: has the scopes around ops: calls of modules, steps of optimizers
    modules: dotted path -> class, of the modules that were called
    names: id of a value -> name of the parameter or buffer
    tensors: id of a value -> the tensor with that name
    passes: (serial, position) of the backward pass of an earlier flush -> serial of that flush
    """

    flushes: list[WatchedFlush] = field(default_factory=list)
    recorder: SliceRecorder = field(default_factory=SliceRecorder)
    modules: dict[str, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    tensors: dict[int, Any] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    roots: dict[int, str] = field(default_factory=dict)
    passes: dict[tuple[int, int], int] = field(default_factory=dict)

    def name(self, prefix: str, module: Module) -> None:
        """Name the parameters and buffers of a module, and gradients from before."""
        for member in members(module, prefix):
            self.keep(member.name, member.tensor)
            self.keep(f"gradient of {member.name}", member.tensor._grad)

    def name_state(self, optimizer: Any) -> None:
        """Name the state that an optimizer has kept for each parameter."""
        names = {id(tensor): self.names[value] for value, tensor in self.tensors.items()}
        for parameter, state in list(getattr(optimizer, "state", {}).items()):
            for key, x in list(state.items()) if isinstance(state, dict) else ():
                self.keep(f"{key} of {names.get(id(parameter), 'a parameter')}", x)

    def begin_call(self, module: Module, *_: Any) -> None:
        """Note that a call of a module begins."""
        path = _path_of(self, _hot.current_trace().modules)
        if path:
            self.modules.setdefault(path, type(module).__name__)
        self.recorder.enter("module", type(module).__name__, path)

    def begin_update(self, optimizer: Any, *_: Any) -> None:
        """Note that a step of an optimizer begins."""
        self.name_state(optimizer)
        self.recorder.enter("optimizer", type(optimizer).__name__)

    def keep(self, name: str, tensor: Any) -> None:
        """Give a tensor a name."""
        if isinstance(tensor, _hot.Tensor):
            value = _hot.refreshed(tensor)
            self.kept.append(value)
            self.names.setdefault(id(value), name)
            self.tensors.setdefault(id(value), tensor)

    def note_pass(self, serial: int, position: int, segment: Any) -> None:
        """Note whose gradients a step computes that has just been recorded."""
        self.passes[serial, position] = segment.origin


@contextmanager
def watching(
    root: Module | None = None, values: bool = False, times: bool = False
) -> Iterator[Watch]:
    """Inside the block each flush of this thread is kept.

    root: the module whose parts have paths without a prefix
    values: whether each value is computed and summed up     times: whether kernels are measured

    The values of all flushes live until the block ends. Ops of like structure do not run together.
    So a step takes more memory and time than usual.

    Raises ArgumentError for times while a profiler runs.
    """
    if times and RUNNING:
        raise ArgumentError(
            "watch: times cannot be measured while a profiler runs, whose slices would be lost: "
            "end the profiler first, or watch without times"
        )
    watch = Watch()
    _hot.synchronize()
    if root is not None:
        watch.roots[id(root)] = ""
        watch.name("", root)

    def execute(batch: FlushJob, live: list[int]) -> None:
        flush = _watched(watch, batch)
        if values:
            unmade = {i for i, v in enumerate(batch.values) if v.buffer is None}
            live = sorted({*live, *unmade})
        _run(flush, batch, live)
        if times:
            flush.nanoseconds = _measured(watch.recorder)
        if values:
            buffers = [(i, v.buffer) for i, v in enumerate(batch.values) if v.buffer is not None]
            flush.summaries = {i: summary(array) for i, array in buffers}

    def execute_many(batches: list[FlushJob], lives: list[list[int]]) -> None:
        flushes = [_watched(watch, batch) for batch in batches]
        begin = next_record()
        unwatched("execute_many")(batches, lives)
        _note_lanes(flushes, begin, next_record())

    def ending(kind: str) -> Callable[..., None]:
        def end(*_: Any) -> None:  # a result would replace that of the module
            watch.recorder.end(kind)

        return end

    with ExitStack() as stack:
        stack.enter_context(config.override(autobatch=False))
        for register, hook in (
            (register_module_forward_pre_hook, watch.begin_call),
            (register_optimizer_step_pre_hook, watch.begin_update),
            (register_optimizer_step_post_hook, ending("optimizer")),
        ):
            stack.callback(register(hook).remove)
        stack.callback(register_module_forward_hook(ending("module"), always_call=True).remove)
        stack.enter_context(recorded_passes(watch.note_pass))
        if times:
            stack.callback(measure_engine(watch.recorder).remove)
        before = watch_flushes({"execute": execute, "execute_many": execute_many})
        stack.callback(watch_flushes, before)
        yield watch
        _hot.synchronize()


def _run(flush: WatchedFlush, batch: FlushJob, live: list[int]) -> None:
    """Run a flush, and note the plan and the groups."""
    begin = next_record()
    unwatched("execute")(batch, live)
    flush.plan = _last_plan()
    for noted in records(begin, next_record()):
        flush.note_groups(noted)


def _watched(watch: Watch, batch: FlushJob) -> WatchedFlush:
    """Keep a flush that is about to run."""
    path = PathGraph(batch.states, batch.values, batch.args)
    values = dict(enumerate(batch.values))
    types = [value.type for value in batch.values]
    sites = dict(batch.sites or {})
    flush = WatchedFlush(path, batch.serial, sites, types, list(batch.args), values)
    flush.scopes = watch.recorder.scopes_of(batch.states)
    watch.flushes.append(flush)
    return flush


def _note_lanes(flushes: list[WatchedFlush], begin: int, end: int) -> None:
    """Put groups into watched flushes of fibers that have just run: lanes of equal ops."""
    for noted in records(begin, end):
        lanes = noted.listed() if noted.is_of_lanes else []
        if not lanes or lanes[0][0] is None:
            continue
        form = _form(noted.states)
        for flush in flushes:
            if not flush.groups and _form(flush.path.states[: flush.path.n_states]) == form:
                flush.groups = dict.fromkeys(range(len(flush.types)), 0)
                flush.members = [lanes[0][1]]
                flush.record = noted.serial


def _form(states: list[Any]) -> list[Any]:
    """The ops of a path with operands, whatever the sizes."""
    return [(state.prim, tuple(state.operand_indices())) for state in states]


def _measured(recorder: SliceRecorder) -> dict[int, float]:
    """The nanoseconds of each step of the flush that has just run, by the step's number."""
    flush = next((s.about for s in recorder.slices if isinstance(s.about, MeasuredFlush)), None)
    recorder.slices.clear()
    if flush is None:
        return {}
    rows, _ = seconds_by_step(flush, {})
    return {k: sum(row[1] for row in steps) for k, steps in rows.items()}


def _last_plan() -> Any:
    """The plan of the flush that has just run, or None."""
    row = ROWS[-1] if ROWS else None
    return row[0] if isinstance(row, tuple) and row else None


def _path_of(watch: Watch, stack: list[Module]) -> str:
    """Dotted path of the module that is being called: that of the outermost, and the names."""
    if not stack:
        return ""
    root = stack[0]
    key = id(root)
    if key not in watch.roots:
        taken = set(watch.roots.values())
        name = base = type(root).__name__
        number = 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        watch.roots[key] = name
        watch.modules.setdefault(name, base)
        watch.name(name, root)
        watch.kept.append(root)
    prefix = watch.roots[key]
    inner = module_path(stack)
    return f"{prefix}.{inner}" if prefix and inner else prefix or inner
