"""The indexing planner: keys of every kind against PyTorch and NumPy, errors, plans."""

import importlib

import harness
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wend
from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimError,
    DTypeError,
    IndexOutOfRange,
    ShapeError,
)
from wend._engine.ops.indexing import keys as indexing
from wend._engine.ops.indexing.keys import Source, Step, plan_getitem, plan_of
from wend._engine.ops.indexing.subscript import getitem, setitem

torch = importlib.import_module("torch") if harness.HAS_TORCH else None
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
quick = settings(max_examples=150, deadline=None)


class Mask:
    """A bool array in a key, told from a list: each library makes its own tensor of it."""

    def __init__(self, array, kind=bool):
        self.array = np.asarray(array).astype(kind)

    def __repr__(self):
        return f"Mask({self.array.tolist()}, {self.array.dtype})"


def made(key, make):
    """The key with its arrays as tensors of a library."""
    if isinstance(key, tuple):
        return tuple(made(item, make) for item in key)
    if isinstance(key, Mask):
        return make(key.array)
    return make(key) if isinstance(key, np.ndarray) else key


@st.composite
def shaped_keys(draw):
    """(shape, key that mostly fits it)."""
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)))
    items, left = [], list(shape)
    if draw(st.booleans()):
        keep = draw(st.integers(0, len(shape)))
        left = list(shape[:keep])
    while left:
        n = left.pop(0)
        items.append(draw(item(n, left)))
        if draw(st.integers(0, 5)) == 0:
            items.append(draw(st.sampled_from([None, True, False])))
    if draw(st.integers(0, 3)) == 0:
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    if len(items) == 1 and draw(st.booleans()):
        return shape, items[0]
    return shape, tuple(items)


def item(n, left):
    bound = st.none() | st.integers(-6, 6)
    index = st.integers(-n, n - 1) if n else st.nothing()
    options = [
        st.builds(slice, bound, bound, st.none() | st.integers(1, 3)),
        st.just(slice(None)),
        st.lists(st.booleans(), min_size=n, max_size=n).map(Mask),
    ]
    if n:
        options += [
            index,
            st.lists(index, max_size=3),
            st.lists(index, min_size=2, max_size=2).map(lambda v: np.array(v, np.int64)),
            st.lists(index, min_size=2, max_size=2).map(lambda v: np.array([v], np.int64)),
            index.map(lambda v: np.array(v, np.int64)),
        ]
    if left:
        m = left[0]

        def over_two(bits):
            left.pop(0)
            return Mask(np.array(bits, bool).reshape(n, m))

        options.append(st.lists(st.booleans(), min_size=n * m, max_size=n * m).map(over_two))
    return st.one_of(options)


def outcome(function):
    try:
        return function(), None
    except Exception as error:
        return None, error


@needs_torch
@pytest.mark.filterwarnings("ignore")
@given(shaped_keys())
@quick
def test_getitem_agrees_with_torch(case):
    shape, key = case
    x = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)
    want, refusal = outcome(lambda: harness.to_torch(x)[made(key, harness.to_torch)])
    got, error = outcome(lambda: np.asarray(harness.tensor(x)[made(key, harness.tensor)]))
    if refusal is not None:
        assert isinstance(error, type(refusal)), (refusal, error)
    elif isinstance(error, IndexOutOfRange) and not want.numel():
        pass  # PyTorch does not look at indices that meet no element
    else:
        assert error is None, error
        assert got.shape == tuple(want.shape)
        np.testing.assert_array_equal(got, want.numpy())


@needs_torch
@pytest.mark.filterwarnings("ignore")
@given(shaped_keys(), st.integers(0, 3), st.randoms(use_true_random=False))
@quick
def test_setitem_agrees_with_torch(case, kind, random):
    shape, key = case
    x = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)
    target, refusal = outcome(lambda: harness.to_torch(x)[made(key, harness.to_torch)])
    if refusal is not None or _repeats(x, key):
        return
    value = _value_for(tuple(target.shape), kind, random)

    def assign(make):
        y = make(x)
        y[made(key, make)] = make(value) if isinstance(value, np.ndarray) else value
        return y

    want, refusal = outcome(lambda: assign(harness.to_torch))
    got, error = outcome(lambda: np.asarray(assign(harness.tensor)))
    if refusal is not None:
        assert isinstance(error, type(refusal)), (refusal, error)
    elif isinstance(error, IndexOutOfRange) and not want.numel():
        pass
    else:
        assert error is None, error
        np.testing.assert_array_equal(got, want.numpy())


def _repeats(x, key):
    """Whether the key names an element twice: which value then stays is not defined."""
    places = np.arange(x.size).reshape(x.shape)
    hit = harness.to_torch(places)[made(key, harness.to_torch)].numpy()
    return len(np.unique(hit)) != hit.size


def _value_for(shape, kind, random):
    """A number, or an array that broadcasts to `shape`: whole, of one element, without a dim."""
    if kind == 0:
        return -1.5
    if kind == 1:
        shape = tuple(1 if random.random() < 0.4 else n for n in shape)
    if kind == 2:
        shape = shape[random.randint(0, len(shape)) :]
    if kind == 3:
        shape = (1, 1, *shape)
    return -1.0 - np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)


@pytest.mark.parametrize(
    "key",
    [
        0,
        -1,
        slice(1, None),
        (slice(None), 1),
        (Ellipsis, 0),
        (Ellipsis, slice(None, -1)),
        (None, 1, Ellipsis, None),
        (slice(0, 2), slice(None, None, 2), slice(-3, -1)),
        (np.array([0, 1, 1]),),
        (slice(None), np.array([[0, 2]])),
        (np.array([1, 0]), slice(None), np.array([0, 3])),
        (slice(None), np.array([1, 0]), np.array([[0], [3]])),
        np.array([[True, False, True], [False, True, True]]),
        (slice(None), np.array([True, False, True])),
        (slice(None), np.array([True, False, True]), np.array([0, 3])),
        (np.array([False, False]),),
        (),
        Ellipsis,
        None,
        True,
        False,
    ],
    ids=str,
)
def test_getitem_agrees_with_numpy(key):
    x = np.arange(24.0).reshape(2, 3, 4)
    got = harness.tensor(x)[made(key, harness.tensor)]
    np.testing.assert_array_equal(np.asarray(got), x[key])


@needs_torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "key",
    [
        [0, 1],
        [[0, 1], [1, 2]],
        [True, False],
        [],
        [[]],
        range(2),
        [slice(None), 0],
        [None, 0],
        np.int64(1),
        np.array(1),
        np.array([[0, 1], [1, 0]]),
        np.array([True, False]),
        (0, [0, 2]),
        ([0, 1], True),
        (slice(np.int64(0), np.int32(1)),),
        (0, Ellipsis, 1, Ellipsis),
    ],
    ids=str,
)
def test_keys_of_other_kinds(key):
    x = np.arange(24.0).reshape(2, 3, 4)
    want = harness.to_torch(x)[key]
    np.testing.assert_array_equal(np.asarray(harness.tensor(x)[key]), want.numpy())


@needs_torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [np.uint8, bool])
def test_byte_masks_are_masks(kind):
    x = np.arange(6.0).reshape(2, 3)
    mask = np.array([1, 0]).astype(kind)
    want = harness.to_torch(x)[harness.to_torch(mask)]
    np.testing.assert_array_equal(np.asarray(harness.tensor(x)[harness.tensor(mask)]), want.numpy())


def zeros(*shape):
    return harness.tensor(np.zeros(shape))


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (5, IndexOutOfRange, "getitem: index 5 is out of bounds for dimension 0 with size 2"),
        (
            (0, -4),
            IndexOutOfRange,
            "index -4 is out of bounds for dimension 1 with size 3",
        ),
        (
            (None, slice(1), 7),
            IndexOutOfRange,
            "getitem: index 7 is out of bounds for dimension 1 with size 3",
        ),
        ((0, 0, 0), DimError, "getitem: too many indices for tensor of dimension 2"),
        (slice(None, None, -1), ArgumentError, "step must be greater than zero"),
        (slice(None, None, 0), ArgumentError, "step must be greater than zero"),
        (1.0, IndexOutOfRange, r"are valid indices \(got float\)"),
        ({}, IndexOutOfRange, r"are valid indices \(got dict\)"),
        ("a", ArgumentTypeError, "invalid index of type str"),
        (slice(0, 1.5), ArgumentTypeError, "slice indices must be integers or None"),
        (
            np.array([0.5]),
            IndexOutOfRange,
            "tensors used as indices must be long, int",
        ),
        (
            np.array([True]),
            IndexOutOfRange,
            r"shape of the mask \[1\] at index 0 does not match the shape of the indexed tensor "
            r"\[2, 3\] at index 0",
        ),
        (
            (slice(None), np.array([True, False])),
            IndexOutOfRange,
            r"mask \[2\] at index 0 does not match the shape .* \[2, 3\] at index 1",
        ),
        (
            (np.array([0, 1]), np.array([0, 1, 2])),
            IndexError,
            r"could not be broadcast together with shapes \(2,\), \(3,\)",
        ),
    ],
)
def test_errors_of_keys(key, error, text):
    with pytest.raises(error, match=text):
        zeros(2, 3)[made(key, harness.tensor)]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (0, "invalid index of a 0-dim tensor"),
        (slice(None), r"slice\(\) cannot be applied to a 0-dim tensor"),
        ((0, 0), "too many indices"),
    ],
)
def test_errors_of_keys_of_a_0d_tensor(key, text):
    with pytest.raises(IndexError, match=text):
        zeros()[key]


LOOKUPS = {
    "index": lambda x, i: x[i],
    "index_put": lambda x, i: x.index_put((i,), x[:1].sum()),
    "gather": lambda x, i: x.gather(0, i),
    "index_select": lambda x, i: x.index_select(0, i),
    "scatter_add": lambda x, i: x.scatter_add(0, i, x[:1]),
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "embedding": lambda x, i: wend.nn.functional.embedding(i, x[:, None]),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_held_indices_are_checked_at_once_and_pending_ones_in_the_flush(name):
    """What is held raises where it is used, and nothing is recorded; the rest when it is read."""
    x, index = harness.tensor(np.arange(3.0)), harness.tensor(np.array([5]))
    for _ in range(3):
        with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0"):
            LOOKUPS[name](x, index)
        unread = LOOKUPS[name](x, index + 0)
        with pytest.raises(IndexError, match=r"out of bounds[\s\S]*test_index\.py"):
            unread.tolist()
        assert LOOKUPS[name](x, index - 4).isfinite().all()


def test_an_index_out_of_range_names_its_position():
    index = harness.tensor(np.array([[0, 1], [1, 7]]))
    with pytest.raises(IndexError, match=r"index 7 is out of bounds for dimension 1 with size 3"):
        np.asarray(zeros(2, 3)[:, index])
    with pytest.raises(IndexError, match=r"\(at position \(1, 1\) of the index\)"):
        np.asarray(zeros(2, 3)[:, index])


@pytest.mark.parametrize(
    ("key", "value", "error", "text"),
    [
        (0, np.ones(4), ShapeError, r"expanded size of the tensor \(3\) must match"),
        (0, np.ones((2, 3)), ShapeError, "number of sizes provided"),
        (np.array([0, 1]), np.ones(5), ShapeError, "cannot be broadcast to indexing result"),
        (np.array([0]), np.ones(3, np.int64), DTypeError, "source and destination dtypes match"),
        (3, 1.0, IndexOutOfRange, "getitem: index 3 is out of bounds for dimension 0 with size 2"),
        (slice(None, None, -1), 1.0, ArgumentError, "step must be greater than zero"),
        (0, "a", ArgumentTypeError, "can't assign a str"),
        (0, [1.0, 2.0, 3.0], ArgumentTypeError, "can't assign a list"),
    ],
)
def test_errors_of_assignments(key, value, error, text):
    x = zeros(2, 3)
    with pytest.raises(error, match=text):
        x[made(key, harness.tensor)] = made(value, harness.tensor)


def test_an_assignment_casts_to_the_dtype_of_the_tensor():
    x = harness.tensor(np.arange(5))
    x[0] = 2.7
    x[[1]] = 3.5
    x[2:3] = harness.tensor(np.array([9.9]))
    x[x > 8] = harness.tensor(np.array(7.5))
    assert x.tolist() == [2, 3, 7, 3, 4]


def test_a_mask_is_filled_without_its_positions():
    # Were the number of True elements asked for, the pending mask would be computed first.
    x, mask = zeros(2, 3), zeros(2, 3) > 1
    x[mask] = 4.0
    assert mask.value.buffer is None
    assert np.asarray(x).sum() == 0


def test_a_view_step_records_one_op():
    assert plan_of((indexing.SELECT,), 2).steps == (Step("select", 0, (0, None, None)),)
    assert plan_of((indexing.SLICE, indexing.SELECT), 2).steps == (
        Step("select", 1, (0, None, None)),
    )


def test_plans_hold_structure_and_no_sizes():
    a, values = plan_getitem((slice(1, 5), Ellipsis, 3), 4)
    b, others = plan_getitem((slice(2, 9), Ellipsis, -1), 4)
    assert a is b
    assert values == [1, 5, 3]
    assert others == [2, 9, -1]
    assert a.steps == (Step("slice", 0, (0, 1, None)), Step("select", 3, (2, None, None)))


def test_plans_of_keys_with_tensors():
    mask = harness.tensor(np.ones((2, 3), bool))
    index = harness.tensor(np.array([0, 1]))
    plan, values = plan_getitem((0, mask, None, index), 5)
    assert plan.steps == (
        Step("select", 0, (0, None, None)),
        Step("unsqueeze", 2, (None, None, None)),
    )
    assert plan.sources == (Source(0, 1, 0), Source(1, 1, 1), Source(3, 2, -1))
    assert values[0] == 0 and values[1] is mask and values[2] is index
    assert plan.dims == (0, 1, 3)


def test_a_whole_key_gives_an_alias():
    x = zeros(2, 3)
    for key in (Ellipsis, slice(None), ()):
        y = x[key]
        y[0, 0] = 5.0
        assert x[0, 0].item() == 5.0
        x[0, 0] = 0.0


def test_writes_through_views_reach_the_base():
    x = zeros(3, 4)
    x[1][2:][0] = 7.0
    x[:, 1].view(3, 1)[2] = 8.0
    x.t()[3, 0] = 9.0
    want = np.zeros((3, 4))
    want[1, 2], want[2, 1], want[0, 3] = 7, 8, 9
    np.testing.assert_array_equal(np.asarray(x), want)


def test_a_0d_index_tensor_selects_a_view():
    x = zeros(3, 2)
    x[harness.tensor(np.array(1))][0] = 4.0
    assert x[1, 0].item() == 4.0


def test_gradients_of_getitem_and_setitem():
    x = harness.tensor(np.arange(12.0).reshape(3, 4), requires_grad=True)
    rows = harness.tensor(np.array([0, 2, 2]))
    (x[rows, 1:3].sum() + x[1, -1] * 3).backward()
    want = np.zeros((3, 4))
    want[0, 1:3], want[2, 1:3], want[1, 3] = 1, 2, 3
    np.testing.assert_array_equal(np.asarray(x.grad), want)
    v = harness.tensor(np.array([1.0, 2.0]), requires_grad=True)
    y = (x * 1).detach().clone()
    y[1:, 0] = v
    (y * y).sum().backward()
    np.testing.assert_array_equal(np.asarray(v.grad), [2.0, 4.0])


def test_functional_forms():
    x = zeros(2, 3)
    assert getitem(x, (0, 1)).shape == ()
    new = setitem(x, (0, 1), 5.0)
    assert np.asarray(new)[0, 1] == 5.0
    assert np.asarray(x)[0, 1] == 0.0


@needs_torch
@pytest.mark.parametrize(
    ("indices", "shape", "accumulate"),
    [
        ((np.array([0, 1]), np.array([2, 0])), (2,), False),
        ((np.array([0, 0]),), (2, 3), True),
        ((None, np.array([1])), (2, 1), False),
        ((np.array([True, False]),), (1, 3), False),
        ((np.array([[True, False, True], [False, False, False]]),), (2,), True),
    ],
)
def test_index_put_agrees_with_torch(indices, shape, accumulate):
    x, values = np.arange(6.0).reshape(2, 3), -np.ones(shape)

    def run(module, make):
        key = tuple(None if i is None else make(i) for i in indices)
        return module.index_put(make(x), key, make(values), accumulate)

    want = _torch_index_put(run)
    np.testing.assert_array_equal(np.asarray(run(wend, harness.tensor)), want)


def _torch_index_put(run):
    import operator

    def index_put(x, key, values, accumulate):
        # PyTorch's own index_put takes no None from Python.
        y = x.clone()
        whole = tuple(slice(None) if i is None else i for i in key)
        if accumulate:
            return torch.index_put(x, key, values, accumulate=True)
        operator.setitem(y, whole, values)
        return y

    class Module:
        pass

    Module.index_put = staticmethod(index_put)
    return run(Module, harness.to_torch).numpy()


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        (
            "gather",
            (0, [[0, 0, 5]]),
            r"gather: index 5 is out of bounds for dimension 0",
        ),
        ("index_select", (1, [3]), r"index_select: index 3 is out of bounds for dimension 1"),
        ("index_select", (0, [-1]), r"index_select: index -1 is out of bounds"),
        ("take", ([7],), r"index 7 is out of bounds for dimension 0 with size 6"),
        ("index_fill", (0, [2], 1.0), r"index 2 is out of bounds for dimension 0 with size 2"),
    ],
)
def test_ranges_are_checked(name, args, text):
    moved = [harness.tensor(np.array(a)) if isinstance(a, list) else a for a in args]
    with pytest.raises(IndexError, match=text):
        np.asarray(getattr(zeros(2, 3), name)(*moved))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda x, i: x.gather(0, i.reshape(-1)),
            ShapeError,
            "number of dimensions must be the same",
        ),
        (lambda x, i: x.gather(1, harness.tensor(np.zeros((3, 1), int))), ShapeError, "in dim 0"),
        (lambda x, i: x.gather(0, x), DTypeError, "expected int32 or int64 for index"),
        (
            lambda x, i: x.scatter_add(0, i, x.to(wend.int64)),
            DTypeError,
            "to be equal to src.dtype",
        ),
        (lambda x, i: x.index_select(0, i), IndexError, "index is supposed to be a vector"),
        (lambda x, i: x.index_add(0, i[0, :1], x), ShapeError, "same slice shapes"),
        (lambda x, i: x.masked_fill(i, 1), DTypeError, "only supports boolean masks"),
        (lambda x, i: x.topk(9), ShapeError, "topk: selected index k out of range"),
        (lambda x, i: x.kthvalue(0), ShapeError, "kthvalue: selected number k out of range"),
        (lambda x, i: wend.searchsorted(x, i[0]), ShapeError, "first dims of the input"),
        (lambda x, i: wend.bincount(i), ShapeError, "only supports 1-d non-negative"),
        (lambda x, i: x.scatter_reduce(0, i, x, "most"), ArgumentError, "reduce argument must be"),
    ],
)
def test_errors_of_index_ops(call, error, text):
    with pytest.raises(error, match=text):
        call(zeros(2, 3), harness.tensor(np.array([[0, 1, 0]])))


@needs_torch
@pytest.mark.parametrize("name", ["gather", "scatter_add", "index_select"])
def test_an_index_out_of_range_is_what_pytorch_raises(name):
    """Element by element PyTorch raises RuntimeError, along a dim IndexError."""

    def call(library, size, index):
        index = library.tensor(index if name == "index_select" else [index])
        x = library.zeros(1, size)
        source = (library.ones(1, 1),) if name == "scatter_add" else ()
        getattr(x, name)(1, index, *source).tolist()

    for size, index in ((3, [3]), (3, [-1]), (0, [0])):
        with pytest.raises((IndexError, RuntimeError)) as theirs:
            call(torch, size, index)
        with pytest.raises(theirs.type, match=f"{name}: index {index[0]} is out of bounds"):
            call(wend, size, index)
