"""Hostile and damaged checkpoints: our error, nothing executed, nothing allocated for claims."""

from __future__ import annotations

import gc
import io
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frontend.hostile_files import checkpoint, number, row, storage, tensor, text

import wend
from wend._engine.base.errors import DeviceError
from wend.serialization import CheckpointError, load, save
from wend.serialization._storages import Allowance

torch = pytest.importorskip("torch")


def test_the_helpers_make_an_honest_checkpoint():
    assert load(checkpoint(tensor())).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert load(checkpoint(tensor((2, 2), (1, 2)))).tolist() == [[0.0, 2.0], [1.0, 3.0]]
    assert torch.load(checkpoint(tensor(), version=b"3\n"), weights_only=True).tolist() == [
        0,
        1,
        2,
        3,
    ]


BAD_VIEWS = {
    "one too many": {"size": (5,)},
    "beyond the end": {"offset": 1},
    "far offset": {"size": (1,), "offset": 2**40},
    "huge size": {"size": (2**40,)},
    "overflowing size": {"size": (2**62, 2**62), "stride": (0, 0)},
    "overflowing product": {"size": (2**33, 2**33), "stride": (0, 0)},
    "huge stride": {"size": (2,), "stride": (2**62 - 1,)},
    "stride beyond 64 bits": {"size": (2,), "stride": (2**70,)},
    "negative size": {"size": (-1,)},
    "negative stride": {"size": (2,), "stride": (-1,)},
    "negative offset": {"offset": -1},
    "more sizes than strides": {"size": (2, 2)},
    "more strides than sizes": {"stride": (1, 1)},
    "too many dims": {"size": (1,) * 65, "stride": (1,) * 65},
}


@pytest.mark.parametrize("view", BAD_VIEWS.values(), ids=BAD_VIEWS.keys())
def test_views_must_lie_in_their_storage(view):
    with pytest.raises(CheckpointError, match="tensor"):
        load(checkpoint(tensor(**view)))


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (storage(count=5), "should have 5 elements"),
        (storage(count=2**60), "should have"),
        (storage(count=-1), "makes no sense"),
        (storage(key="7"), "the file holds no bytes"),
        (storage(key="../version"), "the file holds no bytes"),
        (storage(kind="DoubleStorage"), "elements of 8 bytes"),
        (storage(location="cuda:0"), "cuda:0"),
        (b"(" + text("storage") + b"tQ", "no storage"),
        (b"(" + text("tensor") + b"NNNNtQ", "no storage"),
        (b"(" + text("storage") + b"NNNNtQ", "makes no sense"),
        (b"NQ", "no storage"),
        (b"K\x05", "no typed storage"),
        (text("0"), "no typed storage"),
    ],
)
def test_storages_must_be_in_the_file(held, words):
    with pytest.raises((CheckpointError, DeviceError), match=words):
        load(checkpoint(tensor(held=held)))


def test_flags_and_metadata_are_checked():
    # An integer cannot require grad: the file says so, and is refused.
    ints = storage("IntStorage")
    with pytest.raises(CheckpointError, match="floating point"):
        load(checkpoint(tensor(held=ints, flags=b"\x88")))
    inside = storage() + number(0) + row((4,)) + row((1,)) + b"\x89N"
    for metadata in (b"K\x05", b"}" + text("conjugate") + b"\x88s"):
        with pytest.raises(CheckpointError, match=r"metadata|flag"):
            load(checkpoint(b"ctorch._utils\n_rebuild_tensor_v2\n(" + inside + metadata + b"tR"))


@pytest.mark.parametrize(
    "pickled",
    [
        b"ctorch._utils\n_rebuild_parameter\n(K\x01\x88NtR",
        b"ctorch._utils\n_rebuild_parameter_with_state\n(" + tensor() + b"\x88NK\x05tR",
        b"ctorch._utils\n_rebuild_parameter_with_state\n(" + tensor() + b"\x88N}K\x05K\x06stR",
        b"ctorch._utils\n_rebuild_tensor_v2\n)R",
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + b"N" * 20 + b"tR",
        b"ctorch._tensor\n_rebuild_from_type_v2\n(cbuiltins\nset\nN)NtR",
        b"ctorch._tensor\n_rebuild_from_type_v2\n(K\x05N)NtR",
        b"ctorch._utils\n_rebuild_sparse_tensor\n(tR",
        b"ctorch._utils\n_rebuild_qtensor\n(tR",
        b"ctorch\nSize\n(]" + text("a") + b"atR",
        b"ctorch\nSize\n(K\x05tR",
        b"ctorch\ndevice\n(K\x05tR",
        b"ctorch\ndevice\n" + text("nowhere") + b"\x85R",
        b"ctorch\nquint4x2\n",
        b"ctorch\nload\n",
        b"ctorch.hub\nload\n",
        b"c_codecs\nencode\n" + text("a") + text("rot13") + b"\x86R",
        b"c_codecs\nencode\n" + text("€") + text("latin1") + b"\x86R",
        b"cbuiltins\nbytearray\n\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x0f\x85R",
        b"cbuiltins\nbytes\n\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x0f\x85R",
        b"cbuiltins\nset\nK\x05\x85R",
        b"cbuiltins\nset\n]]a\x85R",
        b"cbuiltins\ncomplex\n" + text("1") + b"\x85R",
        b"ccollections\nOrderedDict\nK\x05\x85R",
        b"ccollections\nOrderedDict\n]]a\x85R",
        b"ccollections\nOrderedDict\n)RK\x05b",
        b"ccollections\nOrderedDict\n)R}K\x05K\x06sb",
        b"ccollections\nCounter\n]\x85R}b",
        b"ctorch.nn.parameter\nParameter\n" + tensor() + b"\x85\x81",
        b"ctorch\nTensor\n(K\x05tR",
        tensor() + b"}b",
        tensor() + b"K\x05a",
    ],
)
def test_names_are_called_as_torch_save_writes_them(pickled):
    with pytest.raises(CheckpointError):
        load(checkpoint(pickled))


# --- memory ---------------------------------------------------------------------------------------


def peak_of(action) -> int:
    """Bytes allocated at most, above what was there before."""
    wend.synchronize()  # what other tests left pending is not this one's
    gc.collect()
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_nothing_is_allocated_for_what_is_only_claimed():
    claims = [
        checkpoint(tensor(held=storage(count=2**40))),
        checkpoint(tensor((2**31,), (0,))),
        checkpoint(b"".join(tensor((2**20, 2**12), (0, 0)) + b"0" for _ in range(50)) + b"N"),
        checkpoint(b"cbuiltins\nbytearray\n\x8a\x06\xff\xff\xff\xff\xff\x0f\x85R"),
    ]

    def refuse():
        for claim in claims:
            with pytest.raises(CheckpointError):
                load(claim)

    refuse()  # imports and caches
    for claim in claims:
        claim.seek(0)
    assert peak_of(refuse) < 4_000_000


def test_a_storage_is_read_once_however_often_it_is_used():
    data = np.zeros(250_000, dtype=np.float32).tobytes()
    many = b"]" + b"".join(
        tensor((250_000,), (1,), held=storage(count=250_000)) + b"a" for _ in range(300)
    )
    buffer = checkpoint(many, data)
    load(buffer)
    buffer.seek(0)
    assert peak_of(lambda: load(buffer)) < 8_000_000


def test_many_large_views_are_refused_and_few_are_fine(monkeypatch):
    monkeypatch.setattr(Allowance, "BASE", 1 << 20)
    expanded = tensor((1 << 14, 4), (0, 1))
    assert load(checkpoint(expanded)).shape == (1 << 14, 4)
    with pytest.raises(CheckpointError, match="far larger than the file"):
        load(checkpoint(b"]" + (expanded + b"a") * 10))


# --- damage ---------------------------------------------------------------------------------------


def sample() -> bytes:
    theirs = torch.arange(6.0).reshape(2, 3)
    buffer = io.BytesIO()
    torch.save({"a": theirs, "b": theirs.t(), "c": [1, "x", torch.ones(2).half()]}, buffer)
    return buffer.getvalue()


SAMPLE = sample()


def ours() -> bytes:
    buffer = io.BytesIO()
    save({"a": wend.ones(2, 3), "b": [wend.zeros(5), {"c": 1}]}, buffer)
    return buffer.getvalue()


OURS = ours()


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([SAMPLE, OURS]), st.data())
def test_truncated_files_are_refused(data, draw):
    cut = data[: draw.draw(st.integers(0, len(data) - 1))]
    with pytest.raises(CheckpointError):
        load(io.BytesIO(cut))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([SAMPLE, OURS]), st.data())
def test_changed_bytes_give_our_error_or_an_object(data, draw):
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        changed[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        load(io.BytesIO(bytes(changed)))
    except (CheckpointError, DeviceError):
        pass


PICKLED = zipfile.ZipFile(io.BytesIO(SAMPLE)).read("archive/data.pkl")
RECORDS = {
    f"data/{i}": zipfile.ZipFile(io.BytesIO(SAMPLE)).read(f"archive/data/{i}") for i in range(2)
}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_changed_pickles_give_our_error_or_an_object(draw):
    """Damage behind the checksum: what a hostile writer would do."""
    changed = bytearray(PICKLED)
    for _ in range(draw.draw(st.integers(1, 4))):
        place = draw.draw(st.integers(0, len(changed) - 1))
        if draw.draw(st.booleans()):
            changed[place] = draw.draw(st.integers(0, 255))
        else:
            del changed[place : place + draw.draw(st.integers(1, 8))]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a/data.pkl", bytes(changed))
        for name, content in RECORDS.items():
            file.writestr(f"a/{name}", content)
    buffer.seek(0)
    try:
        load(buffer)
    except (CheckpointError, DeviceError):
        pass


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([
    tensor(), tensor((2, 2), (2, 1)), tensor((5,)), storage(), b"(", b"t", b"]", b"}", b"a", b"s",
    b"R", b"Q", b"b", b"0", b"K\x00", b"\x88", b"N", b"q\x00", b"h\x00", b"\x85", text("a"),
    b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch._utils\n_rebuild_parameter\n",
    b"ccollections\nOrderedDict\n", b"ctorch\nfloat32\n", b")",
]), max_size=25))  # fmt: skip
def test_shuffled_pieces_give_our_error_or_an_object(pieces):
    try:
        load(checkpoint(b"".join(pieces)))
    except (CheckpointError, DeviceError):
        pass
