"""torch.cond, while_loop, scan and associative_scan: values, gradients, errors, explored graphs."""

import numpy as np
import pytest

import wend as torch
from wend._dynamo.exc import UncapturedHigherOrderOpError
from wend._engine.transforms.exploring.program import Go
from wend._higher_order_ops import associative_scan, scan
from wend._higher_order_ops import map as map_slices
from wend.export import export


def with_cond(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() * x, lambda x: (x * x).cos(), (x,))


def with_while(x):
    def body(i, x):
        return i + 1, x * 1.5 - x.sin()

    return torch.while_loop(lambda i, x: i < 3, body, (0, x))[1]


def with_values(x):
    return torch.while_loop(
        lambda i, x: x.abs().sum() < 50, lambda i, x: (i + 1, x * 2), (0 * x[0], x)
    )


def with_scan(x):
    return scan(lambda c, x: (c * 0.5 + x.sin(), c * x), torch.zeros(2), x)


def with_prefixes(x):
    def combine(a, b):
        return a[0] * b[0], b[0] * a[1] + b[1]

    return associative_scan(combine, (x, x.cos()), 0, combine_mode="generic")


def with_map(x):
    return map_slices(lambda row: row.tanh() * 3, x)


BODIES = [with_cond, with_while, with_values, with_scan, with_prefixes, with_map]


def pytorchs(body):
    """The same function on PyTorch's names."""
    real = pytest.importorskip("torch")
    from torch._higher_order_ops import associative_scan, scan
    from torch._higher_order_ops import map as real_map

    space = {**body.__globals__, "torch": real, "scan": scan, "map_slices": real_map}
    space["associative_scan"] = associative_scan
    return type(body)(body.__code__, space)


def example(body):
    shape = (3,) if body in (with_cond, with_while, with_values) else (5, 2)
    return np.linspace(0.2, 1.3, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def leaves(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.slow  # PyTorch compiles these
@pytest.mark.parametrize("body", [with_cond, with_scan, with_map], ids=lambda f: f.__name__)
def test_values_and_gradients_equal_pytorchs(body):
    real = pytest.importorskip("torch")
    array = example(body)
    x, y = torch.tensor(array, requires_grad=True), real.tensor(array, requires_grad=True)
    found, wanted = leaves(body(x)), leaves(pytorchs(body)(y))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
    sum(a.sum() for a in found).backward()
    sum(b.sum() for b in wanted).backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "body", [b for b in BODIES if b is not with_scan], ids=lambda f: f.__name__
)
def test_second_gradients_are_those_of_differences(body):
    x = torch.tensor(example(body), dtype=torch.float64, requires_grad=True)

    def scalar(x):
        return sum((y * y).sum() for y in leaves(body(x)))

    assert torch.autograd.gradcheck(scalar, (x,))
    assert torch.autograd.gradgradcheck(scalar, (x,))


def test_second_gradients_of_a_scan():
    x = torch.tensor(example(with_scan), dtype=torch.float64, requires_grad=True)

    def run(x):
        carry, ys = scan(lambda c, x: (c * x, c + x.sin()), torch.ones(2, dtype=x.dtype), x)
        return carry.sum() + (ys * ys).sum()

    assert torch.autograd.gradgradcheck(run, (x,))


def n_turns(program):
    """How many ways lead back to an earlier or the same point."""
    return sum(
        isinstance(s.end, Go) and s.end.point <= point
        for point, _, s in program.program.stretches()
    )


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_explored_graphs_have_branches_and_loops(body):
    x = torch.tensor(example(body))
    program = export(body, (x,))
    assert len(program.program.points) > 1
    assert body is with_cond or n_turns(program) == 1
    run = program.module()
    for scale in (1.0, -0.3):
        for a, b in zip(leaves(run(x * scale)), leaves(body(x * scale)), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    if x.dim() == 2:
        longer = torch.randn(8, 2)
        for a, b in zip(leaves(run(longer)), leaves(body(longer)), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_onnx_models_have_if_and_loop(body):
    pytest.importorskip("onnx")
    written = torch.onnx.export(body, (torch.tensor(example(body)),), None)
    kinds = set()

    def visit(graph):
        for node in graph.node:
            kinds.add(node.op_type)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    visit(attribute.g)

    visit(written.model_proto.graph)
    assert ("If" if body is with_cond else "Loop") in kinds


def test_scan_along_a_dim_and_backwards():
    x = torch.arange(6.0).reshape(2, 3)
    carry, ys = scan(lambda c, x: (c + x, c + x), torch.zeros(2), x, dim=1, reverse=True)
    assert carry.tolist() == [3.0, 12.0]
    assert ys.tolist() == [[3.0, 3.0, 2.0], [12.0, 9.0, 5.0]]
    assert scan(lambda c, x: (c, x), x, []) == (x, [])


@pytest.mark.parametrize("n", range(1, 10))
@pytest.mark.parametrize("reverse", [False, True])
def test_prefixes_of_all_lengths(n, reverse):
    x = torch.arange(1.0, n + 1).reshape(1, n)
    found = associative_scan(lambda a, b: a + b, x, 1, reverse)
    wanted = x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1)
    assert found.tolist() == wanted.tolist()


def test_mapped_predicates():
    flags, x = torch.tensor([True, False]), torch.tensor([0.5, 0.5])
    found = torch.vmap(lambda p, x: torch.cond(p, torch.sin, torch.cos, (x,)))(flags, x)
    np.testing.assert_allclose(found.numpy(), [np.sin(0.5), np.cos(0.5)], rtol=1e-6)
    counts = torch.tensor([3, 5])
    turns = torch.vmap(
        lambda n: torch.while_loop(lambda i, n: i < n, lambda i, n: (i + 1, n), (0 * n, n))[0]
    )(counts)
    assert turns.tolist() == [3, 5]


def test_predicates_and_operands_of_all_forms():
    x = torch.ones(2)
    for pred in (True, 1, 0.5, torch.tensor([1.0]), torch.tensor([[True]])):
        given = ({"a": x, "b": [x, x]},)
        found = torch.cond(
            pred, lambda d: {"r": d["a"] + d["b"][0]}, lambda d: {"r": d["a"] * 1}, given
        )
        assert found["r"].tolist() == [2.0, 2.0]
    assert torch.cond(torch.tensor(False), lambda: x, lambda: x + 1).tolist() == [2.0, 2.0]
    found = torch.while_loop(
        lambda d: d["i"] < 3, lambda d: ({"i": d["i"] + 1},), ({"i": torch.tensor(0)},)
    )
    assert found[0]["i"].item() == 3


def test_a_loop_without_turns_gives_copies():
    x = torch.zeros(2)
    (y,) = torch.while_loop(lambda x: x.sum() > 1, lambda x: (x + 1,), (x,))
    y += 1
    assert x.tolist() == [0.0, 0.0]


P = torch.tensor(True)
X = torch.ones(3)

MISFITS = [
    lambda: torch.cond(P, lambda x: (x, x), lambda x: x.sin(), (X,)),
    lambda: torch.cond(P, lambda x: x.double(), lambda x: x.sin(), (X,)),
    lambda: torch.cond(P, lambda x: x.sum(), lambda x: x.sin(), (X,)),
    lambda: torch.cond(P, lambda x: {"a": x}, lambda x: {"b": x}, (X,)),
    lambda: torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.double()), (0, X)),
    lambda: torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x[1:]), (0, X)),
    lambda: torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1,), (0, X)),
    lambda: torch.while_loop(lambda i, x: i < 3, lambda i, x: i + 1, (0, X)),
    lambda: torch.while_loop(lambda i, x: x < 3, lambda i, x: (i + 1, x), (0, X)),
    lambda: torch.while_loop(lambda i, x: i, lambda i, x: (i + 1, x), (0, X)),
    lambda: scan(lambda c, x: c, torch.zeros(1), X),
    lambda: scan(lambda c, x: (c.double(), x), torch.zeros(()), X),
]


@pytest.mark.parametrize("call", MISFITS, ids=range(len(MISFITS)))
def test_results_that_do_not_fit(call):
    with pytest.raises(UncapturedHigherOrderOpError, match=r"must|combine_fn"):
        call()


WRONG = [
    lambda: torch.cond(torch.tensor([True, False]), torch.sin, torch.cos, (X,)),
    lambda: torch.cond("a", torch.sin, torch.cos, (X,)),
    lambda: torch.cond(P, 3, torch.cos, (X,)),
    lambda: torch.cond(P, torch.sin, torch.cos, X),
    lambda: torch.cond(P, torch.sin, torch.cos, (X, 2)),
    lambda: torch.while_loop(3, torch.cos, (X,)),
    lambda: torch.while_loop(torch.cos, torch.cos, X),
    lambda: torch.while_loop(lambda x: False, lambda x: x, (1.5,)),
    lambda: scan(lambda c, x: (c, x), [], X),
    lambda: scan(lambda c, x: (c, x), X, torch.zeros(0, 1)),
    lambda: scan(lambda c, x: (c, x), X, torch.tensor(1.0)),
    lambda: scan(3, X, X),
    lambda: scan(lambda c, x: (c, x), X, X, dim="a"),
]


@pytest.mark.parametrize("call", WRONG, ids=range(len(WRONG)))
def test_arguments_that_are_wrong(call):
    with pytest.raises(RuntimeError, match=r"cond|while_loop|scan"):
        call()


def test_the_other_branch_is_recorded_once_and_never_run():
    calls = []

    def other(x):
        calls.append(torch.compiler.is_compiling())
        return x.cos()

    for _ in range(3):
        torch.cond(torch.tensor(True), torch.sin, other, (X,))
    assert calls == [True]
