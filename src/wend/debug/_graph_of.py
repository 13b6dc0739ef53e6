"""`wend.debug.graph()`: the graph of a step, of a tensor's history, of a module's forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.transforms.walk import path_of
from wend._frontend.seeing.dot import dot_of
from wend._frontend.seeing.op_graph import PARTS, OpGraph
from wend._frontend.seeing.page import page_of
from wend._frontend.seeing.rerun import needed_by, run
from wend._frontend.seeing.svg import svg_of
from wend.debug._collect import Collector
from wend.debug._explored import explored_graph, program_of
from wend.debug._last_step import last_flushes
from wend.debug._watch import Watch, WatchedFlush, watching
from wend.nn.modules.module import Module

__all__ = ["graph", "watch"]

PARTS.update({
    "run": run,
    ".html": page_of,
    ".svg": svg_of,
    ".dot": dot_of,
    ".txt": lambda graph: graph.table(None),
})  # fmt: skip


def graph(target: Any = None, /, *args: Any, **kwargs: Any) -> OpGraph:
    """The graph of a module's forward pass, of a function, of a tensor's history, of the last step.

    target:
    - a module, or a function (a whole training step, for example): called once with the further
      arguments, with all effects. Forward, backward and update are in the graph.
    - a tensor: the ops behind the tensor, as far as gradients still need these
    - a function explored, without arguments: of `torch.export`, a session, `torch.jit`. Branches,
      loops and merged values are nodes, and sizes are expressions
    - None: the last step, which is all that was computed since the last path was taken before;
      without module paths. Ops have the kernel, or the group of like ops that ran together

    Each op has its shapes, the user's line, and (for calls) the path of the module.

    Raises ArgumentTypeError for another target; ArgumentError for arguments of no function.
    """
    known = target is None or isinstance(target, Tensor) or callable(target)
    if not known and program_of(target) is None:
        raise ArgumentTypeError(
            f"graph: expected a module, a function, a tensor or None, got {type(target).__name__}"
        )
    if target is None or isinstance(target, Tensor):
        if args or kwargs:
            raise ArgumentError("graph: a tensor or the last step takes no further arguments")
        return last_graph() if target is None else history(target)
    if not args and not kwargs:
        program = program_of(target)
        if program is not None:
            return explored_graph(program)
    if not callable(target):
        raise ArgumentError("graph: a function explored takes no further arguments")
    root = target if isinstance(target, Module) else None
    name = type(target).__name__ if root is not None else _name_of(target)
    with watch(name, root) as recording:
        for k, tensor in enumerate(tree.leaves((args, kwargs))):
            if isinstance(tensor, Tensor):
                recording.seen.keep(f"input {k}", tensor)
        result = target(*args, **kwargs)
        recording.results = [x for x in tree.leaves(result) if isinstance(x, Tensor)]
    return recording.graph


class Seen:
    """The outcome of `watch`: `graph` is there when the block has ended."""

    def __init__(self, seen: Watch) -> None:
        self.seen = seen
        self.results: list[Tensor] = []
        self.graph = OpGraph("nothing yet")


@contextmanager
def watch(
    title: str = "a step",
    root: Module | None = None,
    *,
    values: bool = False,
    times: bool = False,
) -> Iterator[Seen]:
    """Inside the block all that this thread computes is kept; afterwards `graph` has the graph.

    title: of the graph     root: the module whose parts have paths without a prefix
    values: keep a summary of each value (range, mean, histogram, NaN)
    times: measure kernels; ops within a kernel share the time by estimated cost

    The step takes longer than usual, and the memory of all values is free only afterwards.

    Raises ArgumentError for times while a profiler runs.
    """
    with watching(root, values, times) as seen:
        recording = Seen(seen)
        yield recording
        if recording.results:
            _hot.synchronize()
    recording.graph = _graph(title, seen.flushes, seen, recording.results)


def _graph(title: str, flushes: list[WatchedFlush], seen: Watch, results: list[Tensor]) -> OpGraph:
    """The graph of flushes, with these results as outputs."""
    op_graph = OpGraph(title)
    collector = Collector(op_graph, seen)
    for flush in flushes:
        collector.add(flush)
    op_graph.modules.update(seen.modules)
    for tensor in results:
        value = _hot.refreshed(tensor)
        i = collector.made.get(id(value))
        if i is not None:
            op_graph.outputs.append(i)
            op_graph.places.append(collector.results.get(id(value), (i, 0))[1])
    return collector.finish()


def last_graph() -> OpGraph:
    """The graph of all that was computed since the last path was last taken.

    Shapes are those for which the path was planned; later visits may have had unlike shapes.
    """
    _hot.synchronize()
    step = last_flushes()
    notes = []
    if step.lanes:
        notes.append(f"a lane stands for each of {step.lanes} fibers")
    if step.unseen:
        notes.append("gradients of groups, which are not recorded op by op, are left out")
    if step.lost:
        notes.append(f"{step.lost} ops are not kept")
    title = f"the last step ({'; '.join(notes)})" if notes else "the last step"
    return _graph(title, step.flushes, Watch(), [])


def history(tensor: Tensor) -> OpGraph:
    """The graph of the ops behind a tensor, as far as gradients still need these."""
    seen = Watch()
    flushes: list[WatchedFlush] = []
    done: set[int] = set()
    stack: list[tuple[Any, bool]] = [(_hot.refreshed(tensor), False)]
    while stack:
        value, entered = stack.pop()
        source = value.trace if value.segment is None else value.segment
        if source is None or (id(source) in done and not entered):
            continue
        if entered:
            flushes.append(_pending(source) if value.segment is None else _computed(source, value))
            continue
        done.add(id(source))
        stack.append((value, True))
        values = source.values if value.segment is None else source.inputs.values()
        stack += [(v, False) for v in values if v is not None and v.segment is not None]
    whole = _graph("history", flushes, seen, [tensor])
    title = f"history of a tensor of shape {tuple(tensor.shape)}"
    return whole.part([whole.nodes[i] for i in needed_by(whole)], title)


def _pending(trace: Any) -> WatchedFlush:
    """The pending ops of a trace."""
    values = dict(enumerate(trace.values))
    types = [v.type for v in trace.values]
    sites = dict(trace.sites or {})
    return WatchedFlush(path_of(trace), trace.serial, sites, types, list(trace.args), values)


def _computed(segment: Any, value: Any) -> WatchedFlush:
    """A flush of which gradients still need something."""
    path = segment.structure
    values = dict(segment.inputs or {})
    values[value.seg_index] = value
    args = list(segment.args or ())
    return WatchedFlush(
        path, segment.origin, dict(segment.sites or {}), list(path.types), args, values,
        segment=segment,
    )  # fmt: skip


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
