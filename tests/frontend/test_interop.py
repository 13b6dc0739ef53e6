"""Tensors and the world outside: NumPy, DLPack, pickle, copies; memory shared both ways."""

from __future__ import annotations

import copy
import gc
import pickle
import sys

import numpy as np
import pytest

import wend
from tries import own_trie
from wend._engine.base import config, dtypes
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError
from wend._frontend.interop.exchange import from_dlpack, to_dlpack, user_attributes
from wend.nn.parameter import Parameter

torch = pytest.importorskip("torch")
NUMBERS = [dtype.name for dtype in dtypes.ALL]


# --- NumPy ----------------------------------------------------------------------------------------


def test_numpy_shares_memory_both_ways():
    x = wend.zeros(3).clone()
    array = x.numpy()
    array[0] = 5
    assert x.tolist() == [5.0, 0.0, 0.0]
    x += 1
    assert array.tolist() == [6.0, 1.0, 1.0]
    x[2] = 9
    assert array.tolist() == [6.0, 1.0, 9.0]


def test_numpy_of_a_view_shares_the_memory_of_the_base():
    x = wend.arange(6.0).clone().view(2, 3)
    array = x[1].numpy()
    array[0] = -1
    assert x.tolist() == [[0.0, 1.0, 2.0], [-1.0, 4.0, 5.0]]
    x.zero_()
    assert array.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", [n for n in NUMBERS if n != "bfloat16"])
def test_numpy_of_every_type(name):
    x = wend.tensor([0, 1, 2]).to(dtypes.NAMES[name])
    array = x.numpy()
    assert array.dtype == np.dtype(name) and array.tolist() == x.tolist()


def test_numpy_of_pending_and_odd_shapes():
    x = wend.ones(2, 3) * 2 + 1
    assert x.numpy().tolist() == [[3.0] * 3] * 2
    assert wend.tensor(3.5).numpy().shape == () and wend.zeros(0, 2).numpy().shape == (0, 2)
    assert wend.ones(2, 3).t().numpy().shape == (3, 2)


def test_numpy_needs_a_tensor_without_history():
    x = wend.ones(2, requires_grad=True)
    for bad in (x, x * 2):
        with pytest.raises(GraphError, match="detach"):
            bad.numpy()
        with pytest.raises(RuntimeError, match="detach"):
            np.asarray(bad)
        assert bad.numpy(force=True).shape == (2,) and bad.detach().numpy().shape == (2,)


def test_numpy_has_no_bfloat16():
    x = wend.tensor([1.0, 2.0], dtype=dtypes.bfloat16)
    with pytest.raises(ArgumentTypeError, match="BFloat16"):
        x.numpy()
    assert np.asarray(x).tolist() == [1.0, 2.0]
    assert x.tolist() == [1.0, 2.0] and x.float().numpy().tolist() == [1.0, 2.0]


def test_asarray_shares_and_array_copies():
    x = wend.zeros(2).clone()
    shared, copied = np.asarray(x), np.array(x)
    x[0] = 3
    assert shared.tolist() == [3.0, 0.0] and copied.tolist() == [0.0, 0.0]
    assert np.asarray(x, dtype=np.int64).tolist() == [3, 0]
    with pytest.raises(ArgumentError, match="without a copy"):
        np.asarray(x, dtype=np.int64, copy=False)
    assert np.stack([x, x]).shape == (2, 2)


def test_sharing_ends_with_the_array():
    x = wend.zeros(2).clone()
    array = x.numpy()
    array[0] = 1
    assert x.tolist() == [1.0, 0.0]
    del array
    gc.collect()
    y = x + 1
    x += 10
    assert y.tolist() == [2.0, 1.0] and x.tolist() == [11.0, 10.0]


def test_numpy_functions_give_tensors():
    x = wend.tensor([1.0, 4.0])
    result = np.sqrt(x)
    assert isinstance(result, wend.Tensor) and result.tolist() == [1.0, 2.0]
    assert isinstance(np.abs(wend.tensor([-1])), wend.Tensor)


def test_operators_between_arrays_and_tensors_give_tensors():
    x, array = wend.tensor([1.0, 2.0]), np.array([10.0, 20.0])
    for result, expected in [
        (x + array, [11.0, 22.0]), (array + x, [11.0, 22.0]), (array * x, [10.0, 40.0]),
        (array - x, [9.0, 18.0]), (np.float64(2) * x, [2.0, 4.0]), (x * np.int64(2), [2.0, 4.0]),
    ]:  # fmt: skip
        assert isinstance(result, wend.Tensor) and result.tolist() == expected


def test_tolist_and_item():
    assert wend.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert (
        type(wend.tensor([1]).tolist()[0]) is int and type(wend.tensor([True]).tolist()[0]) is bool
    )
    assert wend.tensor(2.5).tolist() == 2.5 and wend.zeros(0, 2).tolist() == []
    assert wend.tensor([1 + 2j]).tolist() == [1 + 2j]
    assert type(wend.tensor(3).item()) is int and type(wend.tensor([[1.5]]).item()) is float
    assert type(wend.tensor(True).item()) is bool
    with pytest.raises(RuntimeError, match="2 elements"):
        wend.ones(2).item()


# --- DLPack ---------------------------------------------------------------------------------------


def test_dlpack_to_torch_and_back():
    x = wend.arange(6.0).clone().view(2, 3)
    theirs = torch.from_dlpack(x)
    assert theirs.tolist() == x.tolist()
    theirs[0, 0] = 9
    assert x.tolist()[0][0] == 9
    x += 1
    assert theirs[0, 0].item() == 10
    other = torch.arange(3.0)
    ours = from_dlpack(other)
    other[0] = 5
    assert ours.tolist() == [5.0, 1.0, 2.0]
    ours[1] = 7
    assert other.tolist() == [5.0, 7.0, 2.0]


@pytest.mark.parametrize("name", [n for n in NUMBERS if n != "bfloat16"])
def test_dlpack_of_every_type(name):
    x = wend.tensor([0, 1, 2]).to(dtypes.NAMES[name])
    assert str(torch.from_dlpack(x).dtype) == f"torch.{name}"
    assert from_dlpack(torch.tensor([0, 1, 2]).to(getattr(torch, name))).tolist() == x.tolist()
    assert np.from_dlpack(x).tolist() == x.tolist()


def test_dlpack_of_views_capsules_arrays_and_tensors():
    x = wend.arange(6.0).clone().view(2, 3)
    assert torch.from_dlpack(x.t()).tolist() == x.t().tolist()
    assert from_dlpack(to_dlpack(x)).tolist() == x.tolist()
    assert from_dlpack(np.arange(3.0)).tolist() == [0.0, 1.0, 2.0]
    alias = from_dlpack(x)
    alias[0, 0] = 4
    assert x.tolist()[0][0] == 4
    assert from_dlpack(torch.ones(2, 3).t()).shape == (3, 2)
    copied = from_dlpack(x, copy=True)
    x.zero_()
    assert copied.tolist()[0][0] == 4
    assert x.__dlpack_device__() == (1, 0)


def test_a_capsule_shares_memory_and_serves_once():
    import wend.utils.dlpack as pack

    x = wend.zeros(3)
    capsule = pack.to_dlpack(x)
    pack.from_dlpack(capsule)[0] = 3.0
    assert x.tolist() == [3.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="used once"):
        pack.from_dlpack(capsule)
    torch = pytest.importorskip("torch")
    from torch.utils import dlpack as theirs

    other = torch.zeros(2, 3).t()
    ours = pack.from_dlpack(theirs.to_dlpack(other))
    ours[0, 1] = 5.0
    assert other[0, 1] == 5.0
    other = theirs.from_dlpack(pack.to_dlpack(x))
    other[1] = 4.0
    assert x.tolist() == [3.0, 4.0, 0.0]


def test_numbers_of_numpy_are_weak():
    x = wend.tensor(1, dtype=wend.int32)
    for number in (np.int64(2), np.uint8(2)):
        for y in (x + number, number * x, x // number):
            assert y.dtype is wend.int32
        assert wend.result_type(x, number) is wend.int32
    assert wend.result_type(x, np.float64(2)) is wend.float32
    assert (x + np.float32(0.5)).dtype is wend.float32


def test_dlpack_refuses():
    with pytest.raises(BufferError, match="detach"):
        wend.ones(1, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="bfloat16"):
        wend.ones(1, dtype=dtypes.bfloat16).__dlpack__()
    with pytest.raises(BufferError, match="stream"):
        wend.ones(1).__dlpack__(stream=3)
    with pytest.raises(BufferError, match="cpu"):
        wend.ones(1).__dlpack__(dl_device=(2, 0))
    with pytest.raises(ArgumentTypeError, match="no __dlpack__"):
        from_dlpack([1])
    with pytest.raises(ArgumentError, match="from_dlpack"):
        from_dlpack(torch.ones(1, dtype=torch.bfloat16))

    class Elsewhere:
        def __dlpack__(self, **options):
            raise AssertionError("not to be called")

        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(ArgumentError, match=r"kind 2.*move it to the cpu"):
        from_dlpack(Elsewhere())


def test_there_is_no_cuda_interface():
    assert not hasattr(wend.ones(1), "__cuda_array_interface__")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes have the buffer protocol from 3.12")
def test_memoryview_of_a_tensor():
    assert memoryview(wend.ones(2)).tolist() == [1.0, 1.0]


# --- pickle ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_pickle_of_every_type(name, protocol):
    x = wend.tensor([[0, 1], [2, 3]]).to(dtypes.NAMES[name])
    result = pickle.loads(pickle.dumps(x, protocol))
    assert result.dtype is x.dtype and result.tolist() == x.tolist()
    result.zero_()
    assert x.tolist() != result.tolist()


def test_pickle_keeps_what_belongs_to_the_tensor():
    leaf = wend.ones(2, requires_grad=True)
    leaf.tag = "mine"
    result = pickle.loads(pickle.dumps(leaf))
    assert result.requires_grad and result.is_leaf and result.tag == "mine"
    assert pickle.loads(pickle.dumps(wend.ones(2, 3).t())).tolist() == [[1.0, 1.0]] * 3
    assert pickle.loads(pickle.dumps(wend.tensor(3.0))).shape == ()
    assert pickle.loads(pickle.dumps(wend.zeros(0, 2))).shape == (0, 2)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(), lambda x: x.reshape(3, 1, 2).permute(2, 0, 1), lambda x: x,
        lambda x: x.reshape(3, 1, 2).permute(1, 2, 0), lambda x: x.reshape(1, 2, 3).mT,
    ],
)  # fmt: skip
@pytest.mark.parametrize("grad", [False, True])
def test_pickle_keeps_strides(view, grad):
    x = view(wend.arange(6.0).reshape(2, 3)).detach().requires_grad_(grad)
    result = pickle.loads(pickle.dumps(x))
    for size, stride, expected in zip(x.shape, result.stride(), x.stride(), strict=True):
        assert size == 1 or stride == expected  # along a dim of size 1 it says nothing
    assert result.shape == x.shape and result.tolist() == x.tolist()
    assert result.is_leaf and result.requires_grad is grad
    if grad:
        (result * result).sum().backward()
        assert result.grad.tolist() == (x.detach() * 2).tolist()


@pytest.mark.parametrize(
    "view", [lambda x: x[:, ::2].t(), lambda x: x[:, :1].expand(2, 4), lambda x: x[:, 1]]
)
def test_pickle_packs_what_has_gaps_or_repeats(view):
    x = view(wend.arange(6.0).reshape(2, 3))
    result = pickle.loads(pickle.dumps(x))
    assert result.is_contiguous() and result.tolist() == x.tolist()


def test_pickle_of_a_parameter():
    result = pickle.loads(pickle.dumps(Parameter(wend.ones(2), requires_grad=False)))
    assert type(result) is Parameter and not result.requires_grad


class Special(wend.Tensor):
    pass


def test_pickle_and_copies_of_a_subclass():
    x = wend.ones(2).as_subclass(Special)
    x.tag = 1
    for made in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert type(made) is Special and made.tag == 1 and made.tolist() == [1.0, 1.0]


# --- copies ---------------------------------------------------------------------------------------


def test_deepcopy_is_independent():
    x = wend.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    made = copy.deepcopy(x)
    assert made.requires_grad and made.is_leaf and made.grad.tolist() == [3.0, 3.0]
    with wend.no_grad():
        made[0] = 7
    made.grad.zero_()
    assert x.tolist() == [1.0, 1.0] and x.grad.tolist() == [3.0, 3.0]


def test_deepcopy_keeps_shared_memory_shared():
    base = wend.zeros(4).clone()
    names = {"base": base, "part": base[1:3], "other": base.detach(), "again": base}
    made = copy.deepcopy(names)
    assert made["again"] is made["base"]
    made["part"][0] = 5
    assert made["base"].tolist() == [0.0, 5.0, 0.0, 0.0] == made["other"].tolist()
    assert base.tolist() == [0.0] * 4


def test_deepcopy_of_attributes_and_cycles():
    x = wend.ones(1)
    x.notes = [x]
    made = copy.deepcopy(x)
    assert made.notes[0] is made and user_attributes(made).keys() == {"notes"}


def test_deepcopy_needs_a_leaf():
    x = wend.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)
    copy.deepcopy((x * 2).detach())


def test_a_shallow_copy_shares_the_memory():
    x = wend.zeros(2).clone()
    made = copy.copy(x)
    made[0] = 3
    assert made is not x and x.tolist() == [3.0, 0.0]
    leaf = copy.copy(wend.ones(1, requires_grad=True))
    assert leaf.requires_grad and leaf.is_leaf


def test_ops_are_copied_and_pickled_by_name():
    import copy
    import pickle

    relu = wend.nn.functional.relu
    for op in (wend.add, relu, wend.nn.functional.gelu, wend.Tensor.add_):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(op, protocol)) is op
        assert copy.deepcopy([op])[0] is op and copy.copy(op) is op
    layer = wend.nn.TransformerEncoder(wend.nn.TransformerEncoderLayer(4, 2), 2).layers[1]
    assert layer.activation is relu


@pytest.mark.parametrize("sealed", [False, True], ids=["plans", "regions"])
def test_kernels_read_arrays_of_every_kind(sealed, tmp_path):
    """Memory maps and arrays that are not aligned have no address that a kernel could be given."""
    path = tmp_path / "numbers.bin"
    np.arange(8, dtype=np.float32).tofile(path)
    mapped = np.memmap(path, dtype=np.float32, mode="r+")
    shifted = np.zeros(33, np.uint8)[1:].view(np.float32)
    shifted[...] = np.arange(8)
    assert not shifted.flags.aligned
    with config.override(compile=True, wait=True):
        for array in (mapped, shifted, mapped[::-1].copy()[::2], np.float32(3) + mapped):
            expected = np.array(array)
            x = wend.from_numpy(array)
            with own_trie(sealed=sealed):
                both = wend.stack([x, x * 2])
                np.testing.assert_array_equal(both.numpy(), [expected, expected * 2])
            with own_trie(sealed=sealed):
                product = x.reshape(-1, 2) @ wend.ones(2, 3)
                np.testing.assert_array_equal(product[:, 1].numpy(), expected.reshape(-1, 2).sum(1))
