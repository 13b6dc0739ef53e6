"""Size, dims, strides, broadcasting: as NumPy's or PyTorch's where those are installed."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wend._engine.base import shapes
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, DimError, ShapeError
from wend._engine.base.shapes import Size

SHAPES = st.lists(st.integers(0, 4), max_size=5).map(tuple)


def test_size_stays_a_size():
    x = Size([2, 3])
    for y, expected in [
        (x[0:1], (2,)),
        (x[::-1], (3, 2)),
        (x + Size([4]), (2, 3, 4)),
        (x + (4,), (2, 3, 4)),
        ((4,) + x, (4, 2, 3)),
        (x * 2, (2, 3, 2, 3)),
        (2 * x, (2, 3, 2, 3)),
        (pickle.loads(pickle.dumps(x)), (2, 3)),
        (copy.copy(x), (2, 3)),
        (copy.deepcopy([x])[0], (2, 3)),
        (Size(x), (2, 3)),
    ]:
        assert type(y) is Size and y == expected and hash(y) == hash(expected)
    assert type(x[1]) is int and x[-1] == 3
    assert list(x) == [2, 3] and x.index(3) == 1 and 3 in x


def test_size_prints_and_counts():
    assert repr(Size([2, 3])) == str(Size([2, 3])) == "torch.Size([2, 3])"
    assert repr(Size()) == "torch.Size([])"
    assert f"{Size([1])}" == "torch.Size([1])"
    assert Size().numel() == 1 and Size([2, 3]).numel() == 6 and Size([2, 0]).numel() == 0
    assert type(Size([True])[0]) is int
    assert Size(range(3)) == (0, 1, 2)
    assert Size(np.array([2, 3])) == (2, 3) and type(Size(np.array([2]))[0]) is int
    assert Size([-1, 2]) == (-1, 2)  # PyTorch lets -1 stand for 'to be found'


def test_size_rejects_what_is_no_int():
    with pytest.raises(ArgumentTypeError, match=r"item 1 is a float"):
        Size([1, 2.0])
    with pytest.raises(ArgumentTypeError, match=r"item 0 is a str"):
        Size("a")
    with pytest.raises(ArgumentTypeError, match=r"item 0 is a str"):
        Size([1]) + ("a",)
    with pytest.raises(TypeError):
        Size(5)
    with pytest.raises(TypeError):
        Size([1]) + [2]
    with pytest.raises(TypeError):
        [2] + Size([1])
    with pytest.raises(TypeError):
        Size([1]) * 1.5
    with pytest.raises(ArgumentError, match="more than 64 bits"):
        Size([2**70])
    with pytest.raises(AttributeError):
        Size([1]).spam = 3


def test_size_behaves_as_pytorchs():
    torch = pytest.importorskip("torch")
    for ours, theirs in [(Size([2, 3, 4]), torch.Size([2, 3, 4])), (Size(), torch.Size())]:
        assert repr(ours) == repr(theirs)
        assert ours == tuple(theirs)
        assert ours.numel() == theirs.numel()
        for cut in (slice(None), slice(1, None), slice(None, None, -1), slice(5, 9)):
            assert repr(ours[cut]) == repr(theirs[cut])


def test_normalize_dim():
    assert [shapes.normalize_dim(d, 3) for d in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    assert shapes.normalize_dim(-1, 0) == 0 and shapes.normalize_dim(0, 0) == 0
    message = r"sum: Dimension out of range \(expected to be in range of \[-2, 1\], but got 5\)"
    with pytest.raises(DimError, match=message + ", for a tensor of 2 dims"):
        shapes.normalize_dim(5, 2, "sum")
    with pytest.raises(IndexError, match=r"\[-1, 0\], but got 1\), for a 0-d tensor"):
        shapes.normalize_dim(1, 0)
    with pytest.raises(IndexError, match=r"for a tensor of 1 dim$"):
        shapes.normalize_dim(-2, 1)


def test_normalize_dims():
    assert shapes.normalize_dims(None, 3) == (0, 1, 2)
    assert shapes.normalize_dims(None, 0) == ()
    assert shapes.normalize_dims(-1, 3) == (2,)
    assert shapes.normalize_dims((-1, 0), 3) == (2, 0)
    assert shapes.normalize_dims((), 3) == ()
    with pytest.raises(ShapeError, match="sum: dim 1 appears multiple times in the list of dims"):
        shapes.normalize_dims((0, 1, -2), 3, "sum")
    with pytest.raises(RuntimeError, match="dim 0 appears"):
        shapes.normalize_dims((0, -1), 0)
    with pytest.raises(DimError):
        shapes.normalize_dims((0, 3), 3)


@given(SHAPES)
def test_strides_are_pytorchs(shape):
    torch = pytest.importorskip("torch")
    x = torch.empty(shape)
    assert shapes.contiguous_strides(shape) == x.stride()
    assert shapes.is_contiguous(shape, x.stride())
    y = x.permute(tuple(reversed(range(len(shape)))))
    assert shapes.is_contiguous(y.shape, y.stride()) == y.is_contiguous()
    assert shapes.numel(shape) == x.numel()


@given(st.lists(SHAPES, min_size=1, max_size=4))
def test_broadcast_is_numpys(given):
    try:
        expected = np.broadcast_shapes(*given)
    except ValueError:
        with pytest.raises(ShapeError, match=r"add: shapes .* do not broadcast: dim -\d has sizes"):
            shapes.broadcast("add", *given)
    else:
        assert shapes.broadcast("add", *given) == expected


def test_broadcast_message():
    message = (
        "mul: shapes (3, 4) and (3, 5) do not broadcast: dim -1 has sizes 4 and 5 "
        "(The size of tensor a (4) must match the size of tensor b (5) at non-singleton "
        "dimension 1)"
    )
    with pytest.raises(ShapeError) as caught:
        shapes.broadcast("mul", (3, 4), (3, 5))
    assert str(caught.value) == message
    with pytest.raises(ShapeError, match=r"where: shapes \(2,\), \(1,\) and \(3,\) do not"):
        shapes.broadcast("where", (2,), (1,), (3,))
    assert shapes.broadcast("add") == ()


def test_broadcast_asks_least_first():
    """Each question about a symbolic extent is a guard: the order is part of the contract."""
    asked = []

    class Extent:
        def __init__(self, name, value):
            self.name, self.value = name, value

        def __eq__(self, other):
            asked.append((self.name, other if isinstance(other, int) else other.name))
            return self.value == (other if isinstance(other, int) else other.value)

        __hash__ = None

    a, b, one = Extent("a", 4), Extent("b", 4), Extent("one", 1)
    assert shapes.broadcast("add", (a,), (b,))[0] is a
    assert asked == [("a", "b")]
    asked.clear()
    assert shapes.broadcast("add", (one,), (b,))[0] is b
    assert asked == [("one", "b"), ("one", 1)]
    asked.clear()
    assert shapes.broadcast("add", (a, b), (b,))[0] is a
    assert asked == [("b", "b")]  # nothing is asked of the dim that one side lacks
