"""Statements: assignments, in-place ops, control flow, parts without gradients, reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import compounds
import expressions as e
import views
from scope import INTS, LOW, Scope, Value

Maker = Callable[[Scope], Value]

# How often each kind of expression is drawn.
EXPRESSIONS: tuple[Maker, ...] = (
    (e.unary,) * 4 + (e.pair,) * 5 + (e.kinked,) * 2 + (e.kinked_pair, e.comparison, e.integer)
    + (e.mixed, e.cast) + (e.reduction,) * 4 + (e.along,) * 2 + (e.counting,) + (e.product,) * 2
    + (e.layer, e.constant) + (views.view,) * 5 + (views.join,) * 2 + (views.selection,) * 2
    + (views.scattered, views.shaped) + (compounds.compound,) * 4
)  # fmt: skip


def assignment(s: Scope) -> None:
    """A new variable."""
    made = s.pick(EXPRESSIONS)(s)
    if made.storage >= 0 and not s.recording:
        # Whether a view that is taken without gradients requires grad is a difference on purpose.
        made = replace(made, text=f"{made.text}.clone()", leaf=False, storage=-1)
    s.name(made)


def again(s: Scope) -> None:
    """An old name gets a new value of the same type."""
    x = s.find(lambda v: v.is_float and not v.leaf)
    if x is None:
        return assignment(s)
    text = s.pick(("torch.tanh({x})", "{x} * 0.5 + 0.25", "-{x}", "{x} / 2")).format(x=x.text)
    s.emit(f"{x.text} = {text}")
    x.storage, x.writable = s.fresh(), True
    x.grad = x.grad and s.recording
    return None


# -- writes ---------------------------------------------------------------------------------------


def _target(s: Scope) -> Value:
    """Something that may be written: nothing that shares memory with a leaf that requires grad."""
    leaves = {v.storage for v in s.values if v.leaf}
    found = s.find(
        lambda v: v.writable and v.storage not in leaves and (v.is_float or s.chance(4))
    )  # fmt: skip
    if found is None or s.chance(3):
        x = s.a_float()
        # PyTorch copies a turned tensor turned, and `reshape` of that is no view.
        copy = s.pick(
            ("{x}.clone(memory_format=torch.contiguous_format)", "({x} * 1).contiguous()")
        )
        found = s.name(
            replace(x, text=copy.format(x=x.text), leaf=False, storage=-1, writable=True)
        )
    return found


def _source(s: Scope, x: Value, dims: tuple[str, ...]) -> Value:
    """What may be written into x: broadcasts to the dims, and its kind of number is x's."""
    # What shares the memory would change while PyTorch reads it.
    found = s.fitting(
        dims,
        lambda v: v.category <= x.category and v.is_float == x.is_float and v.storage != x.storage,
    )
    if found is None or s.chance(4):
        found = s.leaf(s.part_of(dims), x.dtype)
    if x.dtype == "uint8" or found.dtype == "uint8":
        found = s.leaf(dims, x.dtype)
    return s.tame(found)


_ALONE = (
    "{x}.mul_(0.5)", "{x}.add_(0.25)", "{x} *= 0.5", "{x}.sub_(0.5)", "{x}.tanh_()", "{x}.neg_()",
    "{x}.sigmoid_()", "{x}.fill_(0.5)", "{x}.zero_()", "{x} /= 2", "{x}.sin_()", "{x}[...] = 0.25",
)  # fmt: skip
_WITH = (
    "{x}.mul_({y})", "{x}.add_({y})", "{x} += {y}", "{x}.copy_({y})", "{x}.sub_({y}, alpha=0.5)",
    "{x} -= {y}", "{x}[...] = {y}", "{x}.addcmul_({y}, {y})", "{x}.masked_fill_({m}, 0.5)",
)  # fmt: skip
_INTEGER = (
    "{x} += 1", "{x}.mul_(2)", "{x}.zero_()", "{x}.bitwise_and_(3)", "{x} //= 2", "{x}.fill_(1)",
)  # fmt: skip


def write(s: Scope) -> None:
    """An in-place op, on a tensor or through one of its views."""
    x = _target(s)
    if s.chance(3) and x.dims:
        return element(s, x)
    if not x.is_float:
        text = "{x}.logical_not_()" if x.dtype == "bool" else s.pick(_INTEGER)
    else:
        text = s.pick(_ALONE if s.chance(2) else _WITH)
    y = _source(s, x, x.dims) if "{y}" in text else x
    mask = s.mask(x.dims).text if "{m}" in text else ""
    s.emit(text.format(x=x.text, y=y.text, m=mask))
    return wrote(s, x, y)


def element(s: Scope, x: Value) -> None:
    """x[...] = y and its kin."""
    kind = s.integer(0, 6)
    first, rest = x.dims[0], x.dims[1:]
    if kind == 0:
        y = _source(s, x, rest)
        s.emit(f"{x.text}[0] = {y.text}")
    elif kind == 1:
        y = x
        s.emit(f"{x.text}[..., -1] = {1 if x.dtype in ('bool', *INTS) else 0.25}")
    elif kind == 2:
        y = _source(s, x, rest)
        s.emit(f"{x.text}[-1] {'=' if x.dtype == 'bool' else '+='} {y.text}")
    elif kind == 3:
        y = x
        mask = s.leaf(x.dims, "bool")
        s.emit(f"{x.text}[{mask.text}] = {1 if not x.is_float else 0.5}")
    elif kind == 4:
        index = s.index((first,), first)
        y = s.leaf(x.dims, x.dtype)
        s.emit(f"{x.text}.index_add_(0, {index.text}, {y.text})")
    elif kind == 5:
        y = x
        index = s.index(("2",), first)
        s.emit(f"{x.text}[{index.text}] = {1 if not x.is_float else -0.5}")
    else:
        y = _source(s, x, rest)
        s.emit(f"{x.text}[1:] = {y.text}")
    wrote(s, x, y)


def wrote(s: Scope, x: Value, y: Value) -> None:
    """Note what a write changed: everything that shares the memory."""
    s.written.add(x.storage)
    for v in s.values:
        if v.storage == x.storage:
            v.grad = v.grad or (y.grad and s.recording)
            v.bound = max(v.bound, x.bound * y.bound, x.bound + s.turns * y.bound)


def through_view(s: Scope) -> None:
    """A view is taken, written, and stays."""
    x = _target(s)
    if not x.dims:
        return write(s)
    before = len(s.values)
    kept = s.values[:]
    s.values[:] = [x]
    made = views.view(s)
    new = [v for v in s.values if v is not x]
    s.values[:] = [*kept, *new]
    assert len(s.values) >= before
    w = s.name(made)
    if not w.writable or w.leaf:
        return None
    text = s.pick(
        ("{x}.mul_(0.5)", "{x}.add_(0.25)", "{x}.zero_()", "{x} += {y}", "{x}.copy_({y})")
    )
    if not w.is_float:
        text = "{x}.zero_()"
    y = _source(s, w, w.dims) if "{y}" in text else w
    s.emit(text.format(x=w.text, y=y.text))
    return wrote(s, w, y)


# -- control flow -------------------------------------------------------------------------------


def _accumulator(s: Scope) -> Value:
    found = s.find(lambda v: v.is_float and not v.leaf and v.dtype not in LOW)
    return found or s.name(e.unary(s))


def _decision(s: Scope) -> str:
    x = s.a_float()
    how = s.pick(("sum", "mean"))
    return f"decide({x.text}.{how}(), {s.pick((0.1, -0.3, 0.7))})"


def body(s: Scope, into: Value | None) -> None:
    """Some statements; what they made goes into a variable of outside."""
    known = {id(v) for v in s.values}
    for _ in range(s.integer(1, 3)):
        s.pick((assignment, assignment, write, through_view, again))(s)
    if into is None:
        return
    made = s.find(lambda v: v.is_float and id(v) not in known)
    term = f"{made.text}.mean().to(torch.{into.dtype})" if made else "0.125"
    s.emit(f"{into.text} = torch.tanh({into.text} + {term})")
    into.grad = (into.grad or bool(made and made.grad)) and s.recording
    into.bound, into.writable, into.storage = 1.0, True, s.fresh()


def branch(s: Scope) -> None:
    """if / else on a value."""
    into = _accumulator(s)
    with s.block(f"if {_decision(s)}:"):
        body(s, into)
    if s.chance(2):
        with s.block("else:"):
            body(s, into)


def loop(s: Scope) -> None:
    """A loop that a value may end early."""
    into = _accumulator(s)
    turns = s.integer(1, 4)
    known = list(s.values)
    head = f"for turn in range({s.pick((str(turns), f'1 + n % {turns}'))}):"
    with s.block(head, turns):
        body(s, into)
        if s.chance(2):
            s.emit(f"if {_decision(s)}:")
            s.emit(f"    {s.pick(('break', 'continue'))}")
            if s.chance(2):
                body(s, into)
    assert len(s.values) == len(known)


def repeat(s: Scope) -> None:
    """A while loop whose end hangs on a value."""
    into = _accumulator(s)
    count = f"c{s.fresh()}"
    s.emit(f"{count} = 0")
    with s.block(f"while {count} < 4 and decide({into.text}.mean(), {s.pick((0.05, -0.2))}):", 4):
        s.emit(f"{count} += 1")
        body(s, into)
        s.emit(f"{into.text} = {into.text} - 0.3")
        into.storage = s.fresh()


def unrecorded(s: Scope) -> None:
    """Statements without gradients; what they make is seen outside."""
    head = s.pick(("with torch.no_grad():", "with torch.set_grad_enabled(False):"))
    before, known = s.recording, len(s.values)
    s.emit(head)
    s.indent, s.recording = s.indent + 1, False
    for _ in range(s.integer(1, 3)):
        s.pick((assignment, assignment, write))(s)
    s.indent, s.recording = s.indent - 1, before
    for v in s.values[known:]:
        v.writable = False  # a view made here must not be written where gradients are recorded


def detached(s: Scope) -> None:
    """The value without its history; now and then as a new leaf."""
    x = s.a_float()
    if s.chance(2):
        s.name(replace(x, text=f"({x.text} - {x.text}.detach() * 0.5)", storage=-1, leaf=False))
        return
    found = s.name(replace(x, text=f"{x.text}.detach()", grad=False, leaf=False, writable=False))
    if s.chance(2) and s.recording:
        s.emit(f"{found.text}.requires_grad_()")
        found.grad = found.leaf = True
        found.storage = s.fresh()


# -- the rest -------------------------------------------------------------------------------------


def read(s: Scope) -> None:
    """A place where a run may look at a value, or not."""
    x = s.find(lambda v: True)
    if x is None:
        return assignment(s)
    s.emit(f"read({s.fresh()}, {x.text})")
    return None


def changed(s: Scope) -> None:
    """A tensor changes its shape, loses its history, or is a leaf that is updated by hand."""
    if s.indent > 1:
        return assignment(s)
    if s.chance(3) and s.recording:
        x = s.find(lambda v: v.leaf and v.storage == int(v.text[1:]))
        if x is None:
            return assignment(s)
        s.emit("with torch.no_grad():")
        s.emit(f"    {x.text}.{s.pick(('mul_(0.5)', 'sub_(0.1)'))}")
        return None
    # A gradient that PyTorch was to keep has the shape of before, and `unsqueeze_` makes it crash.
    kept = [line.split(".")[0].strip() for line in s.lines if line.endswith(".retain_grad()")]
    x = s.find(
        lambda v: v.writable and not v.leaf and v.storage not in s.viewed and v.text not in kept
    )
    if x is None or any(f"{x.text}." in d for v in s.values for d in v.dims):
        return assignment(s)
    kind = s.integer(0, 3)
    s.viewed.add(x.storage)  # of its former self
    if kind == 0:
        s.emit(f"{x.text}.unsqueeze_(0)")
        x.dims = ("1", *x.dims)
    elif kind == 1 and len(x.dims) > 1:
        s.emit(f"{x.text}.transpose_(0, 1)")
        x.dims = (x.dims[1], x.dims[0], *x.dims[2:])
    elif kind == 2 and x.dims[:1] == ("1",):
        s.emit(f"{x.text}.squeeze_(0)")
        x.dims = x.dims[1:]
    else:
        s.emit(f"{x.text}.detach_()")
        x.grad = False
    return None


def forget(s: Scope) -> None:
    """A variable goes away."""
    sizes = " ".join(d for v in s.values for d in v.dims)
    found = [v for v in s.values if not v.leaf and f"{v.text}." not in sizes]
    if len(found) < 3 or s.indent > 1:
        return assignment(s)
    x = s.pick(found)
    s.emit(f"del {x.text}")
    s.values.remove(x)
    return None
