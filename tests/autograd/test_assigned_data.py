"""`x.data = other` and `x.grad = other`: what fits, and what is refused, as in PyTorch."""

import pytest
from agreement import check_outcomes

import wend

torch = pytest.importorskip("torch")

VALUES = [1.0, 2.0, 3.0]

OTHERS = {
    "alike": lambda t: t.ones(3),
    "matrix": lambda t: t.ones(2, 2),
    "0-d": lambda t: t.ones(()),
    "empty": lambda t: t.ones(0),
    "float64": lambda t: t.ones(3, dtype=t.float64),
    "float16": lambda t: t.ones(3, dtype=t.float16),
    "int64": lambda t: t.ones(3, dtype=t.int64),
    "bool": lambda t: t.ones(3, dtype=t.bool),
    "complex64": lambda t: t.ones(3, dtype=t.complex64),
    "leaf": lambda t: t.ones(3, requires_grad=True),
    "result": lambda t: t.ones(3, requires_grad=True) * 2,
    "parameter": lambda t: t.nn.Parameter(t.ones(3)),
    "view": lambda t: t.arange(6.0)[1:4],
    "transposed": lambda t: t.arange(6.0).view(2, 3).t(),
    "meta": lambda t: t.ones(3, device="meta"),
    "sparse": lambda t: t.eye(3)[0].to_sparse(),
    "list": lambda t: VALUES,
    "None": lambda t: None,
    "number": lambda t: 3.0,
}

TARGETS = {
    "leaf": lambda t: t.tensor(VALUES, requires_grad=True),
    "plain": lambda t: t.tensor(VALUES),
    "parameter": lambda t: t.nn.Parameter(t.tensor(VALUES)),
    "frozen": lambda t: t.nn.Parameter(t.tensor(VALUES), requires_grad=False),
    "integers": lambda t: t.tensor([1, 2, 3]),
    "view": lambda t: t.tensor([0.0, *VALUES])[1:],
    "complex": lambda t: t.tensor([1j, 2.0, 3.0]),
    "result": lambda t: t.tensor(VALUES, requires_grad=True) * 1,
}
#: A result keeps no history behind data of another shape; PyTorch's backward pass fails there.
OF_ANOTHER_SHAPE = ("matrix", "0-d", "empty", "transposed")


def described(x):
    return [x, str(x.dtype).split(".")[-1], x.requires_grad, x.is_leaf, x._version]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("target", TARGETS)
def test_data(target, other):
    if target == "result" and other in OF_ANOTHER_SHAPE:
        pytest.skip("the history ends")

    def program(t):
        x, o = TARGETS[target](t), OTHERS[other](t)
        x.data = o
        found = described(x)
        with t.no_grad():
            if x.dtype is not t.bool:
                x.add_(1)
        return [*found, x, o]

    check_outcomes(program, wend, torch)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("target", ["leaf", "parameter"])
def test_gradients_behind_new_data(target, other):
    def program(t):
        x, o = TARGETS[target](t), OTHERS[other](t)
        x.data = o
        (x * x).sum().backward()
        return x.grad

    check_outcomes(program, wend, torch)


@pytest.mark.parametrize("other", ["alike", "float64", "float16", "leaf", "result", "view"])
def test_a_result_keeps_its_history_behind_new_data(other):
    def program(t):
        a = t.tensor(VALUES, requires_grad=True)
        x = a * 2
        x.data = OTHERS[other](t)
        (x * 3).sum().backward()
        return a.grad

    check_outcomes(program, wend, torch)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("target", TARGETS)
def test_grad(target, other):
    def program(t):
        x = TARGETS[target](t)
        x.grad = OTHERS[other](t)
        return None if x.grad is None else x.grad.to_dense()

    check_outcomes(program, wend, torch)


def test_a_tensor_is_not_its_own_grad():
    x = wend.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        x.grad = x


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("int64", "must be floating point or complex dtype, not torch.int64"),
        ("meta", "incompatible tensor type: the tensor on the device meta has no data"),
        ("sparse", "incompatible tensor type: torch.sparse_coo in the place of torch.strided"),
    ],
)
def test_errors_say_what_does_not_fit(other, message):
    x = TARGETS["leaf"](wend)
    with pytest.raises(RuntimeError, match=message):
        x.data = OTHERS[other](wend)
    assert x.tolist() == VALUES
