"""LLVM behind its wall: compiling, the cache on disk, the background thread, forks, the end."""

import ctypes
import gc
import json
import os
import subprocess
import sys
import threading

import pytest

from wend._engine.base.errors import CompileError
from wend._engine.compiler.llvm_ir import jit
from wend._engine.compiler.llvm_ir.object_cache import ObjectCache, default_directory


def adding(number, name="k"):
    return f"define i64 @{name}(i64 %x) {{\n  %y = add i64 %x, {number}\n  ret i64 %y\n}}\n"


def call(library, x, name="k"):
    return library.function(name, ctypes.c_int64, result=ctypes.c_int64)(x)


@pytest.fixture
def objects(tmp_path):
    """An empty cache of this test's own."""
    cache = ObjectCache(tmp_path / "objects")
    jit.use_cache(cache)
    yield cache
    jit.use_cache(None)


def counted(before):
    now = jit.counters
    return now.compiled - before[0], now.loaded - before[1], now.shared - before[2]


def count():
    return jit.counters.compiled, jit.counters.loaded, jit.counters.shared


def test_compile_and_call(objects):
    library = jit.compile_module(adding(3), ["k"])
    assert call(library, 4) == 7
    with pytest.raises(CompileError, match="'j' is none of"):
        library.address("j")


def test_the_host_is_described():
    target = jit.host()
    assert target.vector_bytes in (16, 32, 64) and target.registers in (16, 32)
    assert target is jit.host()
    assert jit.Target("x86_64-linux", "x", "+avx,-avx2").vector_bytes == 32
    assert not jit.Target("x86_64-linux", "x", "+avx512f").has("avx512")


def test_constants_and_libc_are_reached(objects):
    text = """
    @table = private constant [4 x double] [double 1.0, double 2.0, double 4.0, double 8.0]
    declare void @memset(ptr, i32, i64)
    define double @k(i64 %i, ptr %p) {
      call void @memset(ptr %p, i32 7, i64 16)
      %q = getelementptr double, ptr @table, i64 %i
      %y = load double, ptr %q
      ret double %y
    }
    """
    library = jit.compile_module(text, ["k"])
    buffer = (ctypes.c_uint8 * 16)()
    k = library.function("k", ctypes.c_int64, ctypes.c_void_p, result=ctypes.c_double)
    assert k(2, ctypes.addressof(buffer)) == 4.0
    assert bytes(buffer) == b"\7" * 16


def test_errors_name_the_fault(objects):
    with pytest.raises(CompileError, match="undefined value '%z'"):
        jit.compile_module("define i64 @k() {\n  ret i64 %z\n}", ["k"])
    with pytest.raises(CompileError, match="cannot link"):
        jit.compile_module(adding(1), ["other"])
    with pytest.raises(CompileError, match="cannot link"):
        jit.compile_module("declare void @nowhere()\n" + adding(1) + _calling, ["j"])


_calling = "define void @j() {\n  call void @nowhere()\n  ret void\n}"


def test_the_same_text_is_one_library(objects):
    first = jit.compile_module(adding(5), ["k"])
    before = count()
    assert jit.compile_module(adding(5), ["k"]) is first
    assert counted(before) == (0, 0, 1)


def test_objects_come_back_from_disk(objects):
    library = jit.compile_module(adding(6), ["k"])
    del library
    gc.collect()
    before = count()
    assert call(jit.compile_module(adding(6), ["k"]), 1) == 7
    assert counted(before) == (0, 1, 0)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-7], lambda b: b[:60] + b"x" + b[61:], lambda b: b""]
)
def test_damaged_files_are_compiled_anew(objects, damage):
    jit.compile_module(adding(7), ["k"])
    (path,) = objects.directory.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    gc.collect()
    before = count()
    assert call(jit.compile_module(adding(7), ["k"]), 1) == 8
    assert counted(before) == (1, 0, 0)
    assert objects.get(path.name) is not None


def test_another_processor_is_another_object(objects):
    host = jit.host()
    plain = jit.Target(host.triple, "generic", "")
    text = adding(8)
    libraries = [jit.compile_module(text, ["k"]), jit.compile_module(text, ["k"], plain)]
    assert [call(library, 1) for library in libraries] == [9, 9]
    assert len(list(objects.directory.iterdir())) == 2
    assert "add" in jit.assembly(text) or "lea" in jit.assembly(text)


def test_the_cache_is_bounded_and_keeps_what_is_used(tmp_path):
    cache = ObjectCache(tmp_path, limit=10_000)
    for i in range(200):
        cache.put(f"{i:03}", bytes(100))
        os.utime(tmp_path / f"{i:03}", (i, i))
        assert cache.get("000") is not None  # in use all the time
    kept = {path.name for path in tmp_path.iterdir()}
    assert "000" in kept and "199" in kept and "001" not in kept
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 20_000


def test_where_the_cache_is(tmp_path):
    assert default_directory({"WEND_CACHE_DIR": ""}) is None
    assert default_directory({"WEND_CACHE_DIR": str(tmp_path)}) == tmp_path / "objects"
    assert default_directory({}).name == "objects"


def test_folders_that_others_may_write_to_are_not_used(tmp_path):
    cache = ObjectCache(tmp_path / "open")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    cache.put("a", b"code")
    assert cache.get("a") is None and not list((tmp_path / "open").iterdir())
    (tmp_path / "file").write_text("")
    blocked = ObjectCache(tmp_path / "file" / "objects")
    blocked.put("a", b"code")
    assert blocked.get("a") is None
    nothing = ObjectCache(None)
    nothing.put("a", b"code")
    assert nothing.get("a") is None


def test_the_background_compiles_in_order(objects):
    done = []
    for number in range(20, 25):
        jit.compile_later(adding(number), ["k"], lambda r, n=number: done.append((n, r)))
    assert jit.drain(60) and jit.pending() == 0
    assert [number for number, _ in done] == [20, 21, 22, 23, 24]
    assert [call(library, 1) for _, library in done] == [21, 22, 23, 24, 25]


def test_the_background_hands_over_errors(objects):
    done = []
    jit.compile_later("nonsense", ["k"], done.append)
    jit.compile_later(adding(30), ["k"], done.append)
    assert jit.drain(60)
    assert isinstance(done[0], CompileError) and call(done[1], 1) == 31


def test_a_callback_may_ask_for_more(objects):
    done = []
    jit.compile_later(
        adding(31), ["k"], lambda _: jit.compile_later(adding(32), ["k"], done.append)
    )
    assert jit.drain(60)
    assert call(done[0], 0) == 32


def test_many_threads_at_once(objects):
    results = {}

    def work(number):
        results[number] = call(jit.compile_module(adding(40 + number % 3), ["k"]), 0)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: 40 + i % 3 for i in range(9)}


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


_LATER = """
from wend._engine.compiler.llvm_ir import jit
import os
text = "define i64 @k{0}(i64 %x) {{\\n  %y = add i64 %x, {0}\\n  ret i64 %y\\n}}"
for i in range(40):
    jit.compile_later(text.format(i), [f"k{i}"], lambda result: None)
"""


def test_a_process_may_end_while_the_background_is_busy():
    assert python(_LATER + "print('end')", WEND_CACHE_DIR="") == "end\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_compiles_what_was_queued():
    code = (
        _LATER
        + """
child = os.fork()
if not child:
    assert jit.drain(60)
    library = jit.compile_module(text.format(99), ["k99"])
    os._exit(0 if library.address("k99") else 1)
status = os.waitpid(child, 0)[1]
print(status, jit.drain(60))
"""
    )
    assert python(code, WEND_CACHE_DIR="") == "0 True\n"


def test_processes_share_the_cache(tmp_path):
    code = _LATER + "jit.drain(60); print(jit.counters.compiled, jit.counters.loaded)"
    assert python(code, WEND_CACHE_DIR=str(tmp_path)) == "40 0\n"
    assert python(code, WEND_CACHE_DIR=str(tmp_path)) == "0 40\n"


# -- levels of processors -----------------------------------------------------------------------

LEVEL = """
import os, wend
from wend._engine.base.errors import ArgumentError
from wend._engine.compiler.llvm_ir import jit
try:
    found = jit.host()
except ArgumentError as error:
    print("refused", error)
else:
    x = wend.linspace(-1, 1, 50)
    assert jit.obstacle() is None
    assert abs(wend.tanh(x @ x * 0.1).item() - 0.9399) < 1e-2
    print(found.vector_bytes, found.registers, found.fused)
"""


def at_level(level):
    done = subprocess.run(
        [sys.executable, "-c", LEVEL],
        env={**os.environ, "WEND_CPU": level, "WEND_COMPILE": "force"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def features():
    """What the processor can do, asked in a process of its own: a plugin may pretend otherwise."""
    program = "import json, llvmlite.binding as b; print(json.dumps(b.get_host_cpu_features()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(not jit.host().triple.startswith("x86_64"), reason="levels are those of x86-64")
def test_code_is_made_for_the_level_that_is_asked_for(features):
    assert at_level("sse4.2") == "16 16 False"
    expected = {"avx2": "32 16 True", "avx512": "64 32 True"}
    for level, feature in (("avx2", "avx2"), ("avx512", "avx512f")):
        found = at_level(level)
        if features[feature]:
            assert found == expected[level]
        else:
            assert found.startswith(f"refused WEND_CPU: this processor is below {level}")


@pytest.mark.skipif(not jit.host().triple.startswith("x86_64"), reason="levels are those of x86-64")
def test_a_level_above_the_processor_is_told_once_and_is_no_defect(features):
    if features["avx512f"]:
        pytest.skip("this processor has the highest level")
    program = "import wend\nfor k in range(6): y = (wend.ones(3) * 2).sum().item()\nprint(y)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "WEND_CPU": "avx512", "WEND_COMPILE": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "6.0"
    assert done.stderr.count("WEND_CPU: this processor is below avx512") == 1
    assert "defect" not in done.stderr


def test_code_at_hand_is_found_and_none_is_made(objects):
    text = adding(1234)
    assert jit.find_module(text, ["k"]) is None
    library = jit.compile_module(text, ["k"])
    before = count()
    assert jit.find_module(text, ["k"]) is library and counted(before) == (0, 0, 1)
    del library
    gc.collect()
    assert call(jit.find_module(text, ["k"]), 1) == 1235 and counted(before) == (0, 1, 1)


def test_nobody_waits_for_code_at_hand(objects):
    held, done = threading.Event(), threading.Event()

    def hold():
        with jit._lock:
            held.set()
            done.wait(30)

    library = jit.compile_module(adding(1235), ["k"])
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    try:
        assert jit.find_module(adding(1235), ["k"]) is None
    finally:
        done.set()
        thread.join()
    assert jit.find_module(adding(1235), ["k"]) is library
