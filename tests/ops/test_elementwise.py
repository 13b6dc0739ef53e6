"""What the registry cannot know of elementwise ops: mixed operands, errors, edges of gradients."""

import itertools

import numpy as np
import pytest

import wend
from wend._engine.base import config
from wend._engine.base.errors import (
    ArgumentTypeError,
    DTypeError,
    ExecutionError,
    ShapeError,
    ValueRefused,
)
from wend._engine.core.primitive import ops
from wend._engine.ops.elementwise.selection import Where

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
INF, NAN = float("inf"), float("nan")


def both(make):
    """The same program run by both frameworks."""
    return make(wend), make(torch)


def agree(got, want, tolerance=1e-6):
    assert str(got.dtype) == str(want.dtype)
    assert tuple(got.shape) == tuple(want.shape)
    a, b = (
        np.asarray(t.detach().to(dtype=lib.float64).numpy())
        for t, lib in ((got, wend), (want, torch))
    )
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


# -- promotion ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DTYPES)
def test_promotion_of_tensors(name):
    """Every pair of dtypes, with dims and without."""
    for other, a, b in itertools.product(DTYPES, ([1, 2], 1), ([1, 2], 1)):
        got, want = both(
            lambda t, o=other, a=a, b=b: t.mul(
                t.tensor(a, dtype=getattr(t, name)), t.tensor(b, dtype=getattr(t, o))
            )
        )
        assert str(got.dtype) == str(want.dtype), (name, other, a, b)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("number", [True, 2, 2.5])
def test_promotion_of_numbers(name, number):
    for data in ([1, 2], 1):
        for op in ("mul", "div", "eq", "pow", "maximum_scalar"):
            if op == "maximum_scalar":

                def make(t, data=data):
                    return t.where(t.tensor(True), t.tensor(data, dtype=getattr(t, name)), number)
            elif op == "pow" and name == "bool" and number is True:
                continue
            else:

                def make(t, data=data, op=op):
                    return getattr(t, op)(t.tensor(data, dtype=getattr(t, name)), number)

            got, want = both(make)
            assert str(got.dtype) == str(want.dtype), (op, name, number, data)


def test_promotion_uses_the_default_dtype():
    x = wend.tensor([1, 2])
    assert (x * 2.5).dtype is wend.float32
    try:
        wend.set_default_dtype(wend.float64)
        assert (x * 2.5).dtype is wend.float64
        assert wend.sqrt(x).dtype is wend.float64
        assert wend.sqrt(x).tolist() == [1.0, 2.0**0.5]
    finally:
        wend.set_default_dtype(wend.float32)


@pytest.mark.parametrize("number", [-1, 300, -129, 2**31])
def test_ints_wrap_in_small_dtypes(number):
    for name in ("uint8", "int8", "int16"):
        for op in ("add", "mul", "eq", "lt"):
            got, want = both(
                lambda t, o=op, n=name: getattr(t, o)(
                    t.tensor([1, 127, 44], dtype=getattr(t, n)), number
                )
            )
            agree(got, want)


def test_a_zero_dim_tensor_gains_no_rank_in_a_batch():
    """Batched over float64 numbers, a float32 example stays float32."""
    prim = ops.maximum.primitive.of(("T", "T"))
    scalars, rows = wend.tensor([1.0, 5.0], dtype=wend.float64), wend.tensor([2.0, 3.0])
    got = prim.batch((True, False), 2, scalars, rows)
    assert got.dtype is wend.float32
    assert got.tolist() == [[2.0, 3.0], [5.0, 5.0]]


# -- numbers on the left, operators -------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        lambda t, x: 3 - x,
        lambda t, x: 3 / x,
        lambda t, x: 7 // x,
        lambda t, x: 7 % x,
        lambda t, x: 2**x,
        lambda t, x: 2.5 * x,
        lambda t, x: 1 + x,
        lambda t, x: -x,
        lambda t, x: abs(x),
        lambda t, x: x >= 1,
        lambda t, x: x != 2,
    ],
)
@pytest.mark.parametrize("name", ["int64", "float32"])
def test_operators(program, name):
    agree(*both(lambda t: program(t, t.tensor([1, -2, 3], dtype=getattr(t, name)))))


@pytest.mark.parametrize(
    "program",
    [
        lambda t, x: 5 & x,
        lambda t, x: x | 8,
        lambda t, x: 3 ^ x,
        lambda t, x: ~x,
        lambda t, x: 1 << x,
        lambda t, x: x >> 1,
        lambda t, x: x << 70,
        lambda t, x: x >> -1,
    ],
)
def test_bit_operators(program):
    agree(*both(lambda t: program(t, t.tensor([1, -2, 3]))))


def test_in_place_keeps_the_dtype_and_the_handle():
    x = wend.tensor([1.0, 2.0])
    y = x
    assert x.add_(1) is x
    x += 1
    x.sub_(wend.tensor(1), alpha=2).mul_(3).div_(2).clamp_(max=2)
    assert y.tolist() == [1.5, 2.0]
    assert wend.tensor([1.0]).double().add_(wend.tensor([1])).dtype is wend.float64
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        wend.tensor([1, 2]).add_(1.5)


# -- forms of call ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        lambda t, x: t.add(x, x, alpha=3),
        lambda t, x: x.add(2, alpha=3),
        lambda t, x: x.add(2, x),
        lambda t, x: t.sub(x, 1, alpha=2),
        lambda t, x: t.rsub(x, 5),
        lambda t, x: t.div(x, 2, rounding_mode="floor"),
        lambda t, x: t.div(x, 2, rounding_mode="trunc"),
        lambda t, x: t.div(x, 2, rounding_mode=None),
        lambda t, x: x.true_divide(4),
        lambda t, x: t.clamp(x, min=0),
        lambda t, x: t.clamp(x, -1, 0.5),
        lambda t, x: x.clip(max=t.tensor([1, 0, 1])),
        lambda t, x: t.clamp_min(x, 0.5),
        lambda t, x: x.clamp_max(t.tensor(1)),
        lambda t, x: t.addcmul(x, x, x, value=2),
        lambda t, x: t.where(x > 0, x, 0),
        lambda t, x: x.where(x > 0, -x),
        lambda t, x: t.where(x > 0, 1.5, x),
        lambda t, x: t.where(x > 0, 1, 2),
        lambda t, x: t.where(x > 0, True, False),
        lambda t, x: t.where(x > 0, 1, 2.0),
        lambda t, x: t.square(x > 0),
        lambda t, x: t.xlogy(2.0, x),
        lambda t, x: t.float_power(x, 2),
        lambda t, x: t.isclose(x, x + 0),
        lambda t, x: t.nan_to_num(x / 0, 1.0, 2.0),
        lambda t, x: t.polygamma(1, x + 5.0),
    ],
)
@pytest.mark.parametrize("name", ["int64", "float32", "float64"])
def test_forms_of_call(program, name):
    agree(*both(lambda t: program(t, t.tensor([1, -2, 3], dtype=getattr(t, name)))), 1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_negative_number_is_no_power_of_bytes(compiled):
    """Nor after others were, for which the call was bound."""
    with config.override(compile=compiled, wait=compiled):
        x = wend.tensor([1, 2, 3], dtype=wend.uint8)
        assert (x**7).tolist() == [1, 128, 139]
        for exponent in (-1, -7):
            with pytest.raises(ExecutionError, match="negative integer powers"):
                (x**exponent).tolist()


@pytest.mark.parametrize("dtype", [wend.float16, wend.bfloat16, wend.float32])
@pytest.mark.parametrize("other", [0.1, wend.tensor(0.1), wend.tensor(0.1, dtype=wend.float64)])
def test_comparisons_round_numbers_to_the_common_type(dtype, other):
    x = wend.tensor([0.1, 0.2, -0.1], dtype=dtype)
    assert (x == other).tolist() == [True, False, False]
    assert (x >= other).tolist() == [True, True, False]
    assert (other > x).tolist() == [False, False, True]
    assert (x != other).tolist() == [False, True, True]
    assert x.lt(other).tolist() == [False, False, True]


@pytest.mark.parametrize("name", ["xlogy", "logaddexp2", "ldexp"])
@pytest.mark.parametrize("other", ["int8", "uint8", "int64", "bfloat16", "float32", "float64"])
def test_compositions_compute_in_the_common_type(name, other):
    """A half with ints gives halves; with a wider type, nothing is rounded to halves on the way."""

    def program(t):
        x, y = t.tensor([1.0, 2.5], dtype=t.float16), t.tensor([3, 7], dtype=getattr(t, other))
        return getattr(t, name)(x, y), getattr(t, name)(y, x)

    for mine, theirs in zip(*both(program), strict=True):
        agree(mine, theirs, 1e-2 if mine.dtype.itemsize == 2 else 1e-6)


# -- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (lambda t: t.ones(3, 4) * t.ones(3, 5), ShapeError, r"mul: shapes \(3, 4\) and \(3, 5\)"),
        (lambda t: t.tensor([True]) - t.tensor([True]), DTypeError, "logical_xor"),
        (lambda t: t.tensor([True]) - 1, DTypeError, "sub: subtraction"),
        (lambda t: t.tensor([1.5]) - True, DTypeError, "sub: subtraction"),
        (lambda t: True - t.tensor([1]), DTypeError, "sub: subtraction"),
        (lambda t: -t.tensor([True]), DTypeError, "neg: negation"),
        (lambda t: t.tensor([1.0]) & t.tensor([1.0]), DTypeError, "bitwise_and: not implemented"),
        (lambda t: t.tensor([1]) << 1.0, DTypeError, "bitwise_left_shift: not implemented"),
        (lambda t: t.tensor([True]) ** t.tensor([True]), DTypeError, "pow: not implemented"),
        (lambda t: t.add(t.tensor([1]), 1, alpha=1.5), DTypeError, "alpha must not be a floating"),
        (lambda t: t.add(t.tensor([1]), 1, alpha=True), DTypeError, "boolean alpha"),
        (lambda t: t.clamp(t.ones(2)), ValueRefused, "at least one of 'min' or 'max'"),
        (lambda t: t.div(t.ones(2), 2, rounding_mode="up"), ValueRefused, "'trunc', or 'floor'"),
        (lambda t: t.where(t.ones(2), 1, 2), DTypeError, "condition to be a boolean tensor"),
        (lambda t: t.frac(t.tensor([1])), DTypeError, "frac: not implemented for torch.int64"),
        (lambda t: t.hypot(t.tensor([1]), t.tensor([1])), DTypeError, "hypot: not implemented"),
        (lambda t: t.round(t.tensor([1]), decimals=1), DTypeError, "round: decimals"),
        (lambda t: t.addcdiv(*[t.tensor([4])] * 3), DTypeError, "addcdiv: integer division"),
        (lambda t: t.tensor([1]) // 0, ExecutionError, "ZeroDivisionError"),
        (lambda t: t.tensor([1]) % t.tensor([0]), ExecutionError, "ZeroDivisionError"),
        (lambda t: t.fmod(t.tensor([1]), 0), ExecutionError, "ZeroDivisionError"),
        (lambda t: t.tensor([2]) ** -1, ExecutionError, "Integers to negative integer powers"),
        (lambda t: t.isclose(t.ones(1), t.tensor([1])), DTypeError, "did not match"),
        (lambda t: t.mul(t.ones(1), None), ArgumentTypeError, "must be Tensor or number"),
        (lambda t: t.tanh("x"), ArgumentTypeError, "argument 'input' must be Tensor, not str"),
    ],
)
def test_errors(program, error, message):
    with pytest.raises(error, match=message):
        program(wend).tolist()
    with pytest.raises((RuntimeError, TypeError, ValueError)):  # PyTorch refuses as well
        program(torch)


def test_division_of_nothing_by_zero_is_no_error():
    assert (wend.tensor([], dtype=wend.int64) // 0).tolist() == []


def test_dividing_ints_by_zero_in_floats_is_no_error():
    assert (wend.tensor([1, -1]) / 0).tolist() == [INF, -INF]


# -- edges of gradients ---------------------------------------------------------------------------

EDGES = [-INF, -2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, INF, NAN]


@pytest.mark.parametrize(
    "program",
    [
        lambda t, x: t.abs(x),
        lambda t, x: t.relu(x),
        lambda t, x: t.sign(x),
        lambda t, x: t.sqrt(x),
        lambda t, x: t.rsqrt(x),
        lambda t, x: t.reciprocal(x),
        lambda t, x: t.clamp(x, 0, 1),
        lambda t, x: t.clamp(x, min=0.5),
        lambda t, x: t.clamp(x, 1, 0),
        lambda t, x: x**0,
        lambda t, x: x**1,
        lambda t, x: x**2,
        lambda t, x: x**0.5,
        lambda t, x: x**-1,
        lambda t, x: 2**x,
        lambda t, x: 0**x,
        lambda t, x: t.floor(x),
        lambda t, x: t.sinc(x),
        lambda t, x: t.nan_to_num(x),
        lambda t, x: t.tanh(x),
        lambda t, x: t.sigmoid(x),
        lambda t, x: t.log(x),
        lambda t, x: t.where(x > 0, x, 0),
    ],
)
def test_gradients_at_edges_of_one(program):
    def make(t):
        x = t.tensor(EDGES, dtype=t.float64, requires_grad=True)
        program(t, x).sum().backward()
        return x.grad

    agree(*both(make))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_changing_number_of_a_half_means_the_root(dtype):
    """The exponent is a run-time number here; a power and a root differ at -0.0 and -inf."""

    def make(t, exponent):
        x = t.tensor(EDGES, dtype=getattr(t, dtype), requires_grad=True)
        y = x**exponent * 2
        y.sum().backward()
        return t.stack([y.detach(), x.grad, 1 / y.detach()])

    for exponent in [3.5, 2.5, 1.5, 0.5, -0.5] * 3:
        agree(*both(lambda t, exponent=exponent: make(t, exponent)))


A = [0.0, 1.0, 0.0, -2.0, 3.0, 0.0, 2.0]
B = [0.0, 1.0, 2.0, 2.0, -3.0, -1.0, 0.0]


@pytest.mark.parametrize(
    "program",
    [
        lambda t, x, y: x**y,
        lambda t, x, y: t.maximum(x, y),
        lambda t, x, y: t.minimum(x, y),
        lambda t, x, y: t.fmax(x, y),
        lambda t, x, y: t.fmin(x, y),
        lambda t, x, y: t.copysign(x, y),
        lambda t, x, y: t.hypot(x, y),
        lambda t, x, y: t.atan2(x, y),
        lambda t, x, y: t.fmod(x, y),
        lambda t, x, y: t.remainder(x, y),
        lambda t, x, y: t.logaddexp(x, y),
        lambda t, x, y: x / y,
        lambda t, x, y: t.clamp(x, y, y * 0 + 1),
        lambda t, x, y: t.div(x, y, rounding_mode="floor"),
        lambda t, x, y: t.nextafter(x, y),
    ],
)
def test_gradients_at_edges_of_two(program):
    def make(t):
        x = t.tensor(A, dtype=t.float64, requires_grad=True)
        y = t.tensor(B, dtype=t.float64, requires_grad=True)
        program(t, x, y).sum().backward()
        return t.stack([x.grad, y.grad])

    agree(*both(make))


def test_gradients_of_mixed_dtypes_and_shapes():
    def make(t):
        x = t.tensor([[1.0], [2.0]], dtype=t.float16, requires_grad=True)
        y = t.tensor([3.0, 4.0, 5.0], dtype=t.float64, requires_grad=True)
        z = t.tensor(2.0, dtype=t.float32, requires_grad=True)
        (x * y / z).sum().backward()
        return x.grad, y.grad, z.grad

    for got, want in zip(*both(make), strict=True):
        agree(got, want, 1e-3)


@pytest.mark.parametrize(
    "program",
    [
        lambda t, x: x + 1,
        lambda t, x: x - x,
        lambda t, x: x * 2,
        lambda t, x: x / 2,
        lambda t, x: -x,
        lambda t, x: x**2,
        lambda t, x: t.exp(x),
        lambda t, x: t.log1p(x),
        lambda t, x: t.where(x > 0, x, x),
        lambda t, x: t.clamp(x, 0, 1),
        lambda t, x: t.relu(x),
        lambda t, x: t.sigmoid(x),
        lambda t, x: t.atan2(x, x),
        lambda t, x: x.double(),
    ],
)
def test_grad_fn_names(program):
    got, want = both(lambda t: program(t, t.tensor([1.0], requires_grad=True)))
    assert type(got.grad_fn).__name__.rstrip("0123456789") == (
        type(want.grad_fn).__name__.rstrip("0123456789")
    )


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int64", "float32", "float64", "complex128"])
@pytest.mark.parametrize("number", [0, -0.0, 3, "tensor"])
def test_large_choices_are_those_of_numpy(dtype, number):
    rng = np.random.default_rng(0)
    condition, rare = (rng.random((70, 90)) < share for share in (0.5, 0.01))
    odd = np.array([0.0, -0.0, NAN, INF, 1.0])
    x, y = (rng.choice(odd if "f" in dtype else odd[[0, 4]], (70, 90)).astype(dtype) for _ in "xy")
    x = x if number == "tensor" else np.dtype(dtype).type(number)
    rule = Where.formula[0]
    forms = [
        (condition, x, y),
        (condition[:1], x, y),
        (condition, x, y[0]),
        (condition.T.copy().T, x, y),
        (np.zeros_like(condition), x, y),
        (rare, x, y),
        (rare[0], x, y),
        (condition.astype(np.uint8), x, y),
    ]
    for form in forms:
        want = np.where(*form)
        got = rule(None, *form)
        assert got.dtype == want.dtype and got.shape == want.shape
        assert got.tobytes() == want.tobytes()
    for choice in (condition, rare):
        over = y.copy()
        assert rule(None, choice, x, over, out=over).tobytes() == np.where(choice, x, y).tobytes()
