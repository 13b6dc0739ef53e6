"""What training programs carry from step to step, and what may happen to it between steps.

Texts are filled in by `Loop.filled`. A carrier is made before the loop; what may be done to it is
drawn between steps. `left_out` names the kinds that a run leaves out, and why.
"""

from __future__ import annotations

from dataclasses import dataclass

from models import Loop

#: Kinds that differ from PyTorch so far, and why they are left out unless `--all` asks for them.
LEFT_OUT: dict[str, str] = {}


@dataclass(frozen=True)
class Carrier:
    """Lines before the loop, what may be done between steps, and what is watched."""

    setup: str
    between: tuple[str, ...]
    watched: str = ""
    kind: str = ""


# fmt: off
CARRIERS = (
    # another handle of a parameter's memory
    Carrier("w{k} = {p}.detach()", ("w{k}.mul_(0.9)", "w{k}[0] = 0.25", "w{k}.zero_()"), "w{k}"),
    Carrier("w{k} = {p}.data", ("w{k}.mul_(0.9)", "w{k}[0].add_(0.1)"), "w{k}"),
    Carrier("w{k} = {p}.detach()[0]", ("w{k}.mul_(0.9)", "w{k}.fill_(0.5)"), "w{k}"),
    Carrier("w{k} = {p}.detach().t() if {p}.dim() == 2 else {p}.data.view(-1)",
            ("w{k}.mul_(0.9)", "w{k}[-1] *= 0.5"), "w{k}"),
    Carrier("w{k} = {p}.view(-1)",
            ("with torch.no_grad():\n    w{k}.mul_(0.9)",
             "with torch.no_grad():\n    w{k}[0] = 0.1"), "w{k}.detach()"),
    Carrier("w{k} = torch.nn.Parameter({p}.detach())", ("w{k}.data.mul_(0.9)",), "w{k}"),
    # memory shared with NumPy
    Carrier("a{k} = {p}.detach().numpy()",
            ("a{k} *= 0.9", "a{k}[0] = 0.25", "a{k}.flat[-1] += 0.1",
             "a{k}[...] = data({k}00 + step, a{k}.shape, {t}).numpy()"), "a{k}"),
    Carrier("b{k} = data({k}00, (4,), {t}).numpy().copy()\nt{k} = torch.from_numpy(b{k})",
            ("b{k} *= 0.5", "b{k}[step % 4] = step", "t{k}.add_(0.25)", "t{k}[0] = float(b{k}[1])",
             "with torch.no_grad():\n    t{k}.add_({p}.mean(), alpha=0.1)",
             "b{k}[:] = data({k}00 + step, (4,), {t}).numpy()"), "t{k}"),
    Carrier("a{k} = {p}.detach().numpy()[::2]", ("a{k} *= 0.5", "a{k}[0] = 0.1"), "a{k}"),
    Carrier("a{k} = {p}.detach().view(-1)[1:].numpy()", ("a{k} += 0.1", "a{k}[0] = -0.1"), "a{k}"),
    Carrier("a{k} = {p}.detach().numpy().T\nw{k} = torch.from_numpy(a{k})",
            ("a{k} *= 0.5", "w{k}[0] += 0.1", "w{k}.mul_(0.5)"), "a{k}, w{k}"),
    # running buffers
    Carrier("r{k} = torch.zeros((), dtype={t})",
            ("r{k}.mul_(0.9).add_({p}.detach().mean(), alpha=0.1)",
             "r{k} = r{k} * 0.9 + {p}.detach().sum() * 0.1", "r{k} += 1",
             "r{k} = r{k} + ({p}.grad.norm() if {p}.grad is not None else 0)"), "r{k}"),
    Carrier("r{k} = torch.zeros(8, dtype={t})",
            ("r{k}[step] = {p}.detach().mean()", "r{k}[step:] += {p}.detach().max()",
             "r{k} = torch.cat([r{k}[1:], {p}.detach().mean()[None]])",
             "r{k}.copy_(torch.roll(r{k}, 1))", "r{k}[step % 3 :: 2].mul_(0.5)"), "r{k}"),
    Carrier("l{k} = []",
            ("l{k}.append({p}.detach().clone())", "l{k}.append({p}.detach().norm())",
             "l{k}.append({p}.detach().mean().item())", "l{k} = l{k}[-2:]"), "l{k}"),
    # copies
    Carrier("c{k} = copy.deepcopy({m})",
            ("with torch.no_grad():\n    for q, p in zip(c{k}.parameters(), {m0}.parameters()):\n"
             "        q.mul_(0.9).add_(p, alpha=0.1)",
             "with torch.no_grad():\n    for q, p in zip(c{k}.parameters(), {m0}.parameters()):\n"
             "        q.lerp_(p, 0.25)",
             "for q, p in zip(c{k}.parameters(), {m0}.parameters()):\n    q.data.copy_(p.data)",
             "c{k}.load_state_dict({m0}.state_dict())", "{m0}.load_state_dict(c{k}.state_dict())",
             "c{k} = copy.deepcopy({m0})"), "c{k}"),
    Carrier("s{k} = {{key: value.clone() for key, value in {m}.state_dict().items()}}",
            ("{m0}.load_state_dict(s{k})", "s{k} = copy.deepcopy({m0}.state_dict())",
             "s{k} = {m0}.state_dict()",
             "for value in s{k}.values():\n"
             "    value.mul_(0.9) if value.is_floating_point() else 0"),
            "s{k}"),
    Carrier("s{k} = copy.deepcopy({o}.state_dict())",
            ("s{k} = copy.deepcopy({o0}.state_dict())", "{o0}.load_state_dict(copy.deepcopy(s{k}))",
             "{o0}.load_state_dict({o0}.state_dict())",
             "{o0}.load_state_dict(copy.deepcopy({o0}.state_dict()))")),
    Carrier("k{k} = ({p}.detach().abs() > 0.2).to({t})",
            ("with torch.no_grad():\n    {p0}.mul_(k{k})",
             "if {p0}.grad is not None:\n    {p0}.grad.mul_(k{k})", "{p0}.data *= k{k}",
             "k{k} = ({p0}.detach().abs() > 0.1).to({t})"), "k{k}"),
    # gradients that are kept, shared, or pieces of one buffer
    Carrier("i{k} = torch.zeros(sum(p.numel() for p in params), dtype={t})",
            ("at = 0\nfor p in params:\n    p.grad = i{k}[at : at + p.numel()].view_as(p)\n"
             "    at += p.numel()", "i{k}.zero_()", "i{k}.mul_(0.5)"), "i{k}"),
    Carrier("g{k} = {p}.grad",
            ("g{k} = {p0}.grad", "if g{k} is not None:\n    g{k}.mul_(0.5)",
             "if g{k} is not None:\n    {p0}.grad = g{k}", "if g{k} is not None:\n    g{k}.zero_()",
             "if {p0}.grad is not None:\n    {p0}.grad.view(-1)[0] = 0.1",
             "if {p0}.grad is not None:\n    g{k} = torch.from_numpy({p0}.grad.numpy())"),
            "g{k}"),
    Carrier("g{k} = []",
            ("g{k} = [p.grad for p in {m0}.parameters()]",
             "for g in g{k}:\n    g.mul_(0.5) if g is not None else 0",
             "g{k} = [p.grad.clone() for p in {m0}.parameters() if p.grad is not None]"), "g{k}"),
    # hooks
    Carrier("h{k} = {p}.register_hook(lambda g: g * 0.5)", ("h{k}.remove()",)),
    Carrier("h{k} = {p}.register_hook(lambda g: seen.append(({k}, g.sum().item())))",
            ("h{k}.remove()",)),
    Carrier("h{k} = {p}.register_post_accumulate_grad_hook("
            "lambda p: setattr(p, 'grad', p.grad * 0.5))", ("h{k}.remove()",)),
    Carrier("h{k} = {p}.register_post_accumulate_grad_hook(lambda p: [p.grad.mul_(0.5)].clear())",
            ("h{k}.remove()",)),
    Carrier("h{k} = {m}.register_forward_hook("
            "lambda m, i, o: tuple(x * 0.5 for x in o) if isinstance(o, tuple) else o * 0.5)",
            ("h{k}.remove()",)),
    Carrier("h{k} = {m}.register_full_backward_hook("
            "lambda m, i, o: seen.append(({k}, float(sum(g.sum() for g in o if g is not None)))))",
            ("h{k}.remove()",)),
    Carrier("h{k} = {p}.register_post_accumulate_grad_hook("
            "lambda p: [p.data.add_(p.grad, alpha=-0.05), p.grad.zero_()].clear())",
            ("h{k}.remove()",)),
    Carrier("h{k} = {m}.register_forward_hook("
            "lambda m, i, o: j{k}.append((o[0] if isinstance(o, tuple) else o).detach()))\n"
            "j{k} = []",
            ("h{k}.remove()", "j{k} = []", "for x in j{k}:\n    x.mul_(0.5)"), "j{k}"),
    Carrier("h{k} = {m}.register_forward_pre_hook(lambda m, i: (i[0] * 1, *i[1:]))",
            ("h{k}.remove()",)),
    Carrier("h{k} = {p}.register_hook(lambda g: (h{k}.remove(), g * 2)[1])", ("h{k}.remove()",)),
    Carrier("h{k} = {o}.register_step_post_hook(lambda *_: seen.append({k}))", ("h{k}.remove()",)),
    # graphs that are kept
    Carrier("z{k} = data({k}00, (3,), {t}, True)\ny{k} = (z{k} * 0.5).tanh() * z{k}",
            ("y{k}.sum().backward(retain_graph=True)",
             "(y{k} * y{k}).mean().backward(retain_graph=True)", "z{k}.grad = None",
             "y{k}.register_hook(lambda g: g * 0.5)", "y{k} = y{k} * 0.5 + z{k}",
             "g = torch.autograd.grad(y{k}[0], z{k}, retain_graph=True)[0]\n"
             "seen.append(({k}, g.sum().item()))",
             "with torch.no_grad():\n    y{k} += 1", "y{k}.retain_grad()"), "y{k}"),
    Carrier("z{k} = data({k}00, (4,), {t}, True)\nu{k} = torch.zeros(4, dtype={t})",
            ("u{k} = torch.tanh(u{k} * 0.5 + z{k})", "u{k} = torch.tanh(u{k} * z{k} + {p}.mean())",
             "u{k} = u{k}.detach()", "u{k} = torch.tanh(u{k} + {p}.detach().mean() * z{k})",
             "u{k}.sum().backward(retain_graph=True) if u{k}.requires_grad else 0",
             "u{k}.detach_()"), "u{k}.detach(), z{k}"),
    # averages, vectors of all parameters
    Carrier("e{k} = torch.optim.swa_utils.AveragedModel({m})",
            ("e{k}.update_parameters({m0})", "e{k}.update_parameters({m0})",
             "with torch.no_grad():\n    for q, p in zip(e{k}.parameters(), {m0}.parameters()):\n"
             "        p.copy_(q)"), "e{k}"),
    Carrier("f{k} = torch.nn.utils.parameters_to_vector({m}.parameters()).detach()",
            ("f{k}.mul_(0.9)", "f{k} = torch.nn.utils.parameters_to_vector({m0}.parameters())",
             "with torch.no_grad():\n    f{k} += 0.01"), "f{k}.detach()"),
    Carrier("f{k} = torch.nn.utils.parameters_to_vector({m}.parameters()).detach()",
            ("torch.nn.utils.vector_to_parameters(f{k}, {m0}.parameters())", "f{k}.mul_(0.9)"),
            "f{k}.detach()", kind="data swapped"),
    # parameters that come and go
    Carrier("", ("{p0}.data = {p0}.data * 0.9", "{p0}.data = data({k}00, {shape0}, {t})"),
            kind="data swapped"),
    Carrier("", ("{p0}.data = {p0}.detach().clone()",), kind="data swapped"),
    Carrier("", ("for p in params:\n    p.data = p.data + 0.01",
                 "if params[-1].shape == params[0].shape:\n"
                 "    params[0].data, params[-1].data = params[-1].data, params[0].data"),
            kind="data swapped"),
    Carrier("i{k} = torch.cat([p.detach().reshape(-1) for p in params])",
            ("at = 0\nfor p in params:\n    p.data = i{k}[at : at + p.numel()].view_as(p)\n"
             "    at += p.numel()", "i{k}.mul_(0.9)"), "i{k}", kind="data swapped"),
    Carrier("b{k} = data({k}00, (4,), {t}).numpy().copy()\n"
            "q{k} = torch.nn.Parameter(torch.from_numpy(b{k}))\n"
            "o{k} = torch.optim.SGD([q{k}], lr=0.1, momentum=0.5)",
            ("b{k} *= 0.9", "(q{k} * q{k}).sum().backward()\no{k}.step()\no{k}.zero_grad()",
             "b{k}[0] = 0.5\nq{k}.sum().backward()", "q{k}.data.add_(0.1)"), "b{k}, q{k}, o{k}"),
    Carrier("", ("{p0}.requires_grad_(False)", "{p0}.requires_grad_()",
                 "{p0}.requires_grad_(step % 2 == 0)")),
    Carrier("", ("{m0}.requires_grad_(False)", "{m0}.requires_grad_(True)",
                 "for p in {m0}.parameters():\n    p.requires_grad = step % 2 == 1")),
    Carrier("", ("{m0}.eval()", "{m0}.train()", "{m0}.train(step % 2 == 0)")),
    Carrier("", ("{m0}, {o0} = copy.deepcopy(({m0}, {o0}))",)),
    Carrier("q{k} = data({k}00, (3,), {t}, True)",
            ("if step == 1:\n    {o0}.add_param_group({{'params': [q{k}], 'lr': 0.01}})",
             "q{k}.grad = torch.ones_like(q{k}) * 0.5", "q{k}.sum().backward()"), "q{k}"),
)
#: What needs no carrier.
BETWEEN = (
    "with torch.no_grad():\n    {p}.mul_(0.9)", "with torch.no_grad():\n    {p} -= 0.05",
    "with torch.no_grad():\n    {p}[0] *= 0.5",
    "with torch.no_grad():\n    {p}.copy_(data({k}00 + step, {shape}, {t}))",
    "with torch.no_grad():\n    {p}.clamp_(-0.5, 0.5)",
    "with torch.no_grad():\n    {p}.div_({p}.norm() + 1)",
    "with torch.no_grad():\n    {p}.view(-1)[::2].mul_(0.5)",
    "with torch.no_grad():\n    {p}[{p}.abs() < 0.1] = 0",
    "{p}.data.mul_(0.9)", "{p}.data[0] = 0.1", "{p}.data.copy_(data({k}00, {shape}, {t}))",
    "{p}.detach().add_(0.05)", "torch.nn.init.constant_({p}, 0.2)",
    "{p}.grad = None", "if {p}.grad is not None:\n    {p}.grad.mul_(0.5)",
    "if {p}.grad is not None:\n    {p}.grad = {p}.grad.clone() * 2",
    "if {p}.grad is not None:\n    {p}.grad.zero_()",
    "if {p}.grad is not None:\n    {p}.grad[0] += 0.1",
    "{p}.grad = torch.ones_like({p}) * 0.1", "{p}.grad = data({k}00 + step, {shape}, {t})",
    "{o}.param_groups[0]['lr'] *= 0.7", "{o}.zero_grad()", "{o}.zero_grad(set_to_none=False)",
    "{o}.state.clear()", "{o}.step()", "{m}.zero_grad()",
    "with torch.inference_mode():\n    seen.append({p}.sum().item())",
    "with torch.no_grad():\n    scale = {p}.abs().max()\n    {p}.div_(1 + scale)",
    "try:\n    with torch.no_grad():\n        {p}.mul_(0.9)\n        {p}.view(-1, 1000)\n"
    "except RuntimeError as error:\n    caught(step, error)",
    "try:\n    {p}.detach()[torch.tensor([99])] = 1\nexcept IndexError as error:\n"
    "    caught(step, error)",
    "read({k}, {p})", "seen.append({p}.detach().sum().item())",
    "if bool(({p}.detach().sum() > 1e-3).item()):\n    seen.append(1)",
    "seen.append(len(repr({p}.detach())) > 5)", "seen.append(len({p}.tolist()))",
    "buffer = io.BytesIO()\ntorch.save({m}.state_dict(), buffer)\nbuffer.seek(0)\n"
    "{m}.load_state_dict(torch.load(buffer))",
)
# fmt: on


def carrier(s: Loop) -> None:
    """Something that is carried from step to step."""
    found = s.pick([c for c in CARRIERS if c.kind not in s.left_out])
    (weight, dims), module = s.weight(), s.pick(s.modules)
    optimiser, number = s.pick(s.optimisers), s.fresh()
    names = {
        "k": number, "p0": weight, "shape0": f"({', '.join(dims)},)", "m0": module,
        "o0": optimiser,
    }  # fmt: skip
    own = {"p": weight, "m": module, "o": optimiser}
    if found.setup:
        s.put(found.setup, **names, **own)
    texts = [found.between[s.integer(0, len(found.between) - 1)] for _ in range(s.integer(1, 2))]
    # Other weights may come into what is done between steps; they are drawn when the texts are.
    s.between += [s.filled(text, **names) for text in texts]
    if found.watched:
        s.watched += s.filled(found.watched, **names).split(", ")


def between(s: Loop, most: int) -> None:
    """What happens between two steps, in each turn or in some."""
    for _ in range(s.integer(0, most)):
        if s.between and not s.chance(3):
            text = s.pick(s.between)
        else:
            text = s.filled(s.pick(BETWEEN))
        when = s.pick(("", "", "if step % 2:", "if step == 2:", "if step:"))
        lines = text.split("\n")
        if when:
            s.emit(when)
        for line in lines:
            s.emit("    " * bool(when) + line)
