"""Machine code that comes with an installation: made per level, found by text, or else compiled."""

import ctypes
import os

import pytest

from wend._engine.compiler import ready_made
from wend._engine.compiler.llvm_ir import jit, ready_objects
from wend._engine.compiler.llvm_ir.object_cache import ObjectCache

TEXT = "define i64 @k(i64 %x) {\n  %y = add i64 %x, 5\n  ret i64 %y\n}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with ready-made kernels of this test's own, and an empty cache."""
    if not ready_objects.level_of(jit.host().names):
        pytest.skip("this processor is below all levels")
    monkeypatch.setattr(ready_objects, "FOLDER", tmp_path / "ready")
    monkeypatch.setattr(ready_made, "texts", lambda: iter([TEXT]))
    jit.use_cache(ObjectCache(tmp_path / "objects"))
    yield tmp_path / "ready"
    jit.use_cache(None)


def make(folder):
    """Make the kernels of all texts; return how many these are."""
    with ready_made.making(folder) as ready:
        for text in ready_made.texts():
            ready.add(text)
    return len(ready.wanted)


def run(text=TEXT):
    """The kernel's result for 4, and how many modules were (compiled, ready)."""
    counters = jit.counters
    before = counters.compiled, counters.ready
    y = jit.compile_module(text, ["k"]).function("k", ctypes.c_int64, result=ctypes.c_int64)(4)
    return y, counters.compiled - before[0], counters.ready - before[1]


def test_levels_are_told_by_features():
    avx2 = {"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "sse4.2"}
    wide = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
    assert ready_objects.level_of(avx2) == "x86-64-v3"
    assert ready_objects.level_of(avx2 | wide) == "x86-64-v4"
    assert ready_objects.level_of(avx2 | {"avx512f"}) == "x86-64-v3"
    assert ready_objects.level_of(avx2 - {"fma"}) == ready_objects.level_of(()) == ""


def test_a_ready_kernel_is_not_compiled(folder):
    assert make(folder) == 1
    assert run() == (9, 0, 1)
    assert run(TEXT.replace("5", "6")) == (10, 1, 0)


def test_without_ready_kernels_all_are_compiled(folder):
    assert run(TEXT.replace("5", "7")) == (11, 1, 0)


def make_two(folder, monkeypatch):
    """Make the kernels of two texts; return the file, its content, and the second text."""
    other = TEXT.replace("5", "8")
    monkeypatch.setattr(ready_made, "texts", lambda: iter([TEXT, other]))
    assert make(folder) == 2
    (path,) = folder.iterdir()
    return path, path.read_bytes(), other


@pytest.mark.parametrize("n", [0, 7, 11, 20, 59])
def test_a_file_that_is_cut_short_counts_as_absent(n, folder, monkeypatch):
    path, content, other = make_two(folder, monkeypatch)
    path.write_bytes(content[:n])
    ready_objects.index_of.cache_clear()
    assert run() == (9, 1, 0) and run(other) == (12, 1, 0)


def test_a_file_of_another_kind_counts_as_absent(folder, monkeypatch):
    path, content, _ = make_two(folder, monkeypatch)
    path.write_bytes(b"X" + content[1:])
    ready_objects.index_of.cache_clear()
    assert run() == (9, 1, 0)


def test_an_object_that_cannot_be_read_counts_as_absent(folder, monkeypatch):
    """The other object is used; the next making makes the first one again."""
    path, content, other = make_two(folder, monkeypatch)
    places = sorted(ready_objects.index_of(path).values())
    last = min(places[1][0], len(content) - 1)
    path.write_bytes(content[:last] + b"no object")
    results = [run()[1:], run(other)[1:]]
    assert sorted(results) == [(0, 1), (1, 0)]
    assert make(folder) == 2 and path.read_bytes() == content


def test_a_file_that_is_removed_later_counts_as_absent(folder, monkeypatch):
    path, _, other = make_two(folder, monkeypatch)
    assert run() == (9, 0, 1)
    path.unlink()
    assert run(other) == (12, 1, 0)


def test_objects_lie_behind_the_index_without_gaps(folder, monkeypatch):
    path, content, _ = make_two(folder, monkeypatch)
    index = ready_objects.index_of(path)
    assert len(index) == 2 and sum(size for _, size in index.values()) < len(content)
    ends = sorted((start, start + size) for start, size in index.values())
    assert ends[0][0] == 12 + 2 * 24 and ends[0][1] == ends[1][0] and ends[1][1] == len(content)


def test_kernels_of_other_texts_are_removed_and_the_rest_is_kept(folder, monkeypatch):
    make(folder)
    (path,) = folder.iterdir()
    kept = ready_objects.read_all(path)
    path, _, other = make_two(folder, monkeypatch)
    assert len(kept) == 1 and kept.items() < ready_objects.read_all(path).items()
    os.utime(path, (1, 1))
    assert make(folder) == 2 and path.stat().st_mtime == 1  # nothing has changed
    monkeypatch.setattr(ready_made, "texts", lambda: iter([other]))
    assert make(folder) == 1 and ready_objects.read_all(path).keys().isdisjoint(kept)
    assert list(folder.iterdir()) == [path]


def test_texts_are_those_of_plans():
    """A kernel that plans write in other words would never be found."""
    import wend
    from wend._engine.base import config
    from wend.nn import functional as F

    def step():
        x = wend.ones(2, 3, 8, 8, requires_grad=True)
        w = wend.ones(4, 3, 3, 3, requires_grad=True)
        F.conv2d(x, w).sum().backward()
        q = wend.ones(1, 2, 8, 4, requires_grad=True)
        F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
        wend.mm(wend.ones(5, 6), wend.ones(6, 7)).numpy()
        return float(x.grad.sum() + w.grad.sum() + q.grad.sum())

    seen = set()
    original = jit.compile_module

    def compile_module(text, names, target=None, offer=None):
        seen.add(text)
        return original(text, names, target, offer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "compile_module", compile_module)
        with config.override(compile=True, wait=True, deterministic=False):
            step()
    ready = set(ready_made.texts())
    for name in ("product", "convolve", "convolve_input", "convolve_weight", "attend"):
        assert any(f"@{name}(" in text for text in seen & ready), name
