"""Rare forms of calls, and keywords, compute what PyTorch computes."""

import numpy as np
import pytest

import wend

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
Y = np.float32(2) - X[::-1].copy()
INDEX = np.array([[0, 2, 1, 0]])

FORMS = [
    "x.split(split_size=2, dim=1)",
    "x.split(split_size=[1, 3], dim=1)",
    "t.split(tensor=x, split_size_or_sections=2)",
    "t.unsafe_split(input=x, split_size=2)",
    "t.split_with_sizes(input=x, split_sizes=[1, 2])",
    "t.tensor_split(x, sections=2)",
    "x.tensor_split(indices=[1], dim=1)",
    "x.tensor_split(tensor_indices_or_sections=t.tensor([1, 2]))",
    "t.hsplit(x, sections=2)",
    "t.vsplit(x, indices=[1])",
    "x.view(size=(4, 3))",
    "t.view_copy(x, size=(2, 6))",
    "x.where(condition=x > 3, other=y)",
    "t.where(x > 3, input=x, other=y)",
    "t.equal(input=x, other=y)",
    "t.allclose(input=x, other=x)",
    "t.is_same_size(input=x, other=y)",
    "t.is_nonzero(input=x.sum())",
    "t.zeros(3, 4).copy_(other=x)",
    "t.zeros(2).resize_(size=(3,)).shape",
    "t.zeros(2).resize_as_(the_template=x).shape",
    "x.to(tensor=t.zeros(1, dtype=t.float64))",
    "x.to_dense(dtype=t.float64)",
    "x.scatter(dim=0, index=i, value=2.0, reduce='add')",
    "x.clone().scatter_(0, i, y[:1], reduce='multiply')",
    "x.clone().scatter_(dim=0, index=i, value=3, reduce='multiply')",
    "t.scatter(input=x, dim=0, index=i, value=2, reduce='add')",
    "t.logdet(input=x[:, :3] @ x[:, :3].T + 50 * t.eye(3)) > 13",
    "x.sum_to_size(size=(1, 4))",
    "t.arange(end=5)",
    "t.arange(start=2, end=5)",
    "t.repeat_interleave(repeats=t.tensor([1, 2]))",
    "t.isin(element=3, test_elements=x)",
    "t.isin(elements=x, test_element=3)",
    "t.result_type(tensor=x, other=1.5)",
    "t.result_type(scalar1=True, scalar2=2)",
    "t.result_type(scalar1=1, scalar2=2.0)",
    "t.sub(x, 2, y)",
    "t.subtract(x, 2, 3)",
    "x.subtract(2, 3)",
    "t.histogram(x)[0]",
    "t.nonzero(x, out=t.empty(0, dtype=t.int64))",
    "t.masked_select(x, x > 3, out=t.empty(0))",
    "t.quantile(x, 0.5, out=t.empty(()))",
    "t.cross(x[:, :3], y[:, :3], dim=1, out=t.empty(3, 3))",
    "t.isin(x, y, out=t.empty(0, dtype=t.bool))",
    "t.tril_indices(3, 3, pin_memory=False)",
    "t.nn.functional.one_hot(input=i)",
]


def computed(t, form):
    """The value of a form, of lists and NumPy arrays only."""
    names = {"t": t, "x": t.tensor(X), "y": t.tensor(Y), "i": t.tensor(INDEX)}
    return plain(eval(form, names), t)


def plain(value, t):
    if isinstance(value, (tuple, list)):
        return [plain(v, t) for v in value]
    return value.numpy() if isinstance(value, t.Tensor) else str(value)


@pytest.mark.parametrize("form", FORMS)
def test_values(form):
    torch = pytest.importorskip("torch")
    np.testing.assert_equal(computed(wend, form), computed(torch, form))


def test_a_parameter_given_twice():
    x = wend.tensor(X)
    with pytest.raises(TypeError, match="multiple values"):
        x.split(2, split_size=2)
    with pytest.raises(TypeError, match="multiple values"):
        wend.split_with_sizes(x, split_sizes=[1, 2], split_size_or_sections=[1, 2])


def test_out_of_a_function_over_ops_is_written():
    x, out = wend.tensor(X), wend.empty(0)
    assert wend.masked_select(x, x > 3, out=out) is out
    np.testing.assert_array_equal(out.numpy(), X[X > 3])
