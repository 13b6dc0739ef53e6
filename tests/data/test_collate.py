"""Collating: what a batch is made of, and errors that name samples and fields."""

import collections
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import wend
from wend.utils.data import DataLoader, default_collate, default_convert
from wend.utils.data._utils.collate import MissingField, UnlikeSamples, collate

Point = collections.namedtuple("Point", "x y")


@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.int64, np.bool_, np.float64, np.uint8]),
        arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4).filter(lambda s: s[0]),
    )
)
def test_arrays_and_tensors_are_stacked(stacked):
    for samples in (list(stacked), [wend.from_numpy(np.array(part)) for part in stacked]):
        batch = default_collate(samples)
        assert batch.numpy().dtype == stacked.dtype
        np.testing.assert_array_equal(batch.numpy(), stacked)


@pytest.mark.parametrize(
    ("samples", "values", "dtype"),
    [
        ([1, 2], [1, 2], "torch.int64"),
        ([1.5, 2], [1.5, 2.0], "torch.float64"),
        ([True, False], [True, False], "torch.bool"),
        ([np.float32(1.5)], [1.5], "torch.float32"),
        ([np.int16(1), np.int16(2)], [1, 2], "torch.int16"),
        ([np.bool_(True)], [True], "torch.bool"),
        ([1, 2.5], [1.0, 2.5], "torch.float32"),
    ],
)
def test_numbers(samples, values, dtype):
    batch = default_collate(samples)
    assert batch.tolist() == values
    assert str(batch.dtype) == dtype


def test_text_stays_as_it_is():
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([b"a"]) == [b"a"]
    assert default_collate([("a", 1), ("b", 2)])[0] == ("a", "b")  # a column, as in PyTorch


def test_structure_is_kept():
    batch = default_collate([{"p": Point(1, [2, "a"])}, {"p": Point(3, [4, "b"]), "q": 0}])
    assert type(batch["p"]) is Point
    assert batch["p"].x.tolist() == [1, 3]
    assert [batch["p"].y[0].tolist(), batch["p"].y[1]] == [[2, 4], ("a", "b")]
    assert set(batch) == {"p"}
    assert type(default_collate([(1, 2)])) is list
    ordered = default_collate([collections.OrderedDict(a=1)])
    assert type(ordered) is collections.OrderedDict
    frozen = default_collate([types.MappingProxyType({"a": 1})])
    assert frozen["a"].tolist() == [1]
    assert [part.tolist() for part in default_collate([range(2), range(2)])] == [[0, 0], [1, 1]]


def test_the_samples_are_not_changed():
    samples = [{"a": [1]}, {"a": [2]}]
    default_collate(samples)
    assert samples == [{"a": [1]}, {"a": [2]}]


def test_stacking_keeps_history():
    x = wend.ones(2, requires_grad=True)
    default_collate([x, x * 2]).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_dtypes_are_promoted():
    batch = default_collate([wend.ones(1, dtype=wend.float64), wend.ones(1)])
    assert str(batch.dtype) == "torch.float64"
    assert str(default_collate([np.ones(1, np.float32), np.ones(1)]).dtype) == "torch.float64"


def test_unlike_shapes_name_field_samples_and_what_to_do():
    samples = [{"image": (np.zeros((1, size)), 0)} for size in (2, 3, 2)]
    with pytest.raises(RuntimeError) as caught:
        default_collate(samples)
    assert isinstance(caught.value, UnlikeSamples)
    assert str(caught.value).splitlines() == [
        "default_collate: samples of unlike shapes cannot be stacked at ['image'][0]",
        "  (1, 2): samples 0, 2",
        "  (1, 3): sample 1",
        "  make one nested tensor of them with DataLoader(collate_fn=wend.utils.data.ragged), or "
        "batches of one shape with wend.utils.data.BucketBatchSampler; or crop, resize or pad in "
        "the data set; or keep samples apart with DataLoader(collate_fn=list)",
    ]


def test_a_loader_names_the_samples_indices_as_well():
    images = [wend.zeros(3, size, size) for size in (4, 4, 5, 4)]
    with pytest.raises(RuntimeError) as caught:
        list(DataLoader(images, batch_size=3, sampler=[3, 1, 2, 0]))
    assert "(3, 4, 4): samples 0, 1 (dataset[3], dataset[1])" in str(caught.value)
    assert "(3, 5, 5): sample 2 (dataset[2])" in str(caught.value)


def test_long_lists_of_samples_are_cut():
    with pytest.raises(RuntimeError, match=r"\(1,\): samples 0, 1, 2, 3, 4, 5 and 14 more\n"):
        default_collate([np.zeros(1)] * 20 + [np.zeros(2)])


def test_unlike_lengths():
    with pytest.raises(RuntimeError, match=r"unlike lengths.* at \.y\n  length 1: sample 0\n"):
        default_collate([Point(1, [2]), Point(1, [2, 3])])


def test_a_missing_key():
    with pytest.raises(KeyError, match=r"sample 1 at \[0\] has no key 'b'.*its keys are \['a'\]"):
        default_collate([[{"a": 1, "b": 2}], [{"a": 1}]])
    with pytest.raises(MissingField):
        default_collate([{"a": 1}, {}])


@pytest.mark.parametrize(
    ("samples", "fault"),
    [
        ([None], "sample 0 is of type NoneType"),
        ([{"a": object()}], r"sample 0 at \['a'\] is of type object"),
        ([1, None], "sample 1 is of type NoneType"),
        ([np.zeros(1), None], "sample 1 is of type NoneType"),
        ([np.array(["a"])], "sample 0 is of type numpy.ndarray of dtype <U1"),
        ([[1], 2], "sample 1 is of type int"),
        ([[1], "a"], "sample 1 is of type str"),
        ([{}, []], "sample 1 is of type list"),
        ([], "a batch of no samples"),
    ],
)
def test_other_types(samples, fault):
    with pytest.raises(TypeError, match=fault):
        default_collate(samples)


def test_mixed_tensors_and_numbers():
    with pytest.raises(TypeError, match="sample 1 is of type float"):
        default_collate([wend.zeros(()), 1.0])


def test_own_types_by_a_table():
    class Text(str):
        pass

    def joined(samples, *, collate_fn_map):
        return "+".join(samples)

    assert collate([(Text("a"), 1), (Text("b"), 2)], collate_fn_map={Text: joined})[0] == "a+b"
    assert collate([Text("a")], collate_fn_map={(str, bytes): joined}) == "a"


def test_the_error_survives_pickling():
    import pickle

    with pytest.raises(UnlikeSamples) as caught:
        default_collate([np.zeros(1), np.zeros(2)])
    named = caught.value.with_indices([5, 6])
    again = pickle.loads(pickle.dumps(named))
    assert str(again) == str(named)
    assert again.groups == [("(1,)", [0]), ("(2,)", [1])]


def test_convert():
    array = np.zeros(2)
    sample = default_convert({"a": array, "b": ("x", np.int64(3)), "c": [Point(1, None)]})
    assert sample["a"].shape == (2,)
    array[0] = 7
    assert sample["a"][0].item() == 7  # the same memory, as torch.as_tensor
    assert sample["b"][0] == "x"
    assert sample["b"][1].item() == 3
    assert sample["c"] == [Point(1, None)]
    text = np.array(["a"])
    assert default_convert(text) is text


def test_read_only_arrays_are_copied():
    array = np.arange(3)
    array.flags.writeable = False
    default_convert(array)[0] = 5
    assert array[0] == 0
