"""A single call for all examples: a function runs once, on tensors that stand for an example each.

A `Level` takes the place of a thread's trace while a mapped function runs.  The tensors that the
function sees have an example's shape.  Behind each is a tensor with the batch axis at dim 0,
and every op is recorded on the latter, by the batching rule.  Levels nest; a tensor that a level
does not know (a weight from outside, an outer level's tensor) is the same for all examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from wend._engine.base.errors import GraphError
from wend._engine.base.random_state import as_signed, philox
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor, Trace, Value
from wend._engine.core._types import TensorType
from wend._engine.core.primitive import Primitive
from wend._engine.core.symbolic import hint_of
from wend._engine.core.symtrace import flatten_outputs
from wend._engine.transforms.batch import batched, interpret, with_batch_axis

RANDOMNESS = ("error", "different", "same")
NO_VALUE = (
    "vmap: inside of the function one tensor stands for all examples: it has no value that could "
    "be read, and it cannot be used after the function has returned; return it instead"
)
DRAWS = (
    "vmap: {name} draws random numbers inside of the mapped function: give vmap "
    "randomness='different' or randomness='same', or draw them outside"
)
WRITTEN = (
    "vmap: an in-place op put a tensor that differs from example to example into one from outside "
    "of the function (of shape {shape}), which has one value for all examples; return it instead"
)


class ValueNeeded(GraphError):
    """The value of a tensor that stands for all examples of a level was asked for."""

    def __init__(self, level: Level) -> None:
        super().__init__(NO_VALUE)
        self.level = level
        self.mine = False  # whether the error is about the vmap being left


class Level:
    """The level of a vmap: takes the place of the trace, as a rule's recorder does.

    size: number of examples     randomness: 'error', 'different' or 'same' draws per example
    """

    maps = True  # in-place ops rebind handles here as anywhere

    def __init__(self, size: int, randomness: str = "error") -> None:
        self.size = size
        self.randomness = randomness
        self.serial = _hot.fresh_serial()
        self.trace: Trace = _hot.current_trace()
        self.outer = self.trace.symbolic
        self.count = 0

    # -- tensors of an example --------------------------------------------------------------

    def wrap(self, x: Tensor) -> Tensor:
        """The tensor that stands for an example of x, whose dim 0 is the batch axis."""
        shape = tuple(x.shape)[1:]
        if all(type(n) is int for n in shape):
            type_ = _types.intern_type(shape, x.dtype, x.device)
        else:
            type_ = _types.symbolic_type(shape, x.dtype, x.device)
        value = _hot.symbolic_value(type_, self.serial, self.count)
        self.count += 1
        value.requires_grad = bool(x.requires_grad)
        value.extra = _as_it_is(x)
        value.error = ValueNeeded(self)
        return _hot.wrap(value)

    def strip(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], tuple[bool, ...]]:
        """(the tensors behind these, which of them have the batch axis)."""
        values: list[Value] = [_hot.refreshed(t) for t in tensors]
        flags = tuple([v.serial == self.serial for v in values])
        rows = zip(tensors, values, flags, strict=True)
        return [v.extra if flag else t for t, v, flag in rows], flags

    def lift(self, x: Tensor) -> Tensor:
        """x as a tensor of this level: repeated for each example if x is the same for all."""
        (inner,), (flag,) = self.strip([x])
        if flag:
            return x
        with self.suspended():
            return self.wrap(with_batch_axis(inner, False, self.size))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Inside the block, ops are recorded through this level."""
        before, self.trace.symbolic = self.trace.symbolic, self
        try:
            yield
        finally:
            self.trace.symbolic = before

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Inside the block, ops are recorded as outside of this level."""
        before, self.trace.symbolic = self.trace.symbolic, self.outer
        try:
            yield
        finally:
            self.trace.symbolic = before

    def mapped_hook(self, hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A hook for the tensor behind: calls `hook`, a hook of an example's tensor, once for all
        examples."""

        @wraps(hook)
        def on_all(g: Tensor) -> Tensor | None:
            with self.entered():
                changed = hook(self.wrap(g))
                if changed is None:
                    return None
                if not isinstance(changed, Tensor):
                    return changed  # type: ignore[no-any-return]  # refused by the caller
                changed = self.lift(changed)
            return behind(changed)

        return on_all

    # -- recording --------------------------------------------------------------------------

    def record(self, prim: Primitive, tensors: list[Tensor], args: list[Any]) -> Any:
        """Record an op of the mapped function (called by the core)."""
        inner, flags = self.strip(tensors)
        if prim.facts.calls_user and True in flags:
            raise GraphError(
                "vmap: an autograd.Function cannot be mapped over: it has no batch rule"
            )
        types = [_hint_type(t) for t in tensors]
        # Also raises errors of the user in terms of an example.
        program, _ = prim.typed(types, [hint_of(a) for a in args])
        before, self.trace.symbolic = self.trace.symbolic, self.outer
        try:
            if True in flags and not prim.facts.random:
                results = flatten_outputs(_hot.record_list(batched(prim, flags), inner, args))
                on = [True] * len(results)
            elif not prim.facts.random:
                return _hot.record_list(prim, inner, args)
            elif prim.is_composite:
                outs = interpret(program.graph, inner, flags, args, self.draw)
                results, on = [x for x, _ in outs], [flag for _, flag in outs]
            else:
                results, is_batched = self.draw(prim, flags, inner, args)
                on = [is_batched] * len(results)
        finally:
            self.trace.symbolic = before
        handles = [self.wrap(x) if b else x for x, b in zip(results, on, strict=True)]
        if prim.is_view and on[0]:
            _note_view(handles[0], tensors[0], prim, args)
        wrap = prim.result_wrap()
        return handles[0] if wrap is None else wrap(handles)

    def draw(
        self, prim: Primitive, flags: tuple[bool, ...], tensors: list[Tensor], args: list[Any]
    ) -> tuple[list[Tensor], bool]:
        """Record an op outside of this level; a random op draws as `randomness` says."""
        if prim.facts.random:
            if self.randomness == "error":
                raise GraphError(DRAWS.format(name=prim.name))
            if self.randomness == "different":
                return self._draw_for_each(prim, flags, tensors, args), True
            if True in flags:
                raise GraphError(
                    f"vmap: {prim.name} of a tensor that is mapped over cannot draw the same "
                    "numbers for all examples: use randomness='different'"
                )
        if True not in flags:
            return flatten_outputs(_hot.record_list(prim, tensors, args)), False
        return flatten_outputs(_hot.record_list(batched(prim, flags), tensors, args)), True

    def _draw_for_each(
        self, prim: Primitive, flags: tuple[bool, ...], tensors: list[Tensor], args: list[Any]
    ) -> list[Tensor]:
        """A draw with the batch axis, from a stream of its own.

        Positions were reserved for a single example: the batch must not use those of later draws.
        """
        params = [p for p in prim.params if not p.is_attr]
        values = prim.arrange(tensors, args)
        names = [p.name for p in params]
        at_seed, at_offset = names.index("seed"), names.index("offset")
        values[at_seed], values[at_offset] = _stream(values[at_seed], values[at_offset]), 0
        if tensors:
            lifted = [with_batch_axis(x, f, self.size) for x, f in zip(tensors, flags, strict=True)]
            numbers = _flat_numbers(prim, values)
            everything = tuple([True] * len(tensors))
            return flatten_outputs(
                prim.batch(everything, self.size, *prim.arrange(lifted, numbers))
            )
        # A draw without operands begins with a size.
        first = prim.form[0]
        values[0] = (self.size, *values[0])
        form = (("S", first[1] + 1), *prim.form[1:])
        wider = type(prim).intern(prim.attrs, form)
        return flatten_outputs(_hot.record_list(wider, [], _flat_numbers(wider, values)))


def level_of(x: Tensor) -> Level | None:
    """The level of which a tensor stands for an example; None for a tensor of no level."""
    error = _hot.refreshed(x).error
    return error.level if isinstance(error, ValueNeeded) else None


def behind(x: Tensor) -> Tensor:
    """The tensor behind a tensor of a level, with the batch axis at dim 0; x itself otherwise."""
    value: Value = _hot.refreshed(x)
    return value.extra if isinstance(value.error, ValueNeeded) else x


def _flat_numbers(prim: Primitive, values: list[Any]) -> list[Any]:
    """The run-time args among arranged parameters, in order."""
    out: list[Any] = []
    for entry, value in zip(prim.form, values, strict=True):
        if entry == "I" or (type(entry) is tuple and entry[0] == "N"):
            out.append(value)
        elif type(entry) is tuple and entry[0] == "S":
            out.extend(value)
    return out


def _stream(seed: int, offset: int) -> int:
    """The seed of a stream that belongs to the draw at (seed, offset) alone."""
    low, high = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    counter = (offset & 0xFFFFFFFF, (offset >> 32) & 0xFFFFFFFF, 1, 0xFFFFFFFF)
    words = philox(counter, (low, high))
    return as_signed(words[0] | words[1] << 32)


def _hint_type(x: Tensor) -> TensorType:
    shape = tuple([hint_of(n) for n in x.shape])
    return _types.intern_type(shape, x.dtype, x.device)


def _as_it_is(x: Tensor) -> Tensor:
    """A handle on the present value of x: later changes of x do not show."""
    value = _hot.refreshed(x)
    handle: Tensor = _hot.wrap(value)
    handle.leaf = value.leaf
    return handle


def _note_view(new: Tensor, source: Tensor, prim: Primitive, args: list[Any]) -> None:
    """Let writes through a view of an example reach the base (the core does so elsewhere)."""
    if not prim.is_differentiable:
        _hot.slot("attach_detached")(new, source)
        return
    checked = prim.check_strides and source.alias is not None
    if checked and not _hot.slot("attach_reshape")(new, source, prim, args):
        return
    parent = source.alias
    alias = _hot.Alias()
    step = ((prim, tuple(args)),)
    if parent is not None and parent.base is not None:
        _hot.rebase(alias, parent.base)
        alias.chain = parent.chain + step
    else:
        _hot.rebase(alias, source)
        alias.chain = step
    alias.version = alias.base.version
    new.alias = alias


def current_level() -> Level | None:
    """The innermost level of this thread, or None."""
    level = _hot.current_trace().symbolic
    return level if isinstance(level, Level) else None


def run_mapped(
    function: Callable[..., Sequence[Tensor]],
    tensors: Sequence[Tensor],
    flags: Sequence[bool],
    size: int,
    randomness: str,
) -> list[tuple[Tensor, bool]]:
    """function(*tensors) once for all examples; flagged tensors have the batch axis at dim 0.

    Returns per result of the function (tensor, whether it has the batch axis at dim 0).
    Raises ValueNeeded, with `mine` set, where the function asks for the value of an example.
    """
    level = Level(size, randomness)
    trace = level.trace
    start = (trace.serial, trace.n, len(trace.touched))
    with level.entered():
        try:
            arguments = [
                level.wrap(x) if flag else x for x, flag in zip(tensors, flags, strict=True)
            ]
            results = list(function(*arguments))
            inner, on = level.strip(results)
        except ValueNeeded as error:
            error.mine = error.level is level
            raise
        finally:
            written = _take_back(level, *start)
    if written is not None:
        raise GraphError(WRITTEN.format(shape=tuple(written.shape)))
    return list(zip(inner, on, strict=True))


def _take_back(level: Level, serial: int, n: int, touched: int) -> Tensor | None:
    """Undo in-place ops that put tensors of this level elsewhere; returns any such tensor, or None.

    serial, n, touched: of the trace when the level began
    """
    trace = level.trace
    if trace.serial != serial:
        return None  # there was a flush: the values before the flush are no longer known
    written = None
    for handle, old, _ in trace.touched[touched:]:
        if handle.value.serial != level.serial:
            continue
        value = trace.values[old] if isinstance(old, int) else old
        if value.serial == level.serial or (isinstance(old, int) and old >= n):
            continue  # made inside of the function
        handle.value = value
        written = handle
    return written
