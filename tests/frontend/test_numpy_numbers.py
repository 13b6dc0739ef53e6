"""NumPy's numbers beside tensors: results and their dtypes are PyTorch's."""

import operator

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")

NUMBERS = {
    "float64": np.float64(2.5),
    "float32": np.float32(2.5),
    "float16": np.float16(2.5),
    "int64": np.int64(3),
    "int32": np.int32(3),
    "uint8": np.uint8(3),
    "bool": np.bool_(True),
}
TENSORS = {
    "float32": [1.0, 2.5],
    "float64": [1.0, 2.5],
    "float16": [1.0, 2.5],
    "bfloat16": [1.0, 2.5],
    "int64": [3, 4],
    "int32": [3, 4],
    "uint8": [3, 4],
    "bool": [True, False],
}
OPERATORS = "add sub mul truediv floordiv mod pow lt le gt ge eq ne".split()
CALLS = {
    "add": lambda X, t, n: X.add(t, n),
    "sub": lambda X, t, n: X.sub(t, n),
    "clamp": lambda X, t, n: t.clamp(max=n),
    "pow": lambda X, t, n: X.pow(n, t),
    "where": lambda X, t, n: X.where(t > 2, t, n),
    "masked_fill": lambda X, t, n: t.masked_fill(t > 2, n),
    "fill_": lambda X, t, n: t.clone().fill_(n),
    "add_": lambda X, t, n: t.clone().add_(n),
    "full": lambda X, t, n: X.full((2,), n),
    "full_like": lambda X, t, n: X.full_like(t, n),
    "new_full": lambda X, t, n: t.new_full((2,), n),
    "arange": lambda X, t, n: X.arange(n),
    "linspace": lambda X, t, n: X.linspace(0, n, 3),
    "tensor": lambda X, t, n: X.tensor(n),
    "list": lambda X, t, n: X.tensor([n, n]),
    "as_tensor": lambda X, t, n: X.as_tensor(n),
    "scalar_tensor": lambda X, t, n: X.scalar_tensor(n),
}


def described(library, work, dtype, number):
    """dtype, shape and values of a result, or the kind of error."""
    t = library.tensor(TENSORS[dtype], dtype=getattr(library, dtype))
    try:
        y = work(library, t, number)
        values = np.array(y.tolist(), dtype=np.float64)
    except (TypeError, RuntimeError, ZeroDivisionError) as error:
        return "TypeError" if isinstance(error, TypeError) else "RuntimeError"
    return str(y.dtype), values


def check(work, dtype, number):
    want, have = (described(library, work, dtype, NUMBERS[number]) for library in (torch, wend))
    if isinstance(want, str) or isinstance(have, str):
        assert have == want
        return
    assert have[0] == want[0]
    # Of number / tensor, PyTorch rounds the reciprocal first: it shows where digits are few.
    np.testing.assert_allclose(have[1], want[1], rtol=1e-2 if "16" in have[0] else 1e-6)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", TENSORS)
def test_operators(dtype, number):
    for name in OPERATORS:
        work = getattr(operator, name)
        for swap in (False, True):

            def either(library, t, n, swap=swap, work=work):
                return work(n, t) if swap else work(t, n)

            check(either, dtype, number)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", TENSORS)
@pytest.mark.parametrize("call", CALLS)
def test_calls(call, dtype, number):
    check(CALLS[call], dtype, number)


def test_a_tensor_of_no_dims_keeps_its_dtype():
    for library in (torch, wend):
        assert (library.tensor(1.0) * np.float64(2)).dtype is library.float32
        assert (np.float32(2) * library.tensor(1.0, dtype=library.float64)).dtype is library.float64
        assert (library.tensor(1) + np.int64(3)).dtype is library.int64
        assert (library.tensor(1) * np.float32(0.5)).dtype is library.float32


INTEGERS = {
    "index": lambda X, t, n: t[n],
    "slice": lambda X, t, n: t[:n],
    "sizes": lambda X, t, n: X.zeros(n, n),
    "reshape": lambda X, t, n: t.reshape(n, -1),
    "dim": lambda X, t, n: t.sum(n - n),
    "roll": lambda X, t, n: t.roll(n),
    "repeat": lambda X, t, n: t.repeat(n),
    "topk": lambda X, t, n: t.topk(n)[0],
    "narrow": lambda X, t, n: t.narrow(0, n - n, n),
    "select": lambda X, t, n: t.select(0, n),
    "chunk": lambda X, t, n: t.chunk(n)[1],
    "pad": lambda X, t, n: X.nn.functional.pad(t, (n, n)),
    "eye": lambda X, t, n: X.eye(n),
    "one_hot": lambda X, t, n: X.nn.functional.one_hot(X.tensor([0, 1]), n),
}


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.intp])
@pytest.mark.parametrize("call", INTEGERS)
def test_sizes_and_indices(call, kind):
    want, have = (
        INTEGERS[call](library, library.arange(8.0), kind(2)) for library in (torch, wend)
    )
    assert have.tolist() == want.tolist() and str(have.dtype) == str(want.dtype)


@pytest.mark.parametrize("value", [np.str_("a"), np.datetime64("2020-01-01")])
def test_text_and_dates_are_no_numbers(value):
    x = wend.ones(2)
    for work in (
        lambda: x + value,
        lambda: wend.add(x, value),
        lambda: x.fill_(value),
        lambda: wend.full((2,), value),
        lambda: wend.remainder(x, value),
    ):
        with pytest.raises(TypeError):
            work()
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize("count", [2.0, np.float64(2), np.array(2.0)])
def test_counts_of_parts_are_ints(count):
    for work in (wend.ones(4).chunk, wend.ones(4).split):
        with pytest.raises(TypeError, match="must be"):
            work(count)
