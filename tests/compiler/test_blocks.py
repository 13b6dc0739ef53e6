"""Memory of large results, and of the reference's arrays: where it lies, and used again."""

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy._core.multiarray import get_handler_name
from tests.tries import own_trie

import wend as torch
from wend._engine.base import config, system
from wend._engine.compiler.llvm_ir import jit
from wend._engine.runtime import tiers
from wend._engine.runtime.native.launcher import LARGE, launcher, maker

compiled = pytest.mark.skipif(
    not launcher.__file__.endswith((".so", ".pyd")), reason="the launcher is not compiled"
)
SHAPE, DTYPE = (LARGE,), np.dtype(np.float32)


def test_small_arrays_are_numpys():
    assert maker((10,), DTYPE) is np.empty
    assert maker((LARGE // 4 - 1,), DTYPE) is np.empty
    assert maker((LARGE // 4,), DTYPE) is not np.empty


@compiled
def test_large_ones_begin_at_lines_of_a_page_that_are_far_from_one_another():
    made = [launcher.large(SHAPE, DTYPE) for _ in range(8)]
    assert all(x.ctypes.data % 64 == 0 and x.flags.owndata for x in made)
    of_the_c_library = 16
    places = sorted({of_the_c_library, *(x.ctypes.data % 4096 for x in made)})
    assert len(places) > 2
    assert all((b - a) % 4096 >= 512 - 16 for a, b in zip(places, places[1:] + places[:1]))
    assert get_handler_name(made[0]) == "wend"
    assert get_handler_name(np.empty(3)) != "wend"


@compiled
def test_freed_memory_is_used_again():
    first = launcher.large(SHAPE, DTYPE)
    place = first.ctypes.data
    del first
    assert launcher.large(SHAPE, DTYPE).ctypes.data == place
    less = launcher.large((LARGE * 15 // 16,), DTYPE)
    assert less.ctypes.data == place
    other = launcher.large((LARGE // 2,), DTYPE)
    assert other.ctypes.data != place


@compiled
def test_they_can_be_resized():
    made = launcher.large(SHAPE, DTYPE)
    made[...] = np.arange(LARGE)
    made.resize((3 * LARGE,), refcheck=False)
    np.testing.assert_array_equal(made[:LARGE], np.arange(LARGE))
    assert not made[LARGE:].any()
    made.resize((10,), refcheck=False)
    np.testing.assert_array_equal(made, np.arange(10))


@compiled
def test_what_cannot_be_had_is_an_error_and_leaves_numpy_as_it_was():
    with pytest.raises(MemoryError):
        launcher.large((1 << 46,), DTYPE)
    assert get_handler_name(np.empty(1 << 20)) != "wend"


#: Bytes of an array that lies in a lot.
MIDDLING = 400_000


def in_lots(*sizes):
    return launcher.in_lots(lambda: [np.empty(n, np.uint8) for n in sizes])


@compiled
def test_arrays_of_middling_size_lie_in_lots_and_others_do_not():
    small, one, other, large = in_lots(1000, MIDDLING, MIDDLING, 10 << 20)
    assert {get_handler_name(x) for x in (small, one, other, large)} == {"wend lots"}
    assert abs(one.ctypes.data - other.ctypes.data) < 4 << 20
    assert one.ctypes.data % 64 == 0
    assert one.ctypes.data % 4096 != other.ctypes.data % 4096
    assert get_handler_name(np.empty(3)) != "wend lots"


@compiled
def test_lots_are_left_when_the_call_raises():
    with pytest.raises(ZeroDivisionError):
        launcher.in_lots(lambda: 1 // 0)
    assert get_handler_name(np.empty(1 << 20)) != "wend lots"


@compiled
@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from([0, 9, 131_072, 300_000, 2 << 20, 3 << 20])),
        max_size=60,
    )
)
def test_no_two_arrays_share_memory(steps):
    """Arrays come, go, and change their size; each keeps what was written to it."""
    held = {}
    for k, (place, size) in enumerate(steps):
        if place in held and k % 3 == 0:
            array, value = held[place]
            have = array.size
            array.resize(size, refcheck=False)
            array[have:] = value
        else:
            held.pop(place, None)
            held[place] = (in_lots(size)[0], k % 251)
            held[place][0][...] = k % 251
        if k % 7 == 0:
            launcher.trim_lots()
        for array, value in held.values():
            assert (array == value).all()


@compiled
def test_the_reference_computes_in_lots():
    with own_trie(), config.override(compile=False):
        x = torch.tensor(np.ones(MIDDLING // 4, np.float32))
        y = x + 1
        y.sum().item()
        assert get_handler_name(y.value.buffer) == "wend lots"


def test_results_lie_in_them(monkeypatch):
    made = []

    def noted(shape, dtype):
        made.append(shape)
        return np.empty(shape, dtype)

    monkeypatch.setattr(launcher, "large", noted)
    with own_trie(), config.override(compile=True, wait=True):
        x = torch.tensor(np.arange(LARGE, dtype=np.float32))
        (torch.tanh(x) + x).numpy()
    assert made == [(LARGE,)]


@pytest.mark.parametrize(("least", "times"), [(0.0, 1), (1e9, 0)])
def test_the_heap_goes_back_when_machine_code_takes_over_from_a_slow_reference(
    monkeypatch, least, times
):
    returned = []
    monkeypatch.setattr(tiers, "LONG", least)
    monkeypatch.setattr(tiers.system, "trim_heap", lambda: returned.append(1))
    with own_trie(), config.override(compile=True, wait=False):
        x = np.arange(6, dtype=np.float32)
        for _ in range(6):
            np.testing.assert_allclose((torch.tensor(x) * 3 + 1).numpy(), x * 3 + 1)
            jit.drain(60)
    assert len(returned) == times


def test_giving_the_heap_back_leaves_what_is_in_use():
    kept = [np.full(1 << 16, k) for k in range(8)]
    del kept[::2]
    system.system.trim_heap()
    assert [int(x.min()) for x in kept] == [1, 3, 5, 7]


def test_a_c_library_without_trimming_is_let_be(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    system._malloc_trim.cache_clear()
    try:
        system.system.trim_heap()
    finally:
        system._malloc_trim.cache_clear()
