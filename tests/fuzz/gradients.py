"""Statements about gradients: of any order, hooks, user-defined functions, optimisers."""

from __future__ import annotations

from scope import LOW, Scope, Value
from statements import assignment, branch, through_view, write


def gradient(s: Scope) -> None:
    """A gradient as a value, which can be differentiated again."""
    y = s.find(lambda v: v.grad and v.is_float)
    if y is None or not s.recording or s.indent > 1:
        return assignment(s)
    x = s.find(lambda v: v.grad and v.is_float and v is not y) or y
    weight = s.pick(("{y}", "({y} * {y})", "torch.sin({y})")).format(y=y.text)
    # What a hook sees of a second derivative hangs on how a formula is written (by x or by y).
    create = not s.chance(3) and not any(
        "_hook" in line or "retain_grad()" in line for line in s.lines
    )
    number = s.fresh()
    name = f"v{number}"
    options = "create_graph=True" if create else "retain_graph=True"
    call = f"torch.autograd.grad({weight}.sum(), {x.text}, {options}, allow_unused=True)[0]"
    s.emit(f"{name} = torch.zeros_like({x.text})")
    s.emit(f"if {y.text}.requires_grad and {x.text}.requires_grad:")
    s.emit(f"    {name} = {call}")
    s.emit(f"    {name} = torch.ones_like({x.text}) if {name} is None else torch.tanh({name})")
    s.values.append(Value(name, x.dtype, x.dims, 1.0, create, storage=number, writable=False))
    return None


def backward(s: Scope) -> None:
    """Gradients into the leaves, in the middle of the program."""
    y = s.find(lambda v: v.grad and v.is_float)
    if y is None or not s.recording or s.indent > 1:
        return assignment(s)
    s.emit(f"if {y.text}.requires_grad:")
    if s.chance(3):
        s.emit(f"    {y.text}.backward(torch.ones_like({y.text}) * 0.5, retain_graph=True)")
    else:
        s.emit(f"    {y.text}.{s.pick(('sum', 'mean'))}().backward(retain_graph=True)")
    x = s.find(lambda v: v.leaf and v.dtype not in LOW)
    if x is not None and s.chance(2):
        s.emit(f"if {x.text}.grad is not None:")
        s.emit(f"    seen.append({x.text}.grad.sum().item())")
        if s.chance(2):
            s.emit(f"    {x.text}.grad = None")
    return None


def hook(s: Scope) -> None:
    """Something that is called with a gradient, or keeps it."""
    # PyTorch 2.13 crashes at a hook on a view whose memory was written through another one.
    x = s.find(lambda v: v.grad and v.is_float and v.storage not in s.written)
    second = any("create_graph" in line for line in s.lines)
    if x is None or s.indent > 1 or not s.recording or second:
        return assignment(s)
    s.emit(f"if {x.text}.requires_grad:")
    number = s.fresh()
    s.emit(
        s.pick((
            f"    {x.text}.register_hook(lambda g: g * 0.5)",
            f"    {x.text}.register_hook(lambda g: seen.append(({number}, g.sum().item())))",
            f"    {x.text}.retain_grad()",
            f"    {x.text}.register_hook(lambda g: torch.tanh(g) if g.mean() > 0.1 else g)"
            if not s.low else f"    {x.text}.register_hook(lambda g: -g)",
        ))
    )  # fmt: skip
    return None


def function(s: Scope) -> None:
    """A user-defined function with its own backward."""
    x = s.a_float()
    y = s.find(lambda v: v.dims == x.dims and v.dtype == x.dtype) or s.leaf(x.dims, x.dtype)
    s.name(Value(f"Product.apply({x.text}, {y.text})", x.dtype, x.dims, 1, x.grad or y.grad,
                 writable=False))  # fmt: skip


# With an eps of 1e-8 a gradient that is all rounding moves a leaf as far as any other.
_OPTIMIZERS = (
    "SGD({p}, lr=0.1)", "SGD({p}, lr=0.1, momentum=0.9, nesterov=True)",
    "Adam({p}, lr=0.01, eps=1e-3)", "AdamW({p}, lr=0.01, eps=1e-3, amsgrad=True)",
    "RMSprop({p}, lr=0.01, eps=1e-3, centered=True)", "Adagrad({p}, lr=0.1, eps=1e-3)",
)  # fmt: skip


def training(s: Scope) -> None:
    """Steps of an optimiser over leaves; the gradient's graph is made anew in each turn."""
    leaves = [v for v in s.values if v.leaf and v.text.startswith("v") and v.dtype not in LOW]
    leaves = [v for v in leaves if v.storage == int(v.text[1:])][:2]
    if not leaves or s.indent > 1 or not s.recording:
        return assignment(s)
    names = ", ".join(v.text for v in leaves)
    s.emit(f"o{s.fresh()} = optimizer = torch.optim.{s.pick(_OPTIMIZERS).format(p=f'[{names}]')}")
    known = s.values[:]
    turns = s.integer(1, 4)
    with s.block(f"for turn in range({turns}):", turns):
        s.values[:] = [v for v in known if not v.grad or any(v is leaf for leaf in leaves)]
        s.emit(f"optimizer.zero_grad({s.pick(('', 'set_to_none=False'))})")
        if s.chance(3):
            s.emit("optimizer.param_groups[0]['lr'] *= 0.5")
        for _ in range(s.integer(1, 4)):
            s.pick((assignment, assignment, through_view, write, branch))(s)
        made = [v for v in s.values if v.grad and v.is_float and all(v is not k for k in known)]
        terms = [f"({v.text} * {v.text}).mean().double()" for v in (made[-2:] or leaves[:1])]
        s.emit(f"loss = {' + '.join(terms)}")
        s.emit("if loss.requires_grad:")
        s.emit("    loss.backward()")
        s.emit("optimizer.step()")
        if s.chance(2):
            s.emit("seen.append(loss.item())")
    s.values[:] = [v for v in known if not v.grad or any(v is leaf for leaf in leaves)]
    s.dtypes.add("float64")
    return None
