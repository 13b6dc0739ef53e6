"""safetensors files: what the reference package writes and reads, and damage."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wend
from wend._engine.base import dtypes
from wend.serialization import CheckpointError, safetensors

reference = pytest.importorskip("safetensors.torch")
torch = pytest.importorskip("torch")
NUMBERS = [code.name for code in safetensors.CODE_OF]


def listed(tensor):
    return np.array(tensor.tolist(), dtype=complex)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0)], ids=str)
def test_every_type_and_shape_both_ways(dtype, shape):
    theirs = torch.from_numpy(np.asarray(np.arange(np.prod(shape)).reshape(shape)))
    theirs = theirs.to(getattr(torch, dtype))
    read = safetensors.load(reference.save({"x": theirs}))["x"]
    assert str(read.dtype) == str(theirs.dtype) and tuple(read.shape) == shape
    np.testing.assert_array_equal(listed(read), listed(theirs))
    back = reference.load(safetensors.save({"x": read}))["x"]
    assert back.dtype == theirs.dtype and torch.equal(back, theirs)


def test_files_with_metadata(tmp_path):
    path = tmp_path / "model.safetensors"
    tensors = {"b": wend.ones(3, dtype=dtypes.int8), "a": wend.arange(4.0), "c": wend.tensor(True)}
    safetensors.save_file(tensors, path, {"format": "pt", "näme": "välue"})
    read = reference.load_file(path)
    assert set(read) == {"a", "b", "c"} and read["a"].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert safetensors.read_metadata(path) == {"format": "pt", "näme": "välue"}
    reference.save_file({"x": torch.ones(2)}, path, {"k": "v"})
    assert safetensors.load_file(path)["x"].tolist() == [1.0, 1.0]
    assert safetensors.read_metadata(path) == {"k": "v"}
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_tensors_are_aligned_and_writable():
    data = safetensors.save({"a": wend.ones(3, dtype=dtypes.int8), "b": wend.ones(2)})
    header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    assert header["b"]["data_offsets"] == [0, 8] and len(data) % 1 == 0
    read = safetensors.load(data)
    read["b"][0] = 5
    assert read["b"].tolist() == [5.0, 1.0]


def test_views_are_written_by_value():
    base = wend.arange(6.0).view(2, 3)
    read = reference.load(safetensors.save({"t": base.t(), "row": base[1]}))
    assert read["t"].tolist() == base.t().tolist() and read["row"].tolist() == [3.0, 4.0, 5.0]


def test_no_tensors_at_all():
    assert safetensors.load(safetensors.save({})) == {}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: safetensors.save({"a": [1]}), "'a' is a list"),
        (lambda: safetensors.save({1: wend.ones(1)}), "1 cannot be the name"),
        (lambda: safetensors.save({"__metadata__": wend.ones(1)}), "cannot be the name"),
        (lambda: safetensors.save({}, {"a": 1}), "map str to str"),
        (lambda: safetensors.save({"z": wend.zeros(1, dtype=dtypes.complex128)}), "complex128"),
    ],
)
def test_bad_arguments(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def file_of(header, data=b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "too few"),
        (b"1234567", "too few"),
        (struct.pack("<Q", 2**40), "a header of"),
        (struct.pack("<Q", 100) + b"{}", "a header of"),
        (file_of(b"no json"), "not JSON"),
        (file_of(b"[" * 100_000), "not JSON"),
        (file_of(b"[]"), "not a table"),
        (file_of(b'{"a": 1, "a": 2}'), "twice"),
        (file_of({"a": 5}), "damaged"),
        (file_of({"a": {"dtype": "F32"}}), "damaged"),
        (file_of({"a": entry("F8_E4M3")}), "F8_E4M3"),
        (file_of({"a": entry(dtype=5)}), "which Wend does not have"),
        (file_of({"a": entry(shape=(-2,))}), "impossible"),
        (file_of({"a": entry(shape=(2**63,))}), "impossible"),
        (file_of({"a": entry(shape=(1.5,))}), "impossible"),
        (file_of({"a": entry(shape=(1,) * 70)}), "impossible"),
        (file_of({"a": entry(shape=(3,))}, b"x" * 8), "needs 12 bytes"),
        (file_of({"a": entry(shape=(2**40, 2**40))}, b"x" * 8), "needs"),
        (file_of({"a": entry()}), "truncated"),
        (file_of({"a": entry()}, b"x" * 9), "truncated or damaged"),
        (file_of({"a": entry(offsets=(4, 12))}, b"x" * 12), "begins at byte 4"),
        (file_of({"a": entry(), "b": entry()}, b"x" * 8), "begins at byte 0"),
        (file_of({"__metadata__": {"a": 1}}), "metadata"),
        (file_of({"__metadata__": 5}), "metadata"),
    ],
)
def test_damaged_files(data, words):
    with pytest.raises(CheckpointError, match=words):
        safetensors.load(data)


GOOD = safetensors.save({"a": wend.ones(3), "b": wend.zeros(2, dtype=dtypes.int64)}, {"k": "v"})


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(GOOD) - 1))
def test_truncated_files(length):
    with pytest.raises(CheckpointError):
        safetensors.load(GOOD[:length])


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_changed_bytes_give_our_error_or_tensors(place, value):
    changed = bytearray(GOOD)
    changed[place] = value
    try:
        safetensors.load(bytes(changed))
    except CheckpointError:
        pass


def test_a_program_that_is_run_saves_with_safetensors_own_names(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, torch\n"
        "from safetensors.torch import load_file, save_file\n"
        "save_file({'a': torch.arange(3.0)}, sys.argv[1])\n"
        "loaded = load_file(sys.argv[1])['a']\n"
        "assert type(loaded) is torch.Tensor and loaded.tolist() == [0.0, 1.0, 2.0]\n"
    )
    path = tmp_path / "a.safetensors"
    command = [sys.executable, "-m", "wend", "run", str(program), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert reference.load_file(path)["a"].tolist() == [0.0, 1.0, 2.0]


def test_tensors_read_one_by_one(tmp_path):
    """The program of the reference's `safe_open`, under `wend run` as under PyTorch."""
    program = f"""
import torch
from safetensors import safe_open
from safetensors.torch import save_file
path = {str(tmp_path / "model.safetensors")!r}
save_file({{"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, dtype=torch.int64)}}, path, {{"k": "v"}})
with safe_open(path, framework="pt", device="cpu") as file:
    print(sorted(file.keys()), file.metadata())
    print([file.get_tensor(name).tolist() for name in ("a", "b")])
    part = file.get_slice("a")
    print(part.get_shape(), part.get_dtype(), part[:, 1:].tolist())
    try:
        file.get_tensor("c")
    except Exception as error:
        print(str(error).split(": ")[-1])
print(safe_open(path, "np").get_tensor("a").tolist())
"""  # noqa: E501 (a line of the program)
    script = tmp_path / "program.py"
    script.write_text(program)
    told = [
        subprocess.run(
            [sys.executable, *start, str(script)], capture_output=True, text=True, check=True
        ).stdout
        for start in ([], ["-m", "wend", "run"])
    ]
    assert told[0] == told[1] and "does not contain tensor c" in told[0]
    with pytest.raises(CheckpointError):
        script.write_bytes(b"short")
        safetensors.SafeFile(script)


PARTS = [
    2, -1, slice(None), slice(1, 3), slice(-2, None), slice(3, 1), slice(9, 12), slice(0, 4, 2),
    slice(1, 3, 1), ..., None, (), True, [0, 2], (slice(1, 3), 1), (1, slice(0, 2)), (-4, ..., 0),
    (slice(2, 4), ..., slice(1, None)), (..., 1), (None, 1), np.int64(2), (slice(1, 3), [0, 2]),
    (1, [0, 2]), slice(np.int64(1), None),
]  # fmt: skip


@pytest.mark.parametrize("index", PARTS, ids=str)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16, dtypes.bool_])
def test_slices_are_the_parts_of_the_tensor(index, dtype, tmp_path):
    x = wend.arange(24).reshape(4, 3, 2).to(dtype)
    safetensors.save_file({"before": wend.ones(5), "x": x, "y": wend.ones(3)}, tmp_path / "x")
    with safetensors.SafeFile(tmp_path / "x") as file:
        part = file.get_slice("x")[index]
    assert part.dtype == dtype and part.shape == x[index].shape
    assert part.tolist() == x[index].tolist()


@pytest.mark.parametrize("index", [4, -5, (0, 3), (slice(0, 2), 3), (0, 0, 0, 0), "a", 1.5])
def test_wrong_indices_of_slices_are_those_of_the_tensor(index, tmp_path):
    x = wend.zeros(4, 3, 2)
    safetensors.save_file({"x": x}, tmp_path / "x")
    with pytest.raises((IndexError, TypeError)) as expected:
        x[index].tolist()
    with safetensors.SafeFile(tmp_path / "x") as file:
        part = file.get_slice("x")
        with pytest.raises(type(expected.value)):
            part[index].tolist()


def test_slices_of_tensors_without_elements_or_dims(tmp_path):
    tensors = {"scalar": wend.tensor(3.0), "none": wend.zeros(0, 2), "narrow": wend.zeros(2, 0)}
    safetensors.save_file(tensors, tmp_path / "x")
    with safetensors.SafeFile(tmp_path / "x") as file:
        assert file.get_slice("scalar")[...].item() == 3.0
        assert file.get_slice("none")[1:].shape == (0, 2)
        assert file.get_slice("narrow")[1].shape == (0,)
        with pytest.raises(IndexError):
            file.get_slice("scalar")[0]
        with pytest.raises(IndexError):
            file.get_slice("none")[0]


def test_slices_read_only_their_rows(tmp_path, monkeypatch):
    safetensors.save_file({"x": wend.zeros(1000, 100)}, tmp_path / "x")
    read = []
    array = safetensors.FileSource.array
    monkeypatch.setattr(
        safetensors.FileSource,
        "array",
        lambda self, at, count: (read.append(count), array(self, at, count))[1],
    )
    with safetensors.SafeFile(tmp_path / "x") as file:
        part = file.get_slice("x")
        assert read == []
        part[3], part[5:9, 1:], part[::2]
    assert read == [400, 1600, 400_000]
