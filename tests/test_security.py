"""The page on security keeps its word: each claim has a test, and no reader of files runs code."""

import importlib.util
import io
import json
import os
import pickle
import re
import sys
import zipfile
from pathlib import Path

import pytest

import wend
from wend import hub
from wend._tools import compat
from wend.distributed import checkpoint
from wend.serialization import get_unsafe_globals_in_checkpoint, safetensors

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "security.md"
LEGACY_HEAD = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]


class Touches:
    """Unpickled, this makes a file by a shell."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch '{self.mark}'",)


def archive(records):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in {**records, "archive/version": b"3"}.items():
            file.writestr(name, data)
    return buffer.getvalue()


def hostile(mark):
    """Files by name; each holds a pickle that leaves a mark where it is run."""
    run = pickle.dumps(Touches(mark), 2)
    program = {"archive/constants.pkl": run, "archive/code/__torch__.py": b"import os"}
    return {
        "zip": archive({"archive/data.pkl": run}),
        "legacy": b"".join(pickle.dumps(head, 2) for head in LEGACY_HEAD) + run,
        "bare": run,
        "torchscript": archive({"archive/data.pkl": run, **program}),
        "constants": archive({"archive/data.pkl": pickle.dumps(None, 2), **program}),
        "exported": archive({"archive/serialized_exported_program.json": run}),
        "numpy": b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'shape': (1,)}".ljust(128) + run,
        "safetensors": len(run).to_bytes(8, "little") + run,
    }


def load_index(path):
    """Take a file for the index of a checkpoint, in either framework's name."""
    folder = path.parent / "checkpoint"
    folder.mkdir(exist_ok=True)
    for name in (".metadata", "metadata.json"):
        (folder / name).write_bytes(path.read_bytes())
    checkpoint.load({"x": wend.ones(1)}, checkpoint_id=folder)


def load_from_address(path):
    folder = str(path.parent / f"hub-{path.name}")
    return hub.load_state_dict_from_url(path.as_uri(), model_dir=folder)


READERS = {
    "load": wend.load,
    "mapped": lambda path: wend.load(path, mmap=True),
    "names": get_unsafe_globals_in_checkpoint,
    "hub": load_from_address,
    "jit": wend.jit.load,
    "export": wend.export.load,
    "session": wend.load_session,
    "safetensors": safetensors.load_file,
    "checkpoint": load_index,
    "onnx": wend.onnx.load,
}


@pytest.mark.skipif(sys.platform == "win32", reason="the mark is made by a shell's touch")
@pytest.mark.parametrize("reader", READERS)
def test_no_reader_of_files_runs_a_pickle(reader, tmp_path):
    if reader == "onnx":
        pytest.importorskip("onnx")
    mark = tmp_path / "it ran"
    for name, data in hostile(mark).items():
        path = tmp_path / name
        path.write_bytes(data)
        try:
            found = READERS[reader](path)
        except (RuntimeError, ValueError, checkpoint.CheckpointException) as error:
            found = error
        by_wend = type(found).__module__.startswith("wend.")
        assert by_wend or found == [f"{os.system.__module__}.system"], f"{name}: {found!r}"
        assert not mark.exists(), name
    assert pickle.loads(hostile(mark)["bare"]) == 0 and mark.exists()  # the pickle does what it can


def test_files_from_an_address_are_data(tmp_path):
    path = tmp_path / "module.pt"
    wend.save(wend.nn.Linear(2, 2), path)
    with pytest.raises(wend.serialization.UnsafeName):
        load_from_address(path)
    folder = str(tmp_path / "trusted")
    found = hub.load_state_dict_from_url(path.as_uri(), model_dir=folder, weights_only=False)
    assert isinstance(found, wend.nn.Linear)


@pytest.mark.parametrize("name", ["../../x", "/x", "archive/../../x", "archive/..\\x"])
def test_names_in_archives_are_no_paths(name, tmp_path):
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    whole = io.BytesIO()
    wend.save({"w": wend.ones(2)}, whole)
    with zipfile.ZipFile(whole, "a") as file:
        file.writestr(name, b"text")
    path = folder / "weights.pt"
    path.write_bytes(whole.getvalue())
    try:
        assert wend.load(path)["w"].tolist() == [1, 1]
    except wend.serialization.CheckpointError:
        pass  # refused, which is as good
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "b", "weights.pt"]


def test_an_index_names_files_of_its_folder_alone(tmp_path):
    folder = tmp_path / "checkpoint"
    state = {"x": wend.arange(3.0)}
    checkpoint.save(state, checkpoint_id=folder)
    index = folder / "metadata.json"
    text = index.read_text()
    (data,) = folder.glob("*.safetensors")
    for name in (f"../checkpoint/{data.name}", str(data), ".."):
        index.write_text(text.replace(data.name, name))
        with pytest.raises(checkpoint.CheckpointException, match="the index names the file"):
            checkpoint.load(state, checkpoint_id=folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.pop("tensors"),
        lambda index: index.update(values=[]),
        lambda index: index["tensors"].update(x=None),
        lambda index: index["tensors"]["x"].pop("path"),
        lambda index: index["tensors"]["x"].update(dtype="Q"),
        lambda index: index["tensors"]["x"].update(dtype=[]),
        lambda index: index["tensors"]["x"].update(pieces=3),
        lambda index: index["tensors"]["x"].update(pieces=[3]),
        lambda index: index["tensors"]["x"].update(shape="3"),
        lambda index: index["tensors"]["x"]["pieces"][0].update(begin=[-1]),
        lambda index: index["tensors"]["x"]["pieces"][0].update(shape=[3, 3]),
        lambda index: index["tensors"]["x"]["pieces"][0].update(begin=["a"]),
        lambda index: index["tensors"]["x"]["pieces"][0].update(file=7),
    ],
)
def test_a_damaged_index_is_refused(change, tmp_path):
    checkpoint.save({"x": wend.arange(3.0), "n": 2}, checkpoint_id=tmp_path)
    path = tmp_path / "metadata.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))
    with pytest.raises(checkpoint.CheckpointException, match="is damaged"):
        checkpoint.load({"x": wend.ones(3), "n": 0}, checkpoint_id=tmp_path)


def test_compat_runs_nothing(tmp_path, capsys, monkeypatch):
    mark, package = tmp_path / "it ran", tmp_path / "hostile_package"
    (package / "inner").mkdir(parents=True)
    program = package / "inner" / "__init__.py"
    program.write_text(f"import torch\nopen({str(mark)!r}, 'w')\ntorch.no_such_name\n")
    (package / "__init__.py").write_text(program.read_text())
    monkeypatch.syspath_prepend(tmp_path)
    for place in (str(program), str(package), "hostile_package", "hostile_package.inner"):
        compat.main([place])
        assert "torch.no_such_name" in capsys.readouterr().out
        assert not mark.exists(), place


def claims():
    """(file, test) of each row under 'Tried'."""
    tried = PAGE.read_text(encoding="utf-8").split("## Tried")[1].split("\n## ")[0]
    rows = [line for line in tried.splitlines() if line.startswith("|")][2:]
    return [re.search(r"`(tests/[\w/]+\.py): (\w+)` \|$", row).groups() for row in rows]


def test_each_claim_has_a_test():
    assert len(claims()) > 25
    for file, test in claims():
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {test}\(", text, re.MULTILINE), f"{file}: {test}"


def test_names_of_the_page_are_there():
    """Functions that the page tells apart by trust exist, under the names that it says."""
    text = PAGE.read_text(encoding="utf-8")
    names = re.findall(r"`((?:wend|torch)\.[\w.]+)", text)
    assert len(names) > 12
    for name in names:
        value = wend
        for part in name.split(".")[1:]:
            full = f"{getattr(value, '__name__', '')}.{part}"
            if not hasattr(value, part) and importlib.util.find_spec(full):
                importlib.import_module(full)
            value = getattr(value, part)
