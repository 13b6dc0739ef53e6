"""`save` and `load`: PyTorch's format both ways, values, sharing, and whole or not at all."""

from __future__ import annotations

import io
import os
import pathlib
import pickle
import stat
import sys
import zipfile
from collections import Counter, OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wend
from wend._engine.base import dtypes
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, DeviceError
from wend.nn.parameter import Parameter
from wend.serialization import (
    CheckpointError,
    UnsafeName,
    add_safe_globals,
    clear_safe_globals,
    get_unsafe_globals_in_checkpoint,
    load,
    safe_globals,
    save,
)

torch = pytest.importorskip("torch")
NUMBERS = [dtype.name for dtype in dtypes.ALL]


@pytest.fixture(autouse=True)
def nothing_declared_safe():
    yield
    clear_safe_globals()
    torch.serialization.clear_safe_globals()


def saved(obj, **options) -> io.BytesIO:
    buffer = io.BytesIO()
    save(obj, buffer, **options)
    buffer.seek(0)
    return buffer


def torch_saved(obj, **options) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(obj, buffer, **options)
    buffer.seek(0)
    return buffer


def to_torch(obj, **options):
    return torch.load(saved(obj), weights_only=True, **options)


def from_torch(obj, **options):
    return load(torch_saved(obj), **options)


def listed(tensor):
    """Values as nested lists, comparable across libraries (nan equals nan)."""
    return np.array(tensor.tolist(), dtype=complex)


def assert_same(ours, theirs) -> None:
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert ours.requires_grad == theirs.requires_grad
    np.testing.assert_array_equal(listed(ours), listed(theirs))


# --- values and types -----------------------------------------------------------------------------


def test_round_trip_of_a_state_dict():
    state = OrderedDict(weight=wend.tensor([[1.0, 2.0]]), bias=wend.tensor([3.0]))
    state._metadata = {"": {"version": 1}}
    result = load(saved(state))
    assert list(result) == ["weight", "bias"] and type(result) is OrderedDict
    assert result["weight"].tolist() == [[1.0, 2.0]]
    assert result._metadata == {"": {"version": 1}}


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (2, 0, 3), (1, 1, 1, 2)], ids=str)
def test_every_type_and_shape_both_ways(dtype, shape):
    rng = np.random.default_rng(0)
    values = rng.normal(size=shape) * 3
    if dtype.startswith("complex"):
        values = values + 1j
    theirs = torch.from_numpy(np.asarray(values)).to(getattr(torch, dtype))
    ours = from_torch(theirs)
    assert_same(ours, theirs)
    assert_same(ours, to_torch(ours))
    assert_same(load(saved(ours)), theirs)


def test_special_values_keep_their_bits():
    values = [float("nan"), float("inf"), -float("inf"), -0.0, 5e-324]
    ours = wend.tensor(values, dtype=dtypes.float64)
    theirs = to_torch(ours)
    assert theirs.numpy().tobytes() == np.array(values).tobytes()
    assert from_torch(theirs).numpy().tobytes() == np.array(values).tobytes()


def test_plain_objects_both_ways():
    objects = {
        "none": None, "bool": True, "int": -5, "big": 2**70, "float": 1.5, "str": "naïve\n\ud800",
        "bytes": b"\x00\xff", "empty bytes": b"", "bytearray": bytearray(b"xy"), "complex": 1 + 2j,
        "tuple": (1, (2,), ()), "list": [1, [2, []]], "dict": {1: {"a": None}}, "set": {1, 2},
        "ordered": OrderedDict(b=1, a=2), "counter": Counter("aab"), 3: 4, (1, "a"): 5,
    }  # fmt: skip
    assert load(saved(objects)) == objects
    # PyTorch itself refuses to read b"" by default.
    del objects["empty bytes"]
    assert from_torch(objects) == objects
    assert torch.load(saved(objects), weights_only=True) == objects


def test_descriptions_both_ways():
    ours = {"d": wend.float16, "s": wend.Size([2, 3]), "c": wend.device("cpu")}
    theirs = to_torch(ours)
    expected = {"d": torch.float16, "s": torch.Size([2, 3]), "c": torch.device("cpu")}
    assert theirs == expected
    result = from_torch(expected)
    assert result == ours and type(result["s"]) is wend.Size


def test_optimizer_state_both_ways():
    layer = torch.nn.Linear(2, 3)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    layer(torch.ones(2)).sum().backward()
    optimizer.step()
    theirs = {"model": layer.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    ours = from_torch(theirs)
    assert ours["epoch"] == 3 and ours["optimizer"]["param_groups"][0]["lr"] == 0.1
    assert ours["optimizer"]["param_groups"][0]["params"] == [0, 1]
    back = to_torch(ours)
    for key, value in layer.state_dict().items():
        assert torch.equal(back["model"][key], value)
    assert torch.equal(
        back["optimizer"]["state"][0]["exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"]
    )
    assert back["model"]._metadata == layer.state_dict()._metadata


def test_requires_grad_survives():
    leaf = wend.tensor([1.0], requires_grad=True)
    assert_same(load(saved(leaf)), to_torch(leaf))
    result = load(saved(leaf * 2))
    assert result.requires_grad and result.is_leaf
    assert from_torch(torch.ones(2, requires_grad=True)).requires_grad


def test_parameters_survive():
    parameter = Parameter(wend.ones(2))
    result = load(saved({"p": parameter, "q": Parameter(wend.ones(1), requires_grad=False)}))
    assert type(result["p"]) is Parameter and result["p"].requires_grad
    assert type(result["q"]) is Parameter and not result["q"].requires_grad
    theirs = to_torch({"p": parameter})["p"]
    assert type(theirs) is torch.nn.Parameter and theirs.requires_grad
    assert type(from_torch(theirs)) is Parameter


def test_attributes_of_parameters_survive():
    parameter = Parameter(wend.ones(2))
    parameter.tag = "special"
    assert load(saved(parameter)).tag == "special"
    theirs = torch.nn.Parameter(torch.ones(2))
    theirs.tag = "special"
    assert from_torch(theirs).tag == "special"
    assert to_torch(parameter).tag == "special"


def test_tensors_with_attributes():
    theirs = torch.ones(2)
    theirs.tag = [1, 2]
    assert from_torch(theirs).tag == [1, 2]


def test_conjugated_and_negated_tensors_of_pytorch():
    theirs = torch.tensor([1 + 2j, 3j]).conj()
    assert theirs.is_conj()
    np.testing.assert_array_equal(listed(from_torch(theirs)), [1 - 2j, -3j])
    negated = theirs.imag
    assert negated.is_neg()
    np.testing.assert_array_equal(listed(from_torch(negated)), [-2, -3])


@settings(max_examples=50, deadline=None)
@given(
    st.recursive(
        st.integers(-(2**40), 2**40) | st.text(max_size=5) | st.none() | st.just("tensor"),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=10,
    )
)
def test_any_nesting_both_ways(tree):
    def build(node, tensor):
        if node == "tensor":
            return tensor
        if isinstance(node, list):
            return [build(item, tensor) for item in node]
        if isinstance(node, dict):
            return {key: build(value, tensor) for key, value in node.items()}
        return node

    def plain(node):
        return build_back(node)

    def build_back(node):
        if isinstance(node, (wend.Tensor, torch.Tensor)):
            return ("tensor", node.tolist())
        if isinstance(node, list):
            return [build_back(item) for item in node]
        if isinstance(node, dict):
            return {key: build_back(value) for key, value in node.items()}
        return node

    ours, theirs = build(tree, wend.tensor([1.0, 2.0])), build(tree, torch.tensor([1.0, 2.0]))
    assert plain(to_torch(ours)) == plain(theirs)
    assert plain(from_torch(theirs)) == plain(ours) == plain(load(saved(ours)))


# --- shared memory and views ----------------------------------------------------------------------


def test_shared_memory_is_stored_once_and_shared_again():
    base = wend.zeros(1000)
    names = {"base": base, "row": base[10:20], "matrix": base.view(10, 100), "same": base.detach()}
    buffer = saved(names)
    with zipfile.ZipFile(buffer) as file:
        assert [i.file_size for i in file.infolist() if "/data/" in i.filename] == [4000]
    buffer.seek(0)
    result = load(buffer)
    result["base"][10] = 5
    assert result["row"].tolist()[0] == 5 and result["matrix"].tolist()[0][10] == 5
    result["row"][1] = 7
    assert result["same"].tolist()[11] == 7


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(), lambda x: x[1], lambda x: x[:, 1], lambda x: x[1:, ::2],
        lambda x: x.permute(1, 0)[2:], lambda x: x.view(-1)[5:9], lambda x: x.unsqueeze(0),
        lambda x: x[2, 3], lambda x: x[0:0], lambda x: x.expand(2, 3, 4), lambda x: x.diagonal(),
    ],
)  # fmt: skip
def test_views_keep_values_strides_and_memory(view):
    ours = wend.arange(12.0).reshape(3, 4).clone()
    theirs = torch.arange(12.0).reshape(3, 4).clone()
    read = to_torch({"base": ours, "view": view(ours)})
    assert read["view"].stride() == view(theirs).stride() or 0 in read["view"].shape
    assert (
        read["view"].storage_offset() == view(theirs).storage_offset() or read["view"].numel() == 0
    )
    assert torch.equal(read["view"], view(theirs))
    assert read["view"].untyped_storage().data_ptr() == read["base"].untyped_storage().data_ptr()
    result = from_torch({"base": theirs, "view": view(theirs)})
    assert result["view"].tolist() == view(theirs).tolist()
    assert tuple(result["view"].stride()) == view(theirs).stride() or 0 in result["view"].shape
    result["base"].zero_()
    assert not np.any(listed(result["view"]))


def test_writes_through_a_loaded_view_reach_its_base():
    theirs = torch.arange(12.0).reshape(3, 4)
    result = from_torch({"view": theirs[1:, ::2], "base": theirs, "turned": theirs.t()})
    result["view"][0, 1] = -1
    assert result["base"].tolist()[1][2] == -1 and result["turned"].tolist()[2][1] == -1


def test_a_part_alone_brings_its_whole_storage_as_in_pytorch():
    base = torch.arange(100.0)
    result = from_torch(base[10:12])
    assert result.tolist() == [10.0, 11.0]
    ours = wend.arange(100.0).clone()
    read = to_torch(ours[10:12])
    assert read.tolist() == [10.0, 11.0] and read.untyped_storage().nbytes() == 400


def test_tied_parameters_stay_tied():
    weight = Parameter(wend.ones(3))
    result = load(saved({"a": weight, "b": weight}))
    assert result["a"] is result["b"]
    state = load(saved({"a": weight.detach(), "b": weight.detach()}))
    state["a"][0] = 9
    assert state["b"].tolist() == [9.0, 1.0, 1.0]


def edited(data: bytes, old: bytes, new: bytes, record: str = "data.pkl") -> io.BytesIO:
    """A checkpoint with bytes of one record replaced."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as file, zipfile.ZipFile(buffer, "w") as changed:
        for info in file.infolist():
            content = file.read(info)
            if info.filename.endswith(record):
                assert old in content
                content = content.replace(old, new)
            changed.writestr(info.filename, content)
    buffer.seek(0)
    return buffer


def test_one_storage_under_two_types_is_refused():
    data = torch_saved([torch.ones(2), torch.ones(2, dtype=torch.int32)]).getvalue()
    with pytest.raises(CheckpointError, match=r"read as torch\.float32 and as torch\.int32"):
        load(edited(data, b"X\x01\0\0\x001", b"X\x01\0\0\x000"))


def test_storages_of_pytorch_come_as_their_bytes():
    result = from_torch({"storage": torch.ones(2).untyped_storage()})["storage"]
    assert result.untyped().nbytes() == 8


# --- names and places -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, pathlib.Path, os.fsencode])
def test_paths(tmp_path, kind):
    path = tmp_path / "model.v1.pt"
    if kind is os.fsencode:
        with pytest.raises(ArgumentTypeError, match="path or a binary file"):
            save(1, os.fsencode(path))
        return
    save({"a": wend.ones(2)}, kind(path))
    assert load(kind(path))["a"].tolist() == [1.0, 1.0]
    with zipfile.ZipFile(path) as file:
        assert {name.split("/")[0] for name in file.namelist()} == {"model.v1"}
    assert torch.load(path, weights_only=True)["a"].tolist() == [1.0, 1.0]
    torch.save({"a": torch.zeros(2)}, path)
    assert load(kind(path))["a"].tolist() == [0.0, 0.0]


def test_files_and_positions(tmp_path):
    path = tmp_path / "a.pt"
    with path.open("wb") as file:
        save([1], file)
    with path.open("rb") as file:
        assert load(file) == [1]
    with path.open("rb", buffering=0) as file:
        assert load(file) == [1]
    buffer = io.BytesIO(b"head")
    buffer.seek(4)
    save([2], buffer)
    buffer.seek(4)
    assert load(buffer) == [2]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickle_protocols(protocol):
    value = {"a": wend.ones(2), "b": b"xyz", "c": {1}, "d": wend.float16, "e": bytearray(b"q")}
    result = load(saved(value, pickle_protocol=protocol))
    assert result["a"].tolist() == [1.0, 1.0] and result["b"] == b"xyz" and result["c"] == {1}
    assert result["d"] is wend.float16 and result["e"] == bytearray(b"q")
    theirs = {**value, "a": torch.ones(2), "d": torch.float16}
    assert load(torch_saved(theirs, pickle_protocol=protocol))["a"].tolist() == [1.0, 1.0]


def test_mapped_files(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"a": torch.arange(1000.0), "b": torch.ones(3, dtype=torch.int8)}, path)
    before = path.read_bytes()
    result = load(path, mmap=True)
    assert result["a"].tolist()[-1] == 999 and result["b"].tolist() == [1, 1, 1]
    result["a"][0] = 7
    assert result["a"].tolist()[0] == 7 and path.read_bytes() == before
    with pytest.raises(ArgumentError, match="mmap=True needs a path"):
        load(io.BytesIO(before), mmap=True)
    save({"a": wend.arange(1000.0)}, path)
    assert torch.load(path, weights_only=True, mmap=True)["a"][-1] == 999


def with_location(location: str) -> io.BytesIO:
    """A checkpoint whose tensor says that it was saved on another device."""
    data = torch_saved({"a": torch.ones(2)}).getvalue()
    name = location.encode()
    return edited(data, b"X\x03\0\0\0cpu", b"X" + bytes([len(name), 0, 0, 0]) + name)


@pytest.mark.parametrize(
    "target",
    [
        "cpu", wend.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage,
        lambda storage, location: storage.cpu(),
    ],
)  # fmt: skip
def test_data_of_another_device_is_brought_here(target):
    assert load(with_location("cuda:0"), map_location=target)["a"].tolist() == [1.0, 1.0]


def test_map_location_functions_see_where_the_data_was():
    seen = []
    load(with_location("cuda:3"), map_location=lambda s, loc: seen.append((loc, s.nbytes())) or s)
    assert seen == [("cuda:3", 8)]
    # None means: as if there were no function.
    assert load(torch_saved(torch.ones(1)), map_location=lambda s, loc: None).tolist() == [1.0]


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        (None, DeviceError, "cuda:0.*map_location='cpu'"),
        ({"cpu": "cpu"}, DeviceError, "cuda:0"),
        ("cuda", DeviceError, "only 'cpu' is available"),
        (wend.device("cuda"), DeviceError, "only 'cpu' is available"),
        ("elsewhere", DeviceError, "device"),
        (3, ArgumentTypeError, "map_location must be"),
        (lambda storage, location: 5, ArgumentTypeError, "returned a int"),
        (lambda storage, location: storage.cuda(), DeviceError, "cuda is not available"),
        (lambda storage, location: None, DeviceError, "cuda:0"),
    ],
)
def test_places_that_are_not_there(target, error, words):
    with pytest.raises(error, match=words):
        load(with_location("cuda:0"), map_location=target)


def test_big_endian_files():
    data = torch_saved({"a": torch.tensor([1.5, -2.0]), "c": torch.tensor([1 + 2j])})
    with zipfile.ZipFile(data) as old:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as new:
            for info in old.infolist():
                content = old.read(info)
                if info.filename.endswith("byteorder"):
                    content = b"big"
                elif "/data/" in info.filename:
                    content = np.frombuffer(content, "<f4").astype(">f4").tobytes()
                new.writestr(info.filename, content)
    buffer.seek(0)
    result = load(buffer)
    assert result["a"].tolist() == [1.5, -2.0] and result["c"].tolist() == [1 + 2j]


# --- whole objects, for trusted files -------------------------------------------------------------


class Config:
    """Stands for a class of the user's."""

    def __init__(self, width):
        self.width = width
        self.weights = wend.ones(width)


def test_objects_need_trust():
    buffer = saved(Config(3))
    with pytest.raises(UnsafeName, match="Config"):
        load(buffer)
    buffer.seek(0)
    result = load(buffer, weights_only=False)
    assert type(result) is Config and result.weights.tolist() == [1.0, 1.0, 1.0]
    buffer.seek(0)
    with safe_globals([Config]):
        assert load(buffer).width == 3
    buffer.seek(0)
    add_safe_globals([Config])
    assert load(buffer, weights_only=True).weights.shape == (3,)


def test_a_default_load_never_unpickles(monkeypatch):
    monkeypatch.setattr(pickle, "Unpickler", None)
    monkeypatch.setattr(pickle, "loads", None)
    assert from_torch({"a": torch.ones(1)})["a"].tolist() == [1.0]


class Runs:
    executed = False

    def __reduce__(self):
        return setattr, (Runs, "executed", True)


def test_nothing_in_a_file_is_executed_by_default():
    buffer = torch_saved({"a": Runs()})
    with pytest.raises(UnsafeName, match=r"builtins\.setattr"):
        load(buffer)
    assert not Runs.executed
    buffer.seek(0)
    load(buffer, weights_only=False)
    assert Runs.executed


def test_names_that_a_default_load_refuses_are_listed():
    assert get_unsafe_globals_in_checkpoint(torch_saved({"a": torch.ones(1)})) == []
    found = get_unsafe_globals_in_checkpoint(torch_saved([Runs(), Config(1)]))
    assert "builtins.setattr" in found and f"{Config.__module__}.Config" in found


def test_pickle_module_needs_trust():
    buffer = saved(Config(2))
    assert load(buffer, pickle_module=pickle).width == 2
    buffer.seek(0)
    with pytest.raises(ArgumentError, match="weights_only=False"):
        load(buffer, pickle_module=pickle, weights_only=True)


def test_a_pickle_module_must_be_able_to_write_names():
    cloudpickle = pytest.importorskip("cloudpickle")
    with pytest.raises(ArgumentError, match="pickle_module"):
        save(1, io.BytesIO(), pickle_module=cloudpickle)


# --- whole or not at all --------------------------------------------------------------------------


class BreaksAfter:
    """A file that fails after some bytes, as a full disk does."""

    def __init__(self, file, limit):
        self.file, self.left = file, limit

    def write(self, data):
        self.left -= len(data)
        if self.left < 0:
            raise OSError(28, "No space left on device")
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.file.close()


@pytest.mark.parametrize("limit", [0, 50, 300, 2000, 4000])
def test_a_full_disk_leaves_the_old_file_whole(tmp_path, monkeypatch, limit):
    path = tmp_path / "a.pt"
    save({"a": wend.ones(10)}, path)
    before = path.read_bytes()
    module = sys.modules["wend.serialization._save"]
    plain_open = open
    monkeypatch.setattr(
        module, "open", lambda *a: BreaksAfter(plain_open(*a), limit), raising=False
    )
    with pytest.raises(OSError, match="No space left"):
        save({"a": wend.zeros(1000)}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.pt"]
    assert load(path)["a"].tolist() == [1.0] * 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a limit on file sizes")
def test_a_real_limit_on_file_sizes(tmp_path):
    """The same with the operating system refusing to write."""
    import subprocess

    path = tmp_path / "a.pt"
    save({"a": wend.ones(10)}, path)
    before = path.read_bytes()
    program = (
        "import resource, signal, sys, wend\n"
        "from wend.serialization import save\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "try:\n    save({'a': wend.zeros(100_000)}, sys.argv[1])\n"
        "except OSError as error:\n    print('refused', error.errno)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("refused"), done.stderr
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.pt"]


def test_an_object_that_cannot_be_saved_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "a.pt"
    save([1], path)
    with pytest.raises(Exception, match="pickle"):
        save({"a": lambda: None}, path)
    assert load(path) == [1] and os.listdir(tmp_path) == ["a.pt"]


def test_an_interrupt_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "a.pt"
    save([1], path)

    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save([2], path)
    monkeypatch.undo()
    assert load(path) == [1] and os.listdir(tmp_path) == ["a.pt"]


def test_links_and_permissions_stay(tmp_path):
    path, link = tmp_path / "a.pt", tmp_path / "latest.pt"
    save([1], path)
    path.chmod(0o640)
    link.symlink_to(path)
    save([2], link)
    assert link.is_symlink() and load(path) == [2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_devices_are_written_directly():
    save([1], os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        save([1], tmp_path / "nowhere" / "a.pt")


# --- files of other kinds -------------------------------------------------------------------------


def legacy_object(T):
    base = T.arange(6.0)
    layer = T.nn.Linear(2, 3)
    layer.load_state_dict({"weight": T.ones(3, 2), "bias": T.arange(3.0)})
    kinds = [T.tensor([1, 0, 2]).to(getattr(T, n)) for n in ("int8", "int64", "bool", "bfloat16")]
    return {
        "views": [base, base[2:4], base.reshape(2, 3).t()],
        "state": layer.state_dict(),
        "kinds": [*kinds, T.tensor([1 + 2j, 3j])],
        "rest": ("text", 3, None),
    }


def as_lists(x):
    if hasattr(x, "tolist"):
        return str(x.dtype), x.tolist()
    if isinstance(x, dict):
        return {name: as_lists(value) for name, value in x.items()}
    return [as_lists(value) for value in x] if isinstance(x, (list, tuple)) else x


@pytest.mark.parametrize("protocol", [2, 3])
def test_files_from_before_the_zip_format(protocol):
    expected = as_lists(legacy_object(wend))
    how = {"_use_new_zipfile_serialization": False, "pickle_protocol": protocol}
    theirs = torch_saved(legacy_object(torch), **how)
    ours = io.BytesIO()
    save(legacy_object(wend), ours, **how)
    for file in (theirs, ours):
        for weights_only in (True, False):
            file.seek(0)
            found = load(file, weights_only=weights_only)
            assert as_lists(found) == expected
            found["views"][0][3] = 9.0
            assert found["views"][1].tolist() == [2.0, 9.0]
    ours.seek(0)
    assert as_lists(torch.load(ours)) == expected


def test_damaged_files_from_before_the_zip_format(tmp_path):
    data = torch_saved({"a": torch.ones(2)}, _use_new_zipfile_serialization=False).getvalue()
    for count in range(40, len(data), 7):
        with pytest.raises(CheckpointError):
            load(io.BytesIO(data[:count]))
    path = tmp_path / "old.pt"
    path.write_bytes(data)
    with pytest.raises(ArgumentError, match="zip format"):
        load(path, mmap=True)
    hostile = torch_saved(torch.nn.Linear(2, 2), _use_new_zipfile_serialization=False)
    assert get_unsafe_globals_in_checkpoint(hostile) == ["torch.nn.modules.linear.Linear"]


def tar_file() -> bytes:
    import tarfile

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        file.addfile(tarfile.TarInfo("storages"))
    return buffer.getvalue()


def zip_file(**records) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in records.items():
            name = name if name == "archive_format" else name.replace("_", ".")
            file.writestr(f"a/{name}", content)
    return buffer.getvalue()


def compressed(**records):
    """An archive whose last record is compressed, as sources of TorchScript are."""
    buffer = io.BytesIO(zip_file(**records))
    with zipfile.ZipFile(buffer, "a") as file:
        file.writestr("a/code/net.py", b"x" * 100, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file is empty"),
        (b"hello, world", "no format that Wend knows"),
        (pickle.dumps({"a": 1}), "bare pickle"),
        (tar_file(), "tar archive"),
        (zip_file(constants_pkl=b"", data_pkl=b""), "TorchScript"),
        (compressed(constants_pkl=b"", data_pkl=b""), r"TorchScript.*torch\.jit\.load"),
        (zip_file(archive_format=b"pt2"), "torch.export .*ONNX"),
        (compressed(data_pkl=b"\x80\x02N."), "compressed"),
        (zip_file(readme=b"hello"), "no data.pkl"),
        (zip_file(data_pkl=b""), "without a STOP"),
        (zip_file(data_pkl=b"\x80\x02N.", byteorder=b"middle"), "byte order"),
        (b"\x40\0\0\0\0\0\0\0{}", "safetensors"),
    ],
)
def test_what_is_no_checkpoint_is_named(data, words):
    with pytest.raises(CheckpointError, match=words):
        load(io.BytesIO(data))


def test_bad_arguments():
    with pytest.raises(ArgumentTypeError, match="a path or a binary file"):
        load(5)
    with pytest.raises(ArgumentTypeError, match="path or a binary file"):
        save([1], 5)
    with pytest.raises(ArgumentError, match="pickle_protocol"):
        save([1], io.BytesIO(), pickle_protocol=1)
    with pytest.raises(FileNotFoundError):
        load("nowhere.pt")

    class Pipe(io.RawIOBase):
        def readable(self):
            return True

        def seekable(self):
            return False

    with pytest.raises(ArgumentTypeError, match="BytesIO"):
        load(Pipe())


def test_nesting_too_deep_to_save():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ArgumentError, match="nest too deep"):
        save(deep, io.BytesIO())
