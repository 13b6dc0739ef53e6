"""vmap: dims, structures, errors, randomness, in-place ops, nesting; against PyTorch and loops."""

from collections import namedtuple

import numpy as np
import pytest
from both import compare

import wend
import wend.func
from wend._engine.base.errors import ArgumentError, GraphError
from wend._engine.transforms import batch
from wend.func import vmap

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
M = rng.normal(size=(3, 4))
Pair = namedtuple("Pair", "first second")


def write_through_views(a, b):
    c = a.clone()
    c[0] = b[1]
    c[1:].mul_(2)
    c.view(3, 1)[2, 0].add_(b[0])
    return c


CASES = {
    "two operands": lambda T, F, x, y, m: F.vmap(T.dot)(x, y),
    "a layer": lambda T, F, x, y, m: F.vmap(lambda a: T.tanh(a @ m).softmax(-1))(x),
    "one operand only": lambda T, F, x, y, m: F.vmap(lambda a, b: (a @ b).sum(), (0, None))(x, m),
    "in_dims and out_dims": lambda T, F, x, y, m: F.vmap(lambda a: a * 2, in_dims=1, out_dims=-1)(
        x
    ),
    "negative dims": lambda T, F, x, y, m: F.vmap(lambda a, b: a @ b, (-2, -1), -1)(x, x.T),
    "nested": lambda T, F, x, y, m: F.vmap(lambda a: F.vmap(lambda b: T.dot(a, b))(y))(x),
    "thrice": lambda T, F, x, y, m: F.vmap(F.vmap(F.vmap(T.sin)))(x.reshape(5, 3, 1)),
    "inner unbatched": lambda T, F, x, y, m: F.vmap(lambda a: F.vmap(lambda b: b * 2)(y) + a)(x),
    "dicts": lambda T, F, x, y, m: F.vmap(
        lambda d: {"sum": d["a"] + d["b"][0], "const": T.ones(2)}, ({"a": 0, "b": None},)
    )({"a": x, "b": [y[0]]}),
    "a named tuple": lambda T, F, x, y, m: F.vmap(lambda p: p.first + p.second)(Pair(x, y)),
    "several results": lambda T, F, x, y, m: F.vmap(
        lambda a: (a, [a.sum(), a[:2]]), out_dims=(0, [0, 1])
    )(x),
    "a result that is the same for all": lambda T, F, x, y, m: F.vmap(
        lambda a: (a, m), out_dims=(0, None)
    )(x),
    "views": lambda T, F, x, y, m: F.vmap(lambda a: a.reshape(3, 1).expand(3, 2).T[0].unsqueeze(0))(
        x
    ),
    "where": lambda T, F, x, y, m: F.vmap(lambda a, b: T.where(a.sum() > 0, a * 2, b - 1))(x, y),
    "chunks": lambda T, F, x, y, m: F.vmap(T.dot, chunk_size=2)(x, y),
    "chunks elsewhere": lambda T, F, x, y, m: F.vmap(lambda a: a * 2, 1, 1, chunk_size=2)(x),
    "in place": lambda T, F, x, y, m: F.vmap(lambda a, b: a.clone().mul_(b).add_(1))(x, y),
    "in place through views": lambda T, F, x, y, m: F.vmap(write_through_views)(x, y),
    "an index for each": lambda T, F, x, y, m: F.vmap(lambda a, i: a[i])(
        x, T.tensor([0, 1, 2, 0, 1])
    ),
    "promotion of 0-d tensors": lambda T, F, x, y, m: F.vmap(lambda a, b: a + b)(
        T.tensor([1, 2, 3]), T.tensor([[1.5], [2.5], [3.5]])
    ),
    "ints with floats of no dim": lambda T, F, x, y, m: F.vmap(lambda a, b: a * b)(
        T.tensor([[1, 2], [3, 4]]), x[:2, 0]
    ),
    "one example": lambda T, F, x, y, m: F.vmap(lambda a: (a @ m).relu())(x[:1]),
    "keyword arguments are not mapped": lambda T, F, x, y, m: F.vmap(lambda a, b: a @ b)(x, b=m),
    "reductions": lambda T, F, x, y, m: F.vmap(
        lambda a: (a.max(), a.argmax(), a.std(), a.cumsum(0))
    )(x),
    "sorting": lambda T, F, x, y, m: F.vmap(lambda a: T.sort(a))(x)[0],
    "convolution": lambda T, F, x, y, m: F.vmap(T.nn.functional.conv1d)(
        x.reshape(5, 1, 1, 3), y[:, :2].reshape(5, 1, 1, 2)
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_torch(case):
    compare(CASES[case], X, Y, M)


@pytest.mark.smoke
@pytest.mark.parametrize("size", [0, 1, 4])
def test_agrees_with_a_loop(size):
    x = wend.randn(size, 3)
    w = wend.randn(3, 2)

    def layer(a):
        return wend.softmax(a @ w, -1)

    got = vmap(layer)(x)
    assert got.shape == (size, 2)
    if size:
        np.testing.assert_allclose(
            got.numpy(), wend.stack([layer(a) for a in x]).numpy(), rtol=1e-6
        )


def test_python_runs_once():
    calls = []
    vmap(lambda a: calls.append(tuple(a.shape)) or a * 2)(wend.ones(4, 3))
    assert calls == [(3,)]


def test_sizes_do_not_make_new_patterns():
    """The batching rule of an op is traced once; another number of examples reuses it."""

    def run(n, m):
        mapped = vmap(lambda a, b: wend.softmax(a * b + 1, -1))
        mapped(wend.ones(n, m), wend.ones(n, m)).sum().item()

    def patterns():
        return {p: sum(map(len, p.programs.values())) for p in batch._BATCHED.values()}

    run(4, 3)
    before = patterns()
    run(7, 5)
    assert patterns() == before


def test_gradients_flow_out():
    w = wend.ones(3, requires_grad=True)
    x = wend.arange(6.0).reshape(2, 3)
    vmap(lambda a: (a * w).sum())(x).sum().backward()
    assert w.grad.tolist() == [3.0, 5.0, 7.0]
    x.requires_grad_()
    vmap(lambda a: (a * a).sum())(x).sum().backward()
    assert x.grad.tolist() == (2 * x).tolist()


def test_modules_can_be_mapped():
    layer = wend.nn.Linear(3, 2)
    x = wend.randn(4, 3)
    np.testing.assert_allclose(
        vmap(layer)(x).detach().numpy(), layer(x).detach().numpy(), rtol=1e-5
    )


def test_printing_inside_shows_the_shape():
    seen = []
    vmap(lambda a: seen.append(repr(a)) or a)(wend.ones(4, 3))
    assert "size=(3,)" in seen[0]
    w = wend.ones(3, requires_grad=True)
    vmap(lambda a: seen.append(repr(a * w)) or a)(wend.ones(4, 3))
    assert "MulBackward0" in seen[1]


# -- errors ---------------------------------------------------------------------------------


def test_writing_into_a_tensor_from_outside():
    total = wend.zeros(3)
    with pytest.raises(GraphError, match=r"of shape \(3,\)"):
        vmap(lambda a: total.add_(a))(wend.ones(4, 3))
    assert total.tolist() == [0.0, 0.0, 0.0]
    made = vmap(lambda a: wend.zeros(3).add_(a))(wend.ones(4, 3))
    assert made.tolist() == [[1.0] * 3] * 4


def test_an_error_inside_leaves_everything_as_it_was():
    total = wend.zeros(3)

    def function(a):
        total.add_(a)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        vmap(function)(wend.ones(4, 3))
    assert (total + 1).tolist() == [1.0, 1.0, 1.0]


def test_tensors_cannot_escape():
    kept = []
    vmap(lambda a: kept.append(a) or a)(wend.ones(4, 3))
    with pytest.raises(GraphError, match="after the function has returned"):
        (kept[0] + 1).sum().item()


def test_values_from_outside_can_be_read():
    w = wend.ones(3)
    got = vmap(lambda a: a * 2 if w.sum() > 0 else a)(wend.ones(4, 3))
    assert got.tolist() == [[2.0] * 3] * 4


def test_shape_errors_speak_of_one_example():
    with pytest.raises(RuntimeError, match=r"\(3,\) and \(4,\)"):
        vmap(lambda a: a + wend.ones(4))(wend.ones(5, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vmap(wend.sin)(), "no arguments"),
        (lambda: vmap(wend.sin, in_dims=None), "in_dims is an int or a tuple"),
        (lambda: vmap(wend.sin, in_dims=(None,))(wend.ones(3)), "no argument at all"),
        (lambda: vmap(wend.sin, in_dims=1)(wend.ones(3)), "in_dims has 1 for a tensor of 1 dims"),
        (lambda: vmap(wend.sin)(wend.tensor(1.0)), "a tensor of 0 dims"),
        (lambda: vmap(wend.add)(wend.ones(3), wend.ones(4)), r"unlike sizes \[3, 4\]"),
        (lambda: vmap(wend.add)(wend.ones(3), 2.0), "give None for it"),
        (lambda: vmap(wend.add, in_dims=(0, 0, 0))(wend.ones(3), wend.ones(3)), "do not fit"),
        (lambda: vmap(lambda a: (a, a), out_dims=(0, 0, 0))(wend.ones(3)), "do not fit"),
        (lambda: vmap(lambda a: a, out_dims=None)(wend.ones(3)), "differs from example to example"),
        (lambda: vmap(lambda a: 1)(wend.ones(3)), "must return tensors only"),
        (lambda: vmap(wend.sin, randomness="some"), "randomness"),
        (lambda: vmap(wend.sin, chunk_size=0), "chunk_size"),
    ],
)
def test_bad_calls(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()


def test_out_dims_beyond_the_rank():
    with pytest.raises(IndexError):
        vmap(lambda a: a, out_dims=2)(wend.ones(3))


# -- random numbers -------------------------------------------------------------------------


def test_random_numbers_are_an_error_unless_asked_for():
    with pytest.raises(GraphError, match="randomness='different'"):
        vmap(lambda a: a + wend.rand(3))(wend.zeros(4, 3))


def test_different_and_same_random_numbers():
    x = wend.zeros(4, 3)
    same = vmap(lambda a: a + wend.rand(3), randomness="same")(x)
    assert all(row == same.tolist()[0] for row in same.tolist())
    other = vmap(lambda a: a + wend.rand(3), randomness="different")(x).tolist()
    assert len({tuple(row) for row in other}) == 4


def test_different_numbers_are_not_drawn_again_later():
    wend.manual_seed(0)
    drawn = vmap(lambda a: a + wend.rand(3), randomness="different")(wend.zeros(4, 3))
    later = wend.rand(50)
    assert not set(drawn.flatten().tolist()) & set(later.tolist())
    wend.manual_seed(0)
    again = vmap(lambda a: a + wend.rand(3), randomness="different")(wend.zeros(4, 3))
    assert again.tolist() == drawn.tolist()


def test_dropout_of_each_example():
    x = wend.ones(6, 40)

    def drop(a):
        return wend.nn.functional.dropout(a, 0.5)

    other = vmap(drop, randomness="different")(x).tolist()
    assert len({tuple(row) for row in other}) > 1
    assert {v for row in other for v in row} == {0.0, 2.0}
    same = vmap(drop, randomness="same")(x).tolist()
    assert len({tuple(row) for row in same}) == 1


def test_draws_that_depend_on_the_example():
    rates = wend.tensor([[0.0] * 5, [3.0] * 5, [1000.0] * 5])
    drawn = vmap(wend.poisson, randomness="different")(rates)
    assert drawn[0].tolist() == [0.0] * 5
    assert drawn[2].min().item() > 800
    with pytest.raises(GraphError, match="different"):
        vmap(wend.poisson, randomness="same")(rates)
