"""Random training programs: a model, optimisers, state that is carried, and a loop of steps."""

from __future__ import annotations

from collections.abc import Callable, Collection

import statements
from gradients import function
from models import LAYERS, Loop, called, model
from programs import Program, Run
from scope import Value
from states import LEFT_OUT, between, carrier

# Numbers that are added to denominators are large enough for rounding not to decide.
# fmt: off
OPTIMISERS = (
    "SGD({p}, lr=0.1)", "SGD({p}, lr=0.1, momentum=0.9)", "Adam({p}, lr=0.02, eps=1e-3)",
    "SGD({p}, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)",
    "SGD({p}, lr=0.1, momentum=0.5, dampening=0.1, maximize=True)",
    "Adam({p}, lr=0.02, eps=1e-3, amsgrad=True, weight_decay=0.01)",
    "AdamW({p}, lr=0.02, eps=1e-3)", "RMSprop({p}, lr=0.02, eps=1e-3)",
    "RMSprop({p}, lr=0.02, eps=1e-3, centered=True, momentum=0.5)",
    "Adagrad({p}, lr=0.1, eps=1e-3)", "Adadelta({p}, eps=1e-3)", "Adamax({p}, lr=0.02, eps=1e-3)",
    "NAdam({p}, lr=0.02, eps=1e-3)", "RAdam({p}, lr=0.02, eps=1e-3)", "ASGD({p}, lr=0.05)",
)
SCHEDULERS = (
    "StepLR({o}, 2, gamma=0.5)", "ExponentialLR({o}, 0.8)", "CosineAnnealingLR({o}, 4)",
    "LambdaLR({o}, lambda e: 1 / (1 + e))",
    "OneCycleLR({o}, 0.1, total_steps=99, cycle_momentum=False)",
    "LinearLR({o}, 0.5, total_iters=3)", "MultiStepLR({o}, [1, 3], gamma=0.5)",
    "CyclicLR({o}, 0.01, 0.1, step_size_up=2, cycle_momentum=False)",
)
LOSSES = (
    "({y} * {y}).mean()", "{y}.tanh().sum() * 0.1", "torch.logsumexp({y}, 1).mean()",
    "F.mse_loss({y}, data({k}00 + step, {y}.shape, {t}))", "{y}.sigmoid().norm()",
    "F.cross_entropy({y}, (data({k}00 + step, {y}.shape[:1], torch.int64) + 3) % {y}.shape[1])",
    "F.smooth_l1_loss({y}, torch.ones_like({y}))", "-F.log_softmax({y}, 1)[:, 0].mean()",
    "({y} ** 2).sum(1).sqrt().mean()", "{y}.std()",
)
BACKWARDS = (
    "{l}.backward()", "{l}.backward()", "{l}.backward()", "{l}.backward()",
    "{l}.backward(retain_graph=True)\n{l}.backward()",
    "({l} * 0.5).backward(retain_graph=True)\n({l} + {l} * {l}).backward()",
    "{l}.backward(torch.full_like({l}, 0.5))", "{l}.backward(inputs=[{p}])",
    "torch.autograd.backward([{l}, {l} * 2])",
    "for p, g in zip(params, torch.autograd.grad({l}, params, allow_unused=True)):\n    p.grad = g",
    "for p, g in zip(params, torch.autograd.grad({l}, params, allow_unused=True)):\n"
    "    if g is not None:\n        p.grad = g if p.grad is None else p.grad + g",
    "g{k} = torch.autograd.grad({l}, {p}, create_graph=True, allow_unused=True)[0]\n"
    "({l} + (0 if g{k} is None else (g{k} * g{k}).sum())).backward()",
    "{l} /= 2\n{l}.backward()", "losses = [{l}, {l} * {l}]\ntorch.stack(losses).mean().backward()",
    "g{k} = torch.autograd.grad({l}, {p}, create_graph=True, allow_unused=True)[0]\n"
    "fast = {p} - 0.1 * ({p} if g{k} is None else g{k})\n(fast * fast * {l}).sum().backward()",
    "if decide({l}, 0.5):\n    ({l} * 0.5).backward()\nelse:\n    {l}.backward()",
    "for _ in range(1 + step % 2):\n    {l}.backward(retain_graph=True)",
)
TREATMENTS = (
    "torch.nn.utils.clip_grad_norm_(params, 0.5)", "torch.nn.utils.clip_grad_value_(params, 0.1)",
    "seen.append(torch.nn.utils.clip_grad_norm_(params, 1.0).item())",
    "torch.nn.utils.clip_grad_norm_(params, 0.5, norm_type=float('inf'))",
    "for p in params:\n    if p.grad is not None:\n        p.grad.mul_(0.5)",
    "for p in params:\n    if p.grad is not None:\n        p.grad = p.grad / 2",
    "for p in params:\n    if p.grad is not None:\n        p.grad.data.clamp_(-0.2, 0.2)",
    "for p in params:\n    if p.grad is not None:\n        p.grad += 0.01 * p.detach()",
    "total = sum(p.grad.norm() ** 2 for p in params if p.grad is not None)\n"
    "if decide(torch.as_tensor(total), 0.1):\n    {o}.zero_grad()",
)
UPDATES = (
    "with torch.no_grad():\n    for p in params:\n        if p.grad is not None:\n"
    "            p -= 0.1 * p.grad",
    "for p in params:\n    if p.grad is not None:\n        p.data.add_(p.grad, alpha=-0.1)",
    "with torch.no_grad():\n    for p in params:\n        if p.grad is not None:\n"
    "            p.sub_(p.grad, alpha=0.1)\n            p.grad.zero_()",
)
# What may be made of a model's result, of the model and its operand.
ROUTES = (
    "{z} = torch.zeros({rows}, 4, dtype={t})\nmask = {y}[:, 0].detach() > 0.05\n"
    "{z}[mask, :3] = {y}[mask, :3].tanh()",
    "{z} = {y} * 0.5 if step % 2 else {y}.tanh()", "{z} = {y}[{y}[:, 0].detach() > 0.05]",
    "{z} = torch.utils.checkpoint.checkpoint(torch.tanh, {y}, use_reentrant=False)",
    "{z} = torch.cat([row[None] * (i + 1) for i, row in enumerate({y})])",
    "{z} = {y}\nwhile decide({z}.norm(), 1.5):\n    {z} = {z} * 0.5",
    "{z} = torch.stack([{y}[i % {y}.shape[0]] for i in range(1 + step)])",
    "{z} = torch.tanh({y})\nif decide({z}.mean(), 0.05):\n    {z} = {z} * {z}\nelse:\n"
    "    {z} = {z}.sin() * {p}.mean()",
    "{z} = {y} + 0\n{z}.mul_(0.5)\n{z}[0] = {z}[-1].detach() * 2",
    "{z} = sum(({y}[i : i + 2].sum(0, keepdim=True) for i in range(step)), {y}[:1])",
    "with torch.no_grad():\n    scale = {y}.abs().max() + 1\n{z} = {y} / scale",
    "{z} = {y}.clone()\nfor i in range(step):\n    {z} = {z} + {y}[{z}.detach().argmax() % {rows}]",
    "{z} = {y} * {p}.sum().detach().sigmoid().item()", "{z} = {y}.detach().requires_grad_() * {y}",
)
ERRORS = "(RuntimeError, ValueError, IndexError, TypeError)"
FAULTS = (
    "raise ValueError('stop')", "{y}.view(-1, 1000)", "{y} @ {y}[0, :1]", "{y}[:, 99]",
    "{y}[torch.tensor([0, 99])]", "{y} + torch.zeros(99, dtype={t})", "{y}.backward()",
    "torch.ones(2, dtype={t}).sum().backward()", "{p}.mul_(2)", "{p}.detach().numpy()[99]",
    "F.embedding(torch.tensor([99]), {p}.view(1, -1)).sum().item()",
    "torch.zeros(3, dtype={t})[({y}.detach().abs().argmax() + 99)[None]].sum().item()",
    "{y}.detach().copy_(torch.zeros(99, dtype={t}))",
    "{y}.register_hook(lambda g: g[99, 99])\n({y} * {y}).sum().backward()",
)
# fmt: on
ORDINARY = (
    (statements.assignment,) * 5
    + (statements.again, statements.through_view, statements.branch)
    + (statements.loop, statements.read, function, statements.unrecorded)
)  # fmt: skip


def drawn(
    integer: Callable[[int, int], int], left_out: Collection[str] = tuple(LEFT_OUT)
) -> Program:
    """A training program. integer: draws a number of a range, both ends included."""
    s = Loop(integer, ("float64",), left_out=frozenset(left_out))
    s.floats = (s.pick(("float64", "float64", "float64", "float32")),)
    s.dtypes.add(s.dtype)
    s.emit("import copy, io")
    layers = _setup(s)
    with s.block(f"for step in range({s.integer(3, 6)}):"):
        _step(s, layers)
        s.emit(f"watch(step, {', '.join(f'{_key(w)}={w}' for w in s.watched)}, rest=params)")
    return Program(s.lines, [], _runs(s), s.dtypes, apart=True, forced=s.chance(4))


def _key(text: str) -> str:
    return text.partition(".")[0].partition("[")[0]


def _setup(s: Loop) -> list[tuple[str, object]]:
    """Models, leaves, optimisers, schedulers, and what is carried; returns models and layers."""
    layers = []
    for _ in range(s.pick((1, 2, 2, 3))):
        layer = s.pick(LAYERS)
        layers.append((model(s, layer), layer))
    for _ in range(s.integer(0, 2)):
        number = s.fresh()
        dims = s.pick((("4",), ("3",), ("4", "3"), ("1",)))
        made = f"data({number}, ({', '.join(dims)},), torch.{s.dtype}, True)"
        s.emit(f"p{number} = {s.pick((made, f'torch.nn.Parameter({made}.detach())'))}")
        s.weights.append((f"p{number}", dims))
        s.watched.append(f"p{number}")
    _tie(s)
    own = [name for name, _ in s.weights if name.startswith("p")]
    every = ", ".join([*(f"*{name}.parameters()" for name in s.modules), *own])
    s.emit(f"params = list(dict.fromkeys([{every}]))")
    for _ in range(s.pick((1, 1, 1, 2))):
        _optimiser(s)
    for _ in range(s.integer(1, 6)):
        carrier(s)
    return layers


def _tie(s: Loop) -> None:
    """Two modules may share a weight."""
    pairs = [
        (a, b) for a, dims in s.weights for b, others in s.weights
        if a != b and dims == others and a.endswith("t") and b.endswith(".weight")
    ]  # fmt: skip
    if pairs and s.chance(2):
        a, b = s.pick(pairs)
        if ".parametrizations" not in "".join(s.lines):
            s.emit(f"{b} = {a}")


def _optimiser(s: Loop) -> None:
    number = s.fresh()
    some = s.pick(s.modules)
    which = s.pick(("params", "params", "params[1:]", f"{some}.parameters()", "params[:1]",
                    "[{'params': params[:1], 'lr': 0.05}, {'params': params[1:]}]"))  # fmt: skip
    s.emit(f"o{number} = torch.optim.{s.pick(OPTIMISERS).format(p=which)}")
    s.optimisers.append(f"o{number}")
    s.watched.append(f"o{number}")
    if s.chance(3):
        schedule = f"d{s.fresh()}"
        text = s.pick(SCHEDULERS).format(o=f"o{number}")
        s.emit(f"{schedule} = torch.optim.lr_scheduler.{text}")
        s.between += [f"{schedule}.step()"] * 2


def _step(s: Loop, layers: list[tuple[str, object]]) -> None:
    """One turn of the loop."""
    s.rows = s.pick(("n", "n", "n", "(n + step)", "(n + step % 2)"))
    between(s, 2)
    guarded = s.chance(3)
    zero = s.pick(("{o}.zero_grad()", "{o}.zero_grad()", "{o}.zero_grad(set_to_none=False)",
                   "for p in params:\n    p.grad = None", "if step % 2 == 0:\n    {o}.zero_grad()",
                   "{m}.zero_grad()"))  # fmt: skip
    late = s.chance(4)
    if not late:
        s.put(zero)
    if guarded:
        with s.block("try:"):
            _work(s, layers, True)
        with s.block(f"except {ERRORS} as error:"):
            s.emit("caught(step, error)")
            s.put(s.pick(("pass", "{o}.zero_grad()", "for p in params:\n    p.grad = None")))
    elif s.chance(5):
        with s.block("for micro in range(2):"):
            _forward(s, layers)
            _backward(s)
        _update(s)
    else:
        _work(s, layers, False)
    if late:
        s.put(zero)
    between(s, 3)


def _work(s: Loop, layers: list[tuple[str, object]], faults: bool) -> None:
    if not faults and s.chance(6) and "LBFGS" not in "".join(s.lines):
        with s.block("def closure():"):
            s.put("{o}.zero_grad()")
            _forward(s, layers)
            _backward(s)
            s.emit("return loss")
        s.put("seen.append({o}.step(closure).item())")
        return
    known = list(s.values)
    place = s.integer(0, 2) if faults else 3
    _forward(s, layers)
    if place == 0:
        _fault(s)
    _backward(s)
    if place == 1:
        _fault(s)
    _update(s)
    if place == 2:
        _fault(s)
    s.values[:] = known


def _fault(s: Loop) -> None:
    """An error, in some steps."""
    s.emit(s.pick(("if step == 1:", "if step % 2:", "if step:")))
    s.indent += 1
    s.put(s.pick(FAULTS), y=_output(s))
    s.indent -= 1


def _output(s: Loop) -> str:
    found = [v.text for v in s.values if v.grad and v.dims[:1] == (s.rows,) and len(v.dims) == 2]
    return found[-1]


def _forward(s: Loop, layers: list[tuple[str, object]]) -> None:
    """Calls of the models, and ordinary statements, up to a loss."""
    s.values[:] = [v for v in s.values if not v.grad]
    for name, layer in layers:
        if not s.chance(6) or name == layers[-1][0]:
            called(s, name, layer)  # type: ignore[arg-type]
    made = _output(s)
    # PyTorch crashes at a hook on a view whose memory was written through another one, and loses
    # one whose view is written to later: hooks are put on what is no view.
    if s.chance(5):
        kind = s.pick((
            "register_hook(lambda g: g * 0.5)", "retain_grad()",
            "register_hook(lambda g: seen.append(({k}, g.sum().item())))",
        ))  # fmt: skip
        s.put("{y} = {y} * 1\n{y}." + kind, y=made)
    if s.chance(2):
        made = _route(s, made)
    for _ in range(s.integer(0, 3)):
        s.pick(ORDINARY)(s)
    terms = [s.filled(s.pick(LOSSES), y=made)]
    last = [v for v in s.values if v.is_float and v.grad and v.text != made][-2:]
    terms += [f"({v.text} * {v.text}).mean().to(torch.{s.dtype})" for v in last]
    own = [name for name, _ in s.weights if name.startswith("p")]
    terms += [f"({name} * {name}).sum() * 0.1" for name in own if not s.chance(3)]
    s.emit(f"loss = {' + '.join(terms)}")
    if s.chance(4):
        s.put(s.pick(("read({k}, loss)", "seen.append(loss.item())", "read({k}, {p})")))


def _route(s: Loop, made: str) -> str:
    """Something that is made of a model's result; returns its name."""
    found = s.pick(ROUTES)
    number = s.fresh()
    s.put(found, y=made, z=f"v{number}")
    s.values.append(Value(f"v{number}", s.dtype, (f"v{number}.shape[0]", f"v{number}.shape[1]"),
                          3.0, True, storage=number))  # fmt: skip
    return f"v{number}"


def _backward(s: Loop) -> None:
    ways = BACKWARDS
    if "post_accumulate" in "".join(s.lines):  # what it writes is not what a kept graph has used
        ways = tuple([way for way in BACKWARDS if "retain_graph" not in way])
    text = s.filled(s.pick(ways), l="loss")
    s.emit("if loss.requires_grad:")
    for line in text.split("\n"):
        s.emit("    " + line)
    if s.chance(5):
        s.put("read({k}, loss)")


def _update(s: Loop) -> None:
    if s.chance(2):
        s.put(s.pick(TREATMENTS))
    if s.chance(6):
        s.put(s.pick(UPDATES))
    else:
        for name in s.optimisers:
            s.emit(f"{name}.step()")


def _runs(s: Loop) -> list[Run]:
    """Twice the same, then watched in other ways, with other sizes and reads."""
    n = s.pick((3, 2, 4, 5))
    seed = s.integer(0, 99)
    return [
        Run(n, 3, seed, 0), Run(n, 3, seed, s.pick((1, 2))),
        Run(s.pick((4, 2, 6)), 3, s.integer(100, 199), s.pick((4, 6, 7, 8))),
    ]  # fmt: skip
