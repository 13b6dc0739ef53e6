"""View ops: their strides against PyTorch's, writes through them, sizes, messages."""

import importlib

import harness
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wend
from tries import own_trie
from wend._engine.base import config, dtypes
from wend._engine.base.errors import (
    ArgumentError,
    DimError,
    DTypeError,
    IndexOutOfRange,
    ShapeError,
)
from wend._engine.core import _hot
from wend._engine.core.primitive import REGISTRY, Composite, Primitive, ops
from wend._engine.core.symbolic import Guards, SymInt, evaluate
from wend._engine.ops.joining import Cat
from wend._engine.ops.views.family import Rescaled
from wend._engine.ops.views.reshapes import resolve_shape, view_strides

torch = importlib.import_module("torch") if harness.HAS_TORCH else None
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
VIEWS = [
    op
    for name, op in sorted(REGISTRY.items())
    if op.facts.view and not issubclass(op, Composite) and name not in ("expand_to", "reshape_to")
]


def tensor(*shape):
    return harness.tensor(np.arange(float(np.prod(shape))).reshape(shape))


# -- strides ----------------------------------------------------------------------------------


def layouts(x):
    """The array as PyTorch tensors that lie in memory in different ways."""
    dense = harness.to_torch(x)
    yield dense
    if x.ndim > 1:
        yield harness.to_torch(np.ascontiguousarray(x.T)).permute(*range(x.ndim - 1, -1, -1))
    if x.ndim:
        wide = torch.zeros(*(2 * n + 1 for n in x.shape), dtype=dense.dtype)
        part = wide[tuple(slice(1, None, 2) for _ in x.shape)]
        part.copy_(dense)
        yield part
        yield dense[:1].expand(x.shape)
    yield dense[None].movedim(0, -1)[..., 0]


def viewed(op, x, sample):
    """PyTorch's result, and whether it shares memory with its operand."""
    names = {"slice": lambda x, d=0, a=None, b=None, s=1: torch.ops.aten.slice(x, d, a, b, s)}
    names |= {"alias": torch.ops.aten.alias, "reverse_dims": lambda x: x.permute(_reversed(x))}
    names |= {"reinterpret": lambda x, dtype: x.view(getattr(torch, dtype.name))}
    names |= {"matrix_transpose": lambda x: x.mT, "view": torch.Tensor.view}
    names |= {"real": torch.real, "imag": torch.imag, "view_as_complex": torch.view_as_complex}
    function = names.get(op.name) or harness.torch_function(op)
    try:
        result = function(x, *sample.args[1:], **sample.kwargs)
    except RuntimeError:  # view, where the strides do not allow it
        return None, False
    shares = result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    return result, shares or result.numel() == 0


def _reversed(x):
    return tuple(range(x.dim() - 1, -1, -1))


@needs_torch
@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in VIEWS])
def test_strides_are_pytorchs(op):
    compared = 0
    for sample in harness.samples(op):
        prim, params = harness.bind(op, sample)
        if op.name == "as_strided":
            continue
        for x in layouts(sample.args[0]):
            want, shares = viewed(op, x, sample)
            if isinstance(prim, Rescaled):  # follows from the dtype as well, and shares or raises
                dtype = dtypes.named(str(x.dtype).removeprefix("torch."))
                start = x.storage_offset()
                got = prim.rescaled(dtype, x.stride(), start) if shares else None
                got = got and (got[0], got[1] - start)
            else:
                got = prim.strides(tuple(x.shape), x.stride(), *params[1:])
            if got is None:
                assert not shares, (sample, x.stride())
                continue
            assert shares, (sample, x.stride())
            strides, offset = got
            assert tuple(strides) == want.stride(), (sample, x.shape, x.stride())
            if want.numel():
                assert x.storage_offset() + offset == want.storage_offset(), sample
            compared += 1
    assert compared or op.name == "as_strided"


shapes = st.lists(st.sampled_from([0, 1, 1, 2, 3, 4, 6]), max_size=4).map(tuple)


@needs_torch
@given(shapes, st.data())
@settings(max_examples=200, deadline=None)
def test_reshapes_of_strided_tensors(shape, data):
    count = int(np.prod(shape))
    order = data.draw(st.permutations(range(len(shape))))
    target = data.draw(shapes)
    if int(np.prod(target)) != count:
        target = data.draw(st.sampled_from([(count,), (1, count), (*shape, 1), (1, *shape[::-1])]))
    base = torch.zeros([shape[d] for d in order])
    x = base.permute([order.index(d) for d in range(len(shape))])
    got = view_strides(tuple(x.shape), x.stride(), target)
    try:
        want = x.view(target).stride()
    except RuntimeError:
        want = None
    assert got == want


@needs_torch
def test_strides_through_chains_of_views():
    def chain(x):
        yield x.t()
        yield x.t()[1:3].unsqueeze(1)
        yield x[:, ::2].permute(1, 0)
        yield x.unfold(1, 3, 2)[0]
        yield x[1].expand(3, 6)
        yield x.diagonal(1)[1:]
        yield x.view(2, 2, 3, 2).transpose(1, 2).flatten(2)
        yield x.narrow(1, 2, 3).squeeze()
        yield x[2:3].squeeze(0).view(2, 3).t()
        yield x.movedim(0, 1).chunk(2)[1]
        yield x[..., None].mT
        yield x.as_strided((2, 2), (7, 3), 1)
        yield x[1:].as_strided((2,), (5,))
        yield x.t()[2:].as_strided((2, 3), (1, 2))

    ours, theirs = tensor(4, 6), torch.arange(24.0, dtype=torch.float64).reshape(4, 6)
    for got, want in zip(chain(ours), chain(theirs), strict=True):
        assert tuple(got.stride()) == want.stride()
        assert got.storage_offset() == want.storage_offset()
        assert got.is_contiguous() == want.is_contiguous()
        np.testing.assert_array_equal(np.asarray(got), want.numpy())


# -- parts ------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: x.split(2),
        lambda m, x: x.split([1, 3, 0], 0),
        lambda m, x: x.split(4, -1),
        lambda m, x: x.chunk(3, 1),
        lambda m, x: x.chunk(4, 1),
        lambda m, x: x.chunk(9),
        lambda m, x: x.unbind(1),
        lambda m, x: x.tensor_split(3),
        lambda m, x: x.tensor_split((1, 9, 3), 1),
        lambda m, x: x.hsplit(3),
        lambda m, x: m.broadcast_tensors(x, x[:1], x[0]),
        lambda m, x: m.meshgrid(x[0], x[1, :2], indexing="xy"),
        lambda m, x: m.meshgrid([x[0], x[1, :2]], indexing="ij"),
        lambda m, x: m.atleast_3d(x, x[0], x[0, 0]),
        lambda m, x: [m.atleast_2d(x[0])],
        lambda m, x: m.zeros(0, 3).split(2),
        lambda m, x: m.zeros(0, 3).chunk(2),
    ],
)
def test_parts_are_pytorchs(call):
    got = call(wend, tensor(4, 6))
    want = call(torch, torch.arange(24.0, dtype=torch.float64).reshape(4, 6))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        assert tuple(a.stride()) == b.stride()
        np.testing.assert_array_equal(np.asarray(a), b.numpy())


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.t()[1],
        lambda x: x.view(2, 12)[1, 3:9:2],
        lambda x: x.unsqueeze(0).squeeze(0)[2],
        lambda x: x.diagonal(-1),
        lambda x: x.permute(1, 0)[2:4].t(),
        lambda x: x.split(2)[1],
        lambda x: x.unfold(1, 2, 3)[1],
        lambda x: x.as_strided((3,), (7,), 2),
        lambda x: x.flatten()[5:],
        lambda x: x.unflatten(1, (2, 3))[:, 1],
        lambda x: x.narrow(0, -2, 1),
        lambda x: x.detach()[0],
    ],
)
def test_writes_through_views(write):
    x = tensor(4, 6)
    write(x).fill_(-1.0)
    memory = np.arange(24.0).reshape(4, 6)
    places = np.asarray(write(tensor(4, 6))).astype(int)
    memory.reshape(-1)[places.reshape(-1)] = -1.0
    np.testing.assert_array_equal(np.asarray(x), memory)


def test_reshape_shares_where_it_can():
    x = tensor(2, 3)
    x.reshape(3, 2)[0, 0] = 9.0
    assert x[0, 0].item() == 9.0
    x.t().reshape(6)[0] = 5.0  # a copy: t() is not dense
    assert x[0, 0].item() == 9.0


def test_a_repeated_element_is_filled_and_not_computed_with():
    """As in PyTorch: one number for all is no question of order."""
    rows, row = wend.zeros(3, 1), wend.zeros(5)
    rows.expand(3, 4).fill_(1.0)
    row.unfold(0, 3, 1).fill_(1.0)
    assert rows.tolist() == [[1.0]] * 3 and row.tolist() == [1.0] * 5
    with pytest.raises(RuntimeError, match="more than one element"):
        rows.expand(3, 4).add_(1.0)
    with pytest.raises(RuntimeError, match="more than one element"):
        row.unfold(0, 3, 1).add_(1.0)
    assert rows.tolist() == [[1.0]] * 3


# -- sizes stay symbolic ----------------------------------------------------------------------


def symbols(guards, operand, *extents):
    return tuple(SymInt((operand, 0, d), n, guards) for d, n in enumerate(extents))


def test_a_reshape_keeps_the_extents_that_it_does_not_touch():
    guards = Guards()
    b, t, h = symbols(guards, 0, 5, 7, 12)
    sizes = tuple(SymInt((1, k), n, guards) for k, n in enumerate((5, -1, 3, 4)))
    shape = resolve_shape("reshape", (b, t, h), sizes)
    assert shape[0].expr == b.expr
    assert shape[1].expr == t.expr
    assert [evaluate(e.expr, [(8, 9, 12)], (8, -1, 3, 4)) for e in shape] == [8, 9, 3, 4]


def test_a_reshape_that_merges_dims_holds_for_all_sizes():
    guards = Guards()
    b, t = symbols(guards, 0, 5, 7)
    sizes = (SymInt((1, 0), 35, guards), SymInt((1, 1), 1, guards))
    shape = resolve_shape("reshape", (b, t), sizes)
    assert evaluate(shape[0].expr, [(2, 3)], (6, 1)) == 6
    assert shape[0].expr == (b * t).expr


@needs_torch
@pytest.mark.parametrize("sizes", [((2, 1), (2, 5), (2, 1)), ((3, 4), (3, 1), (1, 1))])
def test_gradients_hold_for_other_sizes(sizes):
    """The rules run once per pattern: what they ask of extents must not go beyond it."""

    def run(make, module, shape):
        x = make(np.arange(float(np.prod(shape))).reshape(shape))
        x.requires_grad_(True)
        y = x.reshape(-1).view(shape[1], shape[0]).t()
        y = y.expand(2, *shape)[1] * x.sum(1, keepdim=True).expand(shape)
        y = module.cat([y[:, :1], y, x.unsqueeze(0)[0]], 1).roll(1, 1)
        (y * y.flip(0)).sum().backward()
        return x.grad

    for shape in sizes:
        want = run(harness.to_torch, torch, shape).numpy()
        np.testing.assert_allclose(np.asarray(run(harness.tensor, wend, shape)), want)


# -- creation and joining ---------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "dim"), [((3,), 0), ((2, 3), 0), ((2, 0), -1), ((1, 2, 3), 1)])
@pytest.mark.parametrize("n", [16, 300])
def test_what_is_written_down_for_many_tensors_is_what_the_rule_finds(shape, dim, n):
    prim = Cat.of((("L", n),), dim=dim)
    types = [_hot.value_of(wend.zeros(shape)).type] * n
    written = prim.trace_rule(types, [])
    traced = Primitive.trace_rule(prim, types, [])
    assert written.guards == traced.guards
    assert written.outs == traced.outs


@pytest.mark.parametrize("join", [wend.cat, wend.stack], ids=["cat", "stack"])
def test_thousands_are_joined_and_cut(join):
    """Expressions of extents, and of where a part starts, are as deep as rules may nest them."""
    n = 2000
    scale = np.arange(2.0 * n).reshape(n, 2)
    with own_trie(), wend.autobatch(False), config.override(compile=False):
        for width in (2, 3):  # the second is typed by the program of the first
            x = wend.arange(2.0 * n * width).reshape(2 * n, width).requires_grad_()
            weight = wend.from_numpy(scale.repeat(width).reshape(n, 2, width))
            joined = join([part * 1.0 for part in x.split(2)])
            (joined.reshape(n, 2, width) * weight).sum().backward()
            np.testing.assert_array_equal(joined.detach().numpy().ravel(), np.arange(2 * n * width))
            np.testing.assert_array_equal(x.grad.numpy().ravel(), scale.repeat(width))


def test_unlike_lengths_are_cut_where_they_were_joined():
    """More operands than one run of sums holds, some of them empty or out of place."""
    lengths = np.arange(300) % 4
    with own_trie(), config.override(compile=False):
        parts = [wend.full((2, int(n)), float(k)).requires_grad_() for k, n in enumerate(lengths)]
        parts.insert(20, wend.zeros(0, requires_grad=True))
        y = wend.cat(parts, 1)
        (y * y).sum().backward()
    np.testing.assert_array_equal(y.detach()[0].numpy(), np.arange(300).repeat(lengths))
    for part in parts:
        np.testing.assert_array_equal(part.grad.numpy(), 2 * part.detach().numpy())


@needs_torch
@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.tril_indices(3, 4, -1),
        lambda m: m.triu_indices(4, 3, 1),
        lambda m: m.tril_indices(0, 4),
        lambda m: m.cartesian_prod(m.arange(2), m.arange(3)),
        lambda m: m.combinations(m.arange(4), 3),
        lambda m: m.combinations(m.arange(3), 2, True),
        lambda m: m.combinations(m.arange(3), 0),
        lambda m: m.unique(m.tensor([3.0, 1, float("nan"), float("nan"), 1])),
        lambda m: m.unique(m.tensor([[3, 1], [2, 1], [3, 1]]), dim=0),
        lambda m: m.unique(m.tensor([[3, 1], [2, 1]]), return_inverse=True)[1],
        lambda m: m.unique(m.tensor([3, 1, 3]), return_counts=True)[1],
        lambda m: m.unique_consecutive(m.tensor([3, 3, 1, 3]), return_counts=True)[1],
        lambda m: m.unique(m.zeros(0)),
        lambda m: m.bincount(m.tensor([1, 3, 1]), minlength=6),
        lambda m: m.bincount(m.tensor([1, 3, 1]), m.tensor([0.5, 1.0, 2.0])),
        lambda m: m.bincount(m.tensor([], dtype=m.int64)),
        lambda m: m.repeat_interleave(m.tensor([1, 2]), m.tensor([3, 0])),
        lambda m: m.repeat_interleave(m.tensor([2, 0, 3])),
        lambda m: m.repeat_interleave(m.tensor([[1, 2], [3, 4]]), 2, dim=1),
        lambda m: m.repeat_interleave(m.tensor([[1, 2], [3, 4]]), m.tensor([2]), 0),
        lambda m: m.isin(m.tensor([1, 2, 5]), m.tensor([5, 1])),
        lambda m: m.isin(m.tensor([1, 2, 5]), 2, invert=True),
        lambda m: m.nonzero(m.tensor([[0, 1], [1, 0]])),
        lambda m: m.nonzero(m.tensor(3), as_tuple=True)[0],
        lambda m: m.masked_select(m.arange(6).reshape(2, 3), m.tensor([True, False, True])),
        lambda m: m.histogram(m.tensor([1.0, 2, 3, 3]), 3).hist,
        lambda m: m.histogram(m.tensor([1.0, 1]), 2).bin_edges,
        lambda m: m.unravel_index(m.tensor([5, 7]), (3, 4))[1],
        lambda m: m.median(m.tensor([1.0, float("nan"), 3.0]), 0).values,
        lambda m: m.nanmedian(m.tensor([1.0, float("nan"), 3.0, 2.0]), 0).indices,
        lambda m: m.tensor([1.0, float("nan"), 3.0]).sort(descending=True).indices,
        lambda m: m.block_diag(m.ones(2), m.ones(2, 1), m.tensor(3.0)),
        lambda m: m.zeros(3).repeat(2, 2),
        lambda m: m.cat([m.zeros(0), m.ones(1, 2)], -1),
        lambda m: m.cat([m.zeros(1), m.ones(1, dtype=m.int64)]),
        lambda m: m.as_strided_scatter(m.zeros(3, 4), m.ones(2, 2), (2, 2), (1, 5), 1),
    ],
)
def test_values_are_pytorchs(call):
    got, want = call(wend), call(torch)
    assert str(got.dtype) == str(want.dtype)
    np.testing.assert_array_equal(np.asarray(got), want.numpy())


@needs_torch
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
@pytest.mark.parametrize("pad", [(1, 2), (0, 3), (-1, 2), (2, -2), (0, 0)])
def test_padding_modes(mode, pad):
    x = np.arange(10.0).reshape(1, 2, 5)
    want = torch.nn.functional.pad(harness.to_torch(x), pad, mode)
    np.testing.assert_array_equal(np.asarray(ops.pad_mode(harness.tensor(x), pad, mode)), want)


# -- messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda x: x.reshape(5),
            ShapeError,
            r"reshape: shape '\[5\]' is invalid for input of",
        ),
        (
            lambda x: x.reshape(5, -1),
            ShapeError,
            r"'\[5, -1\]' is invalid for input of size 24",
        ),
        (lambda x: x.reshape(-1, -1), ShapeError, "only one dimension can be inferred"),
        (lambda x: x.reshape(-2, 12), ShapeError, "invalid shape dimension -2 at index 0"),
        (lambda x: x[:0].reshape(-1, 0), ShapeError, "the -1 can be any value and is ambiguous"),
        (lambda x: x.t().view(-1), ShapeError, r"t: expects a tensor with <= 2 dimensions"),
        (lambda x: x.mT.view(-1), ShapeError, r"Use .reshape\(...\) instead"),
        (lambda x: x.permute(0, 1), ShapeError, r"permute: dims \(0, 1\) orders 2 dims"),
        (lambda x: x.permute(0, 1, 1), ShapeError, "permute: dim 1 appears multiple times"),
        (lambda x: x.transpose(0, 3), DimError, r"transpose: Dimension out of range .*\[-3, 2\]"),
        (lambda x: x.movedim((0, 1), 2), ShapeError, "differ in their number of dims"),
        (lambda x: x.expand(2, 3), ShapeError, "number of sizes provided"),
        (lambda x: x.expand(2, 3, 5), ShapeError, r"expanded size of the tensor \(5\) must match"),
        (lambda x: x.expand(-1, 2, 3, 4), ShapeError, "a leading, non-existing dimension 0"),
        (lambda x: x.flatten(2, 1), ShapeError, "start_dim 2 comes after end_dim 1"),
        (lambda x: x.unflatten(2, (2, 3)), ShapeError, "unflatten: shape .* is invalid"),
        (lambda x: x.unflatten(2, ()), ShapeError, "sizes must be non-empty"),
        (lambda x: x.unsqueeze(4), DimError, r"unsqueeze: .*\[-4, 3\], but got 4"),
        (lambda x: x.squeeze((0, 0)), ShapeError, "squeeze: dim 0 appears multiple times"),
        (lambda x: x.narrow(0, 1, 2), ShapeError, r"start \(1\) \+ length \(2\) exceeds"),
        (lambda x: x.narrow(0, -3, 1), IndexOutOfRange, r"range of \[-2, 2\], but got -3"),
        (lambda x: x.narrow(0, 0, -1), ShapeError, "length must be non-negative"),
        (lambda x: x.select(0, 2), IndexOutOfRange, "index 2 is out of bounds for dimension 0"),
        (lambda x: x[0, 0, 0].select(0, 0), DimError, "cannot be applied to a 0-dim tensor"),
        (lambda x: x.diagonal(0, 1, 1), ShapeError, "diagonal dimensions cannot be identical"),
        (lambda x: x.unfold(1, 4, 1), ShapeError, "maximum size for tensor at dimension 1 is 3"),
        (lambda x: x.unfold(1, 2, 0), ShapeError, "step is 0 but must be > 0"),
        (lambda x: x.as_strided((2, 2), (1,)), ShapeError, "mismatch in length of strides"),
        (lambda x: x.as_strided((20, 2), (1, 10)), ShapeError, "out of bounds for storage of 24"),
        (lambda x: x.flip(0, 0), ShapeError, "flip: dim 0 appears multiple times"),
        (lambda x: x.roll((1, 2)), ShapeError, "shifts and dimensions must align"),
        (lambda x: wend.cat([]), ArgumentError, "cat: expected a non-empty list of Tensors"),
        (
            lambda x: wend.cat([x, x[0]]),
            ShapeError,
            "same number of dimensions: got 3 and 2",
        ),
        (lambda x: wend.cat([x, x[:, :, :2]]), ShapeError, "expected size 4 but got size 2 in"),
        (lambda x: wend.cat([x[0, 0, 0]]), ShapeError, "use stack"),
        (
            lambda x: wend.stack([x, x[0]]),
            ShapeError,
            "each tensor to be equal size",
        ),
        (lambda x: ops.pad(x, (1,)), ShapeError, "padding length must be divisible by 2"),
        (lambda x: ops.pad(x, (1,) * 8), ShapeError, "less than or equal to two times"),
        (lambda x: ops.pad(x, (-3, -2)), ShapeError, "leave an extent of -1"),
        (
            lambda x: ops.pad_mode(x, (4, 1), "reflect"),
            ShapeError,
            "less than the corresp",
        ),
        (
            lambda x: ops.pad_mode(x, (5, 1), "circular"),
            ShapeError,
            "around more than once",
        ),
        (
            lambda x: ops.pad_mode(x, (1, 1), "foo"),
            NotImplementedError,
            "unrecognised padding",
        ),
        (lambda x: x.repeat(2), ShapeError, "can not be smaller than number of dimensions"),
        (lambda x: x.split(0), ShapeError, "split_size can only be 0"),
        (lambda x: x.split([1, 2]), ShapeError, "sum exactly to 2"),
        (lambda x: x.chunk(0), ShapeError, "`chunks` to be greater than 0, got: 0"),
        (lambda x: x[0, 0, 0].unbind(), DimError, "tensor has no dimensions"),
        (lambda x: x.hsplit(2), ShapeError, "hsplit: attempted to split along dimension 1"),
        (lambda x: wend.meshgrid(x), ShapeError, "expected 0D or 1D tensor"),
        (lambda x: wend.meshgrid(x[0, 0], indexing="zz"), RuntimeError, "indexing must be one of"),
        (lambda x: x.rot90(1, (0, 0)), ShapeError, "rotation dims to be different"),
        (lambda x: x[0, 0].tril(), ShapeError, "tril: input tensor must have at least 2"),
        (lambda x: wend.diag(x), ShapeError, "diag: supports 1D or 2D tensors"),
        (lambda x: ops.one_hot(x), DTypeError, "one_hot: is only applicable"),
        (lambda x: wend.broadcast_tensors(x, x[:, :2]), ShapeError, "do not broadcast: dim -2"),
        (lambda x: x.slice_scatter(x, 1, 0, 1), ShapeError, "size equal to the slice of the input"),
    ],
)
def test_messages(call, error, text):
    with pytest.raises(error, match=text):
        call(tensor(2, 3, 4))
