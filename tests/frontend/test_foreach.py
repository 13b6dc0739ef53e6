"""The `_foreach` functions: the values of an op on each tensor, and those of PyTorch."""

import numpy as np
import pytest

import wend
from wend._frontend.rare import foreach

PAIR = ([[0.25, 0.5, -0.75], [[0.125, 0.875]]], [[2.0, 0.5, 3.0], [[1.5, -2.0]]])
NUMBERS = [2.0, 3.0]


def lists(package, count, dtype=None):
    """Lists of two tensors; the third list is the first, reversed within each tensor."""
    given = [*PAIR, [row[::-1] for row in PAIR[0]]]
    return [[package.tensor(x, dtype=dtype) for x in rows] for rows in given[:count]]


def plain(found):
    return [np.asarray(x.detach().tolist()) for x in found]


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-7)


def both(call):
    """The values of a call with Wend, which are those of PyTorch where that is installed."""
    found = plain(call(wend))
    try:
        import torch
    except ImportError:
        return found
    same(found, plain(call(torch)))
    return found


@pytest.mark.parametrize("base", foreach.UNARY)
def test_functions_of_one_tensor(base):
    found = both(lambda t: getattr(t, f"_foreach_{base}")([x.abs() for x in lists(t, 1)[0]]))
    same(found, [getattr(wend, base)(x.abs()).numpy() for x in lists(wend, 1)[0]])

    def writes(package):
        given = [x.abs() for x in lists(package, 1)[0]]
        assert getattr(package, f"_foreach_{base}_")(given) is given
        return given

    same(found, both(writes))


def forms(package, base):
    """The second operands that a function takes."""
    found = [2.0, NUMBERS, lists(package, 2)[1]]
    return [*found, package.tensor(2.0)] if base in ("add", "mul", "div") else found


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize("base", foreach.BINARY)
def test_functions_of_two_tensors(base, form):
    if form >= len(forms(wend, base)):
        return
    found = both(
        lambda t: getattr(t, f"_foreach_{base}")(
            [x.abs() for x in lists(t, 1)[0]], forms(t, base)[form]
        )
    )
    pairs = zip(lists(wend, 1)[0], np.broadcast_to(np.arange(2), 2), strict=True)
    other = forms(wend, base)[form]
    others = other if isinstance(other, list) else [other, other]
    wanted = [
        getattr(wend.Tensor, foreach.BINARY[base])(x.abs(), others[k]).numpy() for x, k in pairs
    ]
    same(found, wanted)

    def writes(package):
        given = [x.abs() for x in lists(package, 1)[0]]
        getattr(package, f"_foreach_{base}_")(given, forms(package, base)[form])
        return given

    same(found, both(writes))


@pytest.mark.parametrize("scale", [None, 0.5, NUMBERS, "packed"])
@pytest.mark.parametrize("base", foreach.TERNARY)
def test_functions_of_three_tensors(base, scale):
    def call(package, writes=False):
        x, y, z = lists(package, 3)
        value = [] if scale is None else [package.tensor(NUMBERS) if scale == "packed" else scale]
        found = getattr(package, f"_foreach_{base}{'_' * writes}")(x, y, z, *value)
        return x if writes else found

    found = both(call)
    numbers = {"None": [1, 1], "0.5": [0.5, 0.5]}.get(str(scale), NUMBERS)
    op = getattr(wend, base)
    rows = zip(*lists(wend, 3), numbers, strict=True)
    same(found, [op(x, y, z, value=n).numpy() for x, y, z, n in rows])
    same(found, both(lambda t: call(t, True)))


def test_steps_between_two_lists():
    for weight in (0.25, [0.25, 0.75]):
        found = both(lambda t, w=weight: t._foreach_lerp(*lists(t, 2), w))
        weights = weight if isinstance(weight, list) else [weight] * 2
        rows = zip(*lists(wend, 2), weights, strict=True)
        same(found, [(x + w * (y - x)).numpy() for x, y, w in rows])
    both(lambda t: t._foreach_lerp(*lists(t, 3)))
    both(lambda t: t._foreach_lerp_(lists(t, 1)[0], lists(t, 2)[1], weight=0.5))


def test_scaled_sums_powers_of_numbers_and_named_operands():
    for name in ("_foreach_add", "_foreach_sub"):
        found = both(lambda t, n=name: getattr(t, n)(*lists(t, 2), alpha=3))
        sign = 3 if name == "_foreach_add" else -3
        same(found, [(x + sign * y).numpy() for x, y in zip(*lists(wend, 2), strict=True)])
    same(both(lambda t: t._foreach_pow(2.0, lists(t, 1)[0])), [np.exp2(x) for x in PAIR[0]])
    both(lambda t: t._foreach_add(self=lists(t, 1)[0], scalar=2))
    both(lambda t: t._foreach_mul(lists(t, 1)[0], scalars=NUMBERS))
    both(lambda t: t._foreach_div(lists(t, 1)[0], other=lists(t, 2)[1]))
    both(lambda t: t._foreach_addcmul(*lists(t, 3), value=2))


def test_reductions_copies_and_products():
    x = [np.asarray(row) for row in PAIR[0]]
    same(both(lambda t: t._foreach_norm(lists(t, 1)[0])), [np.sqrt((a * a).sum()) for a in x])
    same(both(lambda t: t._foreach_norm(lists(t, 1)[0], 1)), [np.abs(a).sum() for a in x])
    cubes = [(np.abs(a) ** 3).sum() for a in x]
    same(both(lambda t: t._foreach_powsum(lists(t, 1)[0], 3)), cubes)
    same(both(lambda t: t._foreach_max(lists(t, 1)[0])), [a.max() for a in x])
    same(both(lambda t: t._foreach_clone(lists(t, 1)[0])), x)
    same(both(lambda t: t._foreach_copy_(*lists(t, 2))), [np.asarray(row) for row in PAIR[1]])
    same(both(lambda t: t._foreach_zero_(lists(t, 1)[0])), [np.zeros_like(a) for a in x])
    squares = both(lambda t: t._foreach_mm([t.ones(2, 3)], [t.ones(3, 2)]))
    same(squares, [np.full((2, 2), 3.0)])


def test_gradients_pass_and_leaves_are_kept():
    x = [wend.ones(2, requires_grad=True), wend.ones(3, requires_grad=True)]
    total = sum(y.sum() for y in wend._foreach_mul(x, NUMBERS))
    total.backward()
    same([y.grad.numpy() for y in x], [np.full(2, 2.0), np.full(3, 3.0)])
    with pytest.raises(RuntimeError, match="leaf"):
        wend._foreach_mul_(x, 2.0)
    with wend.no_grad():
        wend._foreach_add_(x, [y.grad for y in x], alpha=-0.5)
    same(plain(x), [np.zeros(2), np.full(3, -0.5)])


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: wend._foreach_sqrt(3), TypeError, "'self' must be tuple of Tensors, not int"),
        (lambda x: wend._foreach_sqrt([1.0]), TypeError, "not one with float"),
        (lambda x: wend._foreach_sqrt([]), RuntimeError, "at least one tensor"),
        (lambda x: wend._foreach_sqrt(), TypeError, "missing 1 required argument: 'self'"),
        (lambda x: wend._foreach_add(x, [1.0]), RuntimeError, "same number of elements"),
        (lambda x: wend._foreach_add(x, x[:1]), RuntimeError, "the same number of tensors"),
        (lambda x: wend._foreach_add(x, x[0]), RuntimeError, "0-d scalar tensor. Got 1 dims"),
        (lambda x: wend._foreach_add(x, 2.0, alpha=3), TypeError, "alpha goes with tensors"),
        (lambda x: wend._foreach_add(x), TypeError, "misses a number"),
        (lambda x: wend._foreach_div(x, x, alpha=1), TypeError, "keyword argument 'alpha'"),
        (lambda x: wend._foreach_lerp(x, x[:1], 0.5), RuntimeError, "got 2 and 1"),
        (lambda x: wend._foreach_addcmul(x, x, x, wend.tensor(2.0)), RuntimeError, "dimension 1"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call([wend.ones(2), wend.ones(2)])
