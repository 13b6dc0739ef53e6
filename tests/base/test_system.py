"""Linux, macOS and Windows: all that Wend asks of a system, asked here of each of the three."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import types
from pathlib import Path

import pytest

from wend._engine.base import system as module
from wend._engine.base.errors import NotAvailable
from wend._engine.base.system import Linux, MacOS, System, Windows, system, system_named

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "wend"
HOME = Path("home")
SYSTEMS = (Linux(), MacOS(), Windows(), System())
each = pytest.mark.parametrize("kind", SYSTEMS, ids=lambda kind: kind.name)


@pytest.mark.smoke
def test_systems_go_by_the_name_that_python_has_for_them():
    names = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
    assert {name: system_named(name).name for name in names} == names
    assert type(system) is type(system_named(sys.platform))


def test_another_system_is_asked_for_no_more_than_python_has(monkeypatch):
    assert system_named("freebsd").sends_files()
    monkeypatch.delattr(os, "fork")
    other = system_named("unheard")
    assert (type(other), other.launches, other.start_method) == (System, False, None)


@each
def test_the_machine_is_told_as_far_as_the_system_tells(kind, monkeypatch):
    assert 1 <= kind.processors() <= os.cpu_count()
    assert kind.processor()
    assert kind.memory() is None or kind.memory() > 1 << 20
    kind.trim_heap()
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert kind.processors() == os.cpu_count()
    assert kind.memory() is None


def test_without_the_file_of_processors_python_names_the_processor(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(OSError))
    assert Linux().processor()


@pytest.mark.parametrize(
    ("kind", "cache", "state"),
    [
        (Linux(), ".cache", ".local/state"),
        (MacOS(), "Library/Caches", "Library/Application Support"),
        (Windows(), "AppData/Local", "AppData/Local"),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_files_lie_where_the_system_keeps_them(kind, cache, state):
    assert kind.cache_folder(HOME, {}) == HOME / cache
    assert kind.state_folder(HOME, {}) == HOME / state


def test_variables_name_other_folders():
    variables = {"XDG_CACHE_HOME": "a", "XDG_STATE_HOME": "b", "LOCALAPPDATA": "c"}
    places = [(k.cache_folder(HOME, variables), k.state_folder(HOME, variables)) for k in SYSTEMS]
    assert places[0] == places[3] == (Path("a"), Path("b"))
    assert places[1] == (HOME / "Library/Caches", HOME / "Library/Application Support")
    assert places[2] == (Path("c"), Path("c"))


@each
def test_a_file_that_others_may_read_is_not_ones_own(kind, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch(mode=0o600)
    assert kind.owns(file.stat(), 0o077)
    file.chmod(0o644)
    assert kind.owns(file.stat(), 0o077) == isinstance(kind, Windows)
    monkeypatch.delattr(os, "getuid", raising=False)
    assert kind.owns(file.stat(), 0o077)


@each
def test_files_without_a_name_are_read_at_any_place(kind, monkeypatch):
    for absent in ((), ("memfd_create", "preadv")):
        for name in absent:
            monkeypatch.delattr(os, name, raising=False)
        if absent and isinstance(kind, Linux):
            monkeypatch.setattr(os, "preadv", lambda d, b, n: os.readv(d, b), raising=False)
        descriptor = kind.unnamed_file("wend-test")
        try:
            os.write(descriptor, b"0123456789")
            os.lseek(descriptor, 4, os.SEEK_SET)
            target = bytearray(4)
            assert kind.read_at(descriptor, memoryview(target), 4) == 4
            assert target == b"4567"
            assert kind.read_at(descriptor, memoryview(target), 10) in (0, 2)
        finally:
            os.close(descriptor)


def exclude_each_other(kind, path, monkeypatch):
    """Whether a second holder of a file waits for the first."""
    order, holds = [], threading.Event()

    def second():
        holds.wait()
        with open(path, "r+b") as file, kind.locked(file):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with open(path, "r+b") as file, kind.locked(file):
        holds.set()
        thread.join(0.05)
        order.append("first")
    thread.join()
    return order == ["first", "second"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="of systems like Unix")
@pytest.mark.parametrize("kind", [Linux(), MacOS()], ids=lambda kind: kind.name)
def test_a_locked_file_is_for_one_at_a_time(kind, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    assert exclude_each_other(kind, tmp_path / "file", monkeypatch)


def test_windows_locks_a_byte_that_no_file_has(tmp_path, monkeypatch):
    """Its functions are played: a byte is locked for an open file, and asked for again if taken."""
    locked = {}

    def locking(descriptor, mode, count):
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        if mode == 1 and locked.setdefault(place, descriptor) != descriptor:
            raise PermissionError
        if mode == 0:
            del locked[place]

    played = types.SimpleNamespace(LK_NBLCK=1, LK_UNLCK=0, locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", played)
    path = tmp_path / "file"
    path.write_bytes(b"text")
    assert exclude_each_other(Windows(), path, monkeypatch)
    with open(path, "r+b") as file, Windows().locked(file):
        assert list(locked) == [Windows.LOCKED_BYTE] and file.read() == b"text"
    assert locked == {}


def test_a_system_without_locks_says_so(tmp_path):
    refused = pytest.raises(NotAvailable, match="no locks")
    with open(tmp_path / "file", "wb") as file, refused, System().locked(file):
        pass


def test_shared_memory_that_cannot_be_sent_says_so():
    for kind in (Windows(), System()):
        assert not kind.sends_files()
        with pytest.raises(NotAvailable, match=r"on .*; send a copy: tensor\.clone\(\)"):
            kind.passed_on(0)


@each
def test_deaths_have_names(kind):
    assert kind.cause_of_death(-signal.SIGTERM) == "SIGTERM"
    assert kind.cause_of_death(-1000) == "signal 1000"


def test_one_module_names_systems():
    """Elsewhere only folders that need Linux, and generated code for given systems."""
    asks = re.compile(r"sys\.platform|os\.name\b|platform\.system\(|sched_getaffinity|memfd_create")
    asking = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if asks.search(path.read_text(encoding="utf-8"))
        and path.relative_to(PACKAGE).parts[0] != "distributed"
    }
    assert asking == {"_engine/base/system.py"}
    assert Path(module.__file__).name == "system.py"


#: A program on a system that has no functions of Unix: run with the name of the system.
PROGRAM = textwrap.dedent(
    """
    import sys
    # Modules of others choose by the true system, and are there already.
    import asyncio, ctypes, greenlet, llvmlite.binding, multiprocessing.connection, subprocess
    import multiprocessing.reduction, multiprocessing.util, numpy.random, tempfile, threadpoolctl
    import concurrent.futures.process, platform, scipy, selectors, socket, threading
    import os, signal

    absent = "memfd_create posix_fallocate preadv sched_getaffinity"
    if sys.argv[1] == "win32":
        absent += (
            " fork forkpty getuid geteuid getppid killpg mkfifo pread pwrite register_at_fork"
            " setsid statvfs sysconf waitid wait4 SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGCHLD"
            " SIGALRM setitimer pthread_sigmask AF_UNIX send_fds recv_fds"
        )
        for name in ("fcntl", "resource", "pwd", "grp", "termios", "posix"):
            sys.modules[name] = None
    for name in absent.split():
        for library in (os, signal, socket):
            vars(library).pop(name, None)
    sys.platform = sys.argv[1]

    import io
    import wend as torch
    from wend._engine.base import defects
    from wend._engine.base.system import system
    from wend.utils.data import DataLoader, TensorDataset

    names = {"win32": "Windows", "darwin": "macOS"}
    assert system.name == names[sys.argv[1]], system.name
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(20):
        for a, b in loader:
            loss = (model(a) - b).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0] / 10, losses
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    again.load_state_dict(torch.load(file))
    assert torch.equal(again(x), model(x))
    torch.save(model.state_dict(), sys.argv[2])
    assert torch.load(sys.argv[2], mmap=True)["0.weight"].shape == (16, 4)
    assert torch.ones(3).share_memory_().is_shared()
    from wend._tools.cli import main
    assert main(["env"]) == 0
    script = sys.argv[2] + ".py"
    open(script, "w").write("import torch; print(torch.ones(2) + 1)")
    assert main(["run", script]) == 0
    import wend.distributed, wend.multiprocessing
    from wend.utils.data._utils import channel, workers
    assert main(["launch", script]) == 2
    assert defects.summary() == "none"
    print("trained on", system.name)
    """
)


@pytest.mark.parametrize("name", ["win32", "darwin"])
def test_a_program_needs_nothing_of_unix(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, str(tmp_path / "model.pt")],
        env={
            **os.environ,
            "WEND_COMPILE": "force",
            "WEND_CACHE_DIR": str(tmp_path),
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trained on" in done.stdout and "tensor([2., 2.])" in done.stdout
    assert "wend launch: needs Linux" in done.stderr and "RuntimeWarning" not in done.stderr
