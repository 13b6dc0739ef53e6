"""Code on disk is executed: only what this user's own processes have put there is believed."""

import multiprocessing
import os
import shutil
import stat
import subprocess
import sys

import pytest

import wend
from wend._engine.compiler.llvm_ir.object_cache import ObjectCache
from wend._engine.compiler.llvm_ir.user_key import default_secret

posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and modes of files")


def fresh(tmp_path, **options):
    """A cache as another process sees it: nothing is remembered."""
    return ObjectCache(tmp_path / "cache" / "objects", secret=tmp_path / "state" / "key", **options)


@pytest.fixture
def filled(tmp_path):
    """A folder with one object."""
    fresh(tmp_path).put("a", b"code")
    return tmp_path / "cache" / "objects" / "a"


def refused_and_made_anew(tmp_path):
    cache = fresh(tmp_path)
    refused = cache.get("a") is None and cache.refused == 1
    cache.put("a", b"new")
    return refused and fresh(tmp_path).get("a") == b"new"


def test_objects_come_back(tmp_path, filled):
    cache = fresh(tmp_path)
    assert cache.get("a") == b"code" and cache.get("b") is None
    assert cache.refused == 0  # what is not there is not refused


@posix
def test_the_key_is_this_users_alone(tmp_path, filled):
    key = tmp_path / "state" / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and len(key.read_bytes()) == 32
    assert [path.name for path in key.parent.iterdir()] == ["key"]  # nothing is left behind
    assert key.read_bytes() not in filled.read_bytes()


def test_a_plain_checksum_is_not_enough(tmp_path, filled):
    import hashlib

    for magic in (b"wendobj1", b"wendobj2"):
        filled.write_bytes(magic + hashlib.sha256(b"evil").digest() + b"evil")
        assert fresh(tmp_path).get("a") is None
    assert refused_and_made_anew(tmp_path)


def test_changed_code_is_not_believed(tmp_path, filled):
    data = filled.read_bytes()
    for place in range(len(data)):
        filled.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert fresh(tmp_path).get("a") is None
    for length in range(len(data)):
        filled.write_bytes(data[:length])
        assert fresh(tmp_path).get("a") is None
    assert refused_and_made_anew(tmp_path)


def test_code_of_another_name_is_not_believed(tmp_path, filled):
    filled.with_name("b").write_bytes(filled.read_bytes())
    cache = fresh(tmp_path)
    assert cache.get("b") is None and cache.refused == 1 and cache.get("a") == b"code"


def test_a_folder_signed_by_another_key_is_not_believed(tmp_path, filled):
    other = ObjectCache(tmp_path / "cache" / "objects", secret=tmp_path / "other" / "key")
    assert other.get("a") is None and other.refused == 1


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_files_that_others_may_write_to_are_not_believed(tmp_path, filled, mode):
    filled.chmod(mode)
    assert refused_and_made_anew(tmp_path)
    assert stat.S_IMODE(filled.stat().st_mode) == 0o600


@posix
def test_files_of_another_owner_are_not_believed(tmp_path, filled, monkeypatch):
    real, number = os.fstat, filled.stat().st_ino

    def of_another(descriptor):
        status = real(descriptor)
        if status.st_ino != number:
            return status
        return os.stat_result((*status[:4], status.st_uid + 1, *status[5:]))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", of_another)
        cache = fresh(tmp_path)
        assert cache.get("a") is None and cache.refused == 1
    assert fresh(tmp_path).get("a") == b"code"


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_folders_that_others_may_write_to_are_not_used(tmp_path, filled, mode):
    filled.parent.chmod(mode)
    cache = fresh(tmp_path)
    cache.put("b", b"code")
    assert cache.get("a") is None and not filled.with_name("b").exists()


@posix
def test_folders_of_another_owner_are_not_used(tmp_path, filled, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: os.stat(filled).st_uid + 1)
    assert fresh(tmp_path).get("a") is None


@posix
def test_links_and_pipes_are_not_read(tmp_path, filled):
    elsewhere = tmp_path / "elsewhere"
    os.replace(filled, elsewhere)
    filled.symlink_to(elsewhere)
    assert refused_and_made_anew(tmp_path)
    filled.unlink()
    os.mkfifo(filled, 0o600)
    assert refused_and_made_anew(tmp_path)  # and nobody waits for a writer


@posix
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_may_read_is_replaced(tmp_path, filled, mode):
    key = tmp_path / "state" / "key"
    before = key.read_bytes()
    key.chmod(mode)
    assert refused_and_made_anew(tmp_path)
    assert key.read_bytes() != before and stat.S_IMODE(key.stat().st_mode) == 0o600


def test_a_damaged_key_is_replaced(tmp_path, filled):
    (tmp_path / "state" / "key").write_bytes(b"short")
    assert refused_and_made_anew(tmp_path)
    assert len((tmp_path / "state" / "key").read_bytes()) == 32


def test_without_a_folder_for_the_key_it_lies_beside_the_cache(tmp_path):
    (tmp_path / "state").write_text("no folder")
    fresh(tmp_path).put("a", b"code")
    assert fresh(tmp_path).get("a") == b"code"
    assert len((tmp_path / "cache" / "objects.key").read_bytes()) == 32


def test_without_any_place_for_a_key_nothing_is_kept(tmp_path, monkeypatch):
    def no_room(*args, **kwargs):
        raise OSError("read-only")

    (tmp_path / "cache" / "objects").mkdir(parents=True, mode=0o700)
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkstemp", no_room)
        cache = fresh(tmp_path)
        cache.put("a", b"code")
        assert cache.get("a") is None and cache.refused == 0
    assert not list((tmp_path / "cache" / "objects").iterdir())


def test_a_folder_that_became_read_only_is_still_read(tmp_path, filled, monkeypatch):
    def no_room(*args, **kwargs):
        raise OSError("read-only")

    monkeypatch.setattr("tempfile.mkstemp", no_room)
    monkeypatch.setattr(os, "utime", no_room)
    cache = fresh(tmp_path)
    cache.put("b", b"code")
    assert cache.get("a") == b"code" and cache.get("b") is None


def test_a_file_system_without_links(tmp_path, monkeypatch):
    def no_links(*args):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", no_links)
    fresh(tmp_path).put("a", b"code")
    assert fresh(tmp_path).get("a") == b"code"
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["key"]


def put_one(folder, name, start):
    start.wait()
    fresh(folder).put(name, name.encode())


@posix
def test_processes_that_begin_at_once_agree_on_a_key(tmp_path):
    context = multiprocessing.get_context("fork")
    start = context.Event()
    names = [f"{i:02}" for i in range(12)]
    children = [context.Process(target=put_one, args=(tmp_path, name, start)) for name in names]
    for child in children:
        child.start()
    start.set()
    for child in children:
        child.join()
    cache = fresh(tmp_path)
    assert [cache.get(name) for name in names] == [name.encode() for name in names]
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["key"]


@posix
def test_a_child_signs_as_its_parent(tmp_path, filled):
    cache = fresh(tmp_path)
    assert cache.get("a") == b"code"
    child = os.fork()
    if child == 0:
        cache.put("child", b"more")
        os._exit(0 if cache.get("a") == b"code" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.get("child") == b"more"


def test_where_the_key_is(tmp_path):
    assert default_secret({}).name == "objects.key"
    if sys.platform.startswith("linux"):
        state = {"XDG_STATE_HOME": str(tmp_path)}
        assert default_secret(state) == tmp_path / "wend" / "objects.key"


PROGRAM = """
from wend._engine.compiler.llvm_ir import jit
jit.compile_module("define i64 @k(i64 %x) {\\n  %y = add i64 %x, 1\\n  ret i64 %y\\n}", ["k"])
print(jit.counters.compiled, jit.counters.loaded, jit._object_cache().refused)
"""


def test_the_compiler_gives_no_foreign_code_to_llvm(tmp_path):
    """A folder handed over with its files: another user's key has signed them."""

    def run(name):
        environment = {
            **os.environ,
            "PYTHONPATH": os.path.dirname(os.path.dirname(wend.__file__)),
            "WEND_CACHE_DIR": str(tmp_path / "cache"),
            "XDG_STATE_HOME": str(tmp_path / name),
            "HOME": str(tmp_path / name),
            "LOCALAPPDATA": str(tmp_path / name),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
        )
        return done.stdout.split(), done.stderr

    assert run("mine") == (["1", "0", "0"], "")
    assert run("mine") == (["0", "1", "0"], "")
    assert run("yours") == (["1", "0", "1"], "")
    shutil.rmtree(tmp_path / "cache")
    assert run("yours") == (["1", "0", "0"], "")
