"""Expressions of a fixed form: the text, and the dims of the result from those of the operand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scope import LOW, OPAQUE, Dims, Scope, Value, plus, times

# {x}: the operand; {s}: near it, but nothing hangs on rounding; {i}: indices into its first dim
# fmt: off
VECTORS: tuple[tuple[str, Callable[[str], Dims]], ...] = (
    ("torch.outer({x}, {x})", lambda a: (a, a)),
    ("{x}[{s} > 0.25]", lambda a: (OPAQUE,)),
    ("torch.meshgrid({x}, {x}, indexing='ij')[1].neg()", lambda a: (a, a)),
    ("torch.diag({x})", lambda a: (a, a)),
    ("torch.func.grad(lambda t: (t ** 3).sum())({x})", lambda a: (a,)),
    ("F.conv1d({x}[None, None], torch.full((1, 1, 3), 0.5, dtype={x}.dtype), padding=1)[0]",
     lambda a: ("1", a)),
    ("torch.nn.functional.pad({x}, (1, 2), value=0.5)", lambda a: (plus(a, "3"),)),
    ("torch.dot({x}, {x} + 1)", lambda a: ()),
    ("torch.take({x}, {i})", lambda a: ("2",)),
)
MATRICES: tuple[tuple[str, Callable[[str, str], Dims]], ...] = (
    ("F.pad({x}, (1, 0, 0, 2), value=0.5)", lambda a, b: (plus(a, "2"), plus(b, "1"))),
    ("torch.addmm({x}, {x}, {x}.mT @ {x}, alpha=0.05)", lambda a, b: (a, b)),
    # PyTorch's lies turned, so that `reshape` of it is no view.
    ("torch.rot90({x}).contiguous()", lambda a, b: (b, a)),
    # PyTorch's kron does not notice that its operand is written to before backward.
    ("(torch.kron({x} + 0, {x} + 0) * 0.1)", lambda a, b: (times(a, a), times(b, b))),
    ("{s}.topk(1, 1).values", lambda a, b: (a, "1")),
    ("{x}.gather(1, {s}.argsort(1))", lambda a, b: (a, b)),
    ("{x}.masked_select({s} > 0.25)", lambda a, b: (OPAQUE,)),
    ("{x}[{s}.sum(1) > 0.25]", lambda a, b: (OPAQUE, b)),
    ("{x}[{i}, 1:]", lambda a, b: ("2", f"({b} - 1)")),
    ("{x}[..., None, :][{i}]", lambda a, b: ("2", "1", b)),
    ("F.cosine_similarity({x}, {x} * {x} + 1, dim=1)", lambda a, b: (a,)),
    ("F.embedding({i}, {x})", lambda a, b: ("2", b)),
    ("torch.cat([{x}, {x}.flip(0)], 1)", lambda a, b: (a, times("2", b))),
    ("torch.stack(({x}, {x}.detach()), -1)", lambda a, b: (a, b, "2")),
    ("(torch.tril({x}) @ {x}.mT * 0.2)", lambda a, b: (a, a)),
    ("torch.einsum('ij,kj->ik', {x}, {x})", lambda a, b: (a, a)),
    ("F.glu(torch.cat([{x}, {x}], 1), 1)", lambda a, b: (a, b)),
    ("torch.trapezoid(F.pad({x}, (1, 1)), dim=1)", lambda a, b: (a,)),
    ("torch.diag_embed({x})", lambda a, b: (a, b, b)),
    ("{x}.logsumexp(0).cumsum(0)", lambda a, b: (b,)),
    ("torch.func.vmap(lambda t: t.tanh().sum())({x})", lambda a, b: (a,)),
    ("torch.func.vmap(torch.func.grad(lambda t: (t * t * t).sum()))({x})", lambda a, b: (a, b)),
    ("torch.linalg.norm({s} * {s} + 1, dim=0)", lambda a, b: (b,)),
    ("sum({x}.unbind(0), torch.zeros({b}, dtype={x}.dtype))", lambda a, b: (b,)),
    ("{x}.sum(0).expand_as({x}).neg()", lambda a, b: (a, b)),
    ("torch.block_diag({x}, {x})", lambda a, b: (times("2", a), times("2", b))),
    ("F.smooth_l1_loss({s}, {x}.detach(), reduction='none')", lambda a, b: (a, b)),
    ("F.kl_div(F.log_softmax({x}, 1), torch.softmax({x}, 1), reduction='sum')", lambda a, b: ()),
    ("torch.utils.checkpoint.checkpoint(lambda t: torch.tanh(t * t), {x}, use_reentrant=False)",
     lambda a, b: (a, b)),
)
STACKS: tuple[tuple[str, Callable[[str, str, str], Dims]], ...] = (
    ("torch.bmm({x}, {x}.mT)", lambda a, b, c: (a, b, b)),
    ("F.max_pool1d({s}, 3, 1, 1)", lambda a, b, c: (a, b, c)),
    ("F.group_norm({x}.repeat(1, 2, 1), 2, eps=0.1)", lambda a, b, c: (a, times("2", b), c)),
    ("{x}.transpose(0, 1).reshape({b}, -1).neg()", lambda a, b, c: (b, times(a, c))),
    ("torch.einsum('bij,bik->jk', {x}, {x})", lambda a, b, c: (c, c)),
    ("{x}[:, {i} % {b}, ..., ::2]", lambda a, b, c: (a, "2", f"(({c} + 1) // 2)")),
    ("({x} - {x}.amax((0, 2), keepdim=True).detach()).exp().sum((0, 2))", lambda a, b, c: (b,)),
    ("torch.tensordot({x}, {x}, dims=([0, 2], [0, 2]))", lambda a, b, c: (b, b)),
)
# fmt: on


def compound(s: Scope) -> Value:
    """One of the forms above, of a variable."""
    rank = s.pick((2, 2, 1, 3))
    text, dims = s.pick((VECTORS, MATRICES, STACKS)[rank - 1])
    x = s.a_float(rank)
    if x.dtype in LOW:
        x = replace(x, text=f"{x.text}.float()", dtype="float32")
        s.dtypes.add("float32")
    steady = s.steady(x).text if "{s}" in text else ""
    index = s.index(("2",), x.dims[0]).text if "{i}" in text else ""
    size = x.dims[1] if rank > 1 else ""
    text = text.format(x=x.text, s=steady, i=index, b=size)
    bound = min(x.bound * x.bound + 30, 200)
    return Value(text, x.dtype, dims(*x.dims), bound, x.grad)
