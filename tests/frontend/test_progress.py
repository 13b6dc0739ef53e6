"""Work that takes long tells how far it is: on a terminal or in a notebook, and nowhere else."""

import io
import subprocess
import sys
import uuid
from types import SimpleNamespace

import pytest

import wend
from wend import hub
from wend._engine.compiler.llvm_ir import jit
from wend._frontend import progress
from wend._frontend.progress import ProgressLine, is_watched


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """Stands in for the module `time`: a second passes between two readings."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 1
        return self.now


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    # In place of sys.stderr itself, which pytest sets anew before a test.
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(progress, "time", Clock())
    return stream


def test_a_line_changes_in_place_and_goes(terminal):
    with ProgressLine("work", "parts", 12) as line:
        for k in range(4):
            line.tell(k, "adding" if k == 2 else "")
    first, second, third, gone, last = terminal.getvalue().split("\r")[1:]
    assert first == "work: 1 of 12 parts, 2 s"  # nothing was told for less
    assert second == "work: 2 of 12 parts, adding, 3 s"
    assert third.rstrip() == "work: 3 of 12 parts, 4 s" and len(third) == len(second)
    assert gone.strip() == "" and last == ""


def test_work_without_a_count(terminal):
    with ProgressLine("work") as line:
        line.tell()
        line.tell(now="linking")
    assert terminal.getvalue().split("\r")[1] == "work: linking, 2 s"


def test_quick_work_tells_nothing(terminal):
    with ProgressLine("work", "parts") as line:
        line.tell(1)
    assert terminal.getvalue() == ""


def test_nothing_is_told_to_files_and_pipes(monkeypatch):
    monkeypatch.setattr(progress, "time", Clock())
    for stream in (io.StringIO(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        with ProgressLine("work", "parts") as line:
            for k in range(5):
                line.tell(k)
        assert stream is None or stream.getvalue() == ""


def test_cells_of_notebooks_are_watched():
    class OutStream(io.StringIO):
        pass

    OutStream.__module__ = "ipykernel.iostream"
    assert is_watched(OutStream()) and is_watched(Terminal())
    assert not is_watched(io.StringIO()) and not is_watched(None)


@pytest.mark.skipif(jit.obstacle() is not None, reason="no kernels are made")
def test_sessions_and_libraries_tell_of_their_kernels(terminal, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_AFTER", 0)
    model = wend.nn.Sequential(wend.nn.Linear(3, 4), wend.nn.Tanh())
    session = wend.session(model, wend.ones(2, 3))
    session.prepare()
    session.save(tmp_path / "net.wend")
    assert "session: 0 of 1 parts compiled, " in terminal.getvalue()
    name = f"f{uuid.uuid4().hex}"  # not in the cache of machine code
    texts = {f"define void @{name}() {{\n  ret void\n}}\n": {name: "g"}}
    with ProgressLine("library", "kernels", 1) as line:
        jit.linkable_code(texts, jit.host(), line.tell)
    assert "library: 0 of 1 kernels, " in terminal.getvalue()


def test_downloads_tell_of_their_bytes(tmp_path, monkeypatch):
    pytest.importorskip("tqdm")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    (tmp_path / "source").write_bytes(bytes(3000))
    address = (tmp_path / "source").as_uri()
    hub.download_url_to_file(address, str(tmp_path / "a"), progress=False)
    assert stream.getvalue() == ""
    hub.download_url_to_file(address, str(tmp_path / "b"))
    assert "2.93k/2.93k" in stream.getvalue()
    monkeypatch.setattr(hub.importlib.util, "find_spec", lambda name: None)
    hub.download_url_to_file(address, str(tmp_path / "c"))
    assert (tmp_path / "c").read_bytes() == bytes(3000)


def test_verify_tells_which_run_it_waits_for(terminal, tmp_path, monkeypatch, capsys):
    from wend._tools import verify

    class Process:
        """A run that is not done at the first two looks."""

        returncode, looks = 0, 0

        def __init__(self, command, **settings):
            self.command = command

        def __enter__(self):
            return self

        def __exit__(self, *fault):
            pass

        def communicate(self, timeout):
            self.looks += 1
            if self.looks < 4:
                raise subprocess.TimeoutExpired(self.command, timeout)
            return "", ""

    monkeypatch.setattr(verify.subprocess, "Popen", Process)
    assert verify.run("asis", ["it.py"], str(tmp_path), "run 1 of 4") is None
    assert "wend verify: run 1 of 4, as it is: 2 s" in terminal.getvalue()
