"""`t_`, `unsqueeze_` and their kin change a tensor's shape; its data stays, and so do its views."""

import numpy as np
import pytest

import wend as torch


def square():
    return torch.tensor([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("name", "args", "shape"),
    [
        ("unsqueeze_", (0,), (1, 2, 1, 3)),
        ("transpose_", (0, -1), (3, 1, 2)),
        ("swapaxes_", (0, 2), (3, 1, 2)),
        ("swapdims_", (0, 2), (3, 1, 2)),
        ("squeeze_", (), (2, 3)),
        ("squeeze_", (1,), (2, 3)),
        ("squeeze_", (0,), (2, 1, 3)),
    ],
)
def test_shapes_and_values(name, args, shape):
    x = torch.arange(6.0).reshape(2, 1, 3)
    wanted = getattr(x.clone(), name.rstrip("_"))(*args)
    assert getattr(x, name)(*args) is x
    assert tuple(x.shape) == shape
    assert x.tolist() == wanted.tolist()
    assert x.stride() == wanted.stride() or 1 in shape


def test_views_taken_before_and_after_share_the_data():
    x = square() * 1
    row = x[0]
    x.t_()
    column = x[0]
    assert row.tolist() == [1, 2] and column.tolist() == [1, 3]
    x[0, 1] = 30.0
    assert row.tolist() == [1, 2] and column.tolist() == [1, 30]
    row.mul_(10)
    assert x.tolist() == [[10, 30], [20, 4]] and column.tolist() == [10, 30]
    x.unsqueeze_(0)
    column.zero_()
    assert x.tolist() == [[[0, 0], [20, 4]]] and row.tolist() == [0, 20]


def test_a_view_that_turns_does_not_turn_its_base():
    x = square() * 1
    v = x.view(2, 2)
    v.t_()
    assert v.tolist() == [[1, 3], [2, 4]] and x.tolist() == [[1, 2], [3, 4]]
    v[0] = 0.0
    assert x.tolist() == [[0, 2], [0, 4]]


def test_data_that_is_known_outside_stays_shared():
    memory = np.zeros((2, 3), dtype=np.float32)
    x = torch.from_numpy(memory)
    x.t_()
    x[2, 1] = 7.0
    assert memory[1, 2] == 7
    memory[0, 2] = 5
    assert x[2].tolist() == [5, 7]
    detached = torch.zeros(3)
    other = detached.detach()
    detached.unsqueeze_(0)
    detached[0, 1] = 1.0
    assert other.tolist() == [0, 1, 0]


def test_gradients():
    a = torch.arange(6.0).requires_grad_()
    x = (a * 2).reshape(2, 3)
    x = x * 1
    x.t_()
    x[0].mul_(3)
    (x * torch.arange(6.0).reshape(3, 2)).sum().backward()
    assert a.grad.tolist() == [0, 4, 8, 6, 6, 10]
    assert x.grad_fn is not None


def test_a_leaf_that_requires_grad_is_refused():
    with pytest.raises(RuntimeError, match=r"unsqueeze_: a leaf Variable that requires grad"):
        torch.ones(3, requires_grad=True).unsqueeze_(0)


def test_it_can_still_be_detached():
    a = torch.arange(6.0).requires_grad_()
    x = a * 2
    x.unsqueeze_(0)
    assert x.detach_() is x and not x.requires_grad
    x.mul_(0.5)
    assert x.tolist() == [[0, 1, 2, 3, 4, 5]] and not x.requires_grad
    view = (a * 2)[1:]
    with pytest.raises(RuntimeError, match="can't detach views"):
        view.detach_()
