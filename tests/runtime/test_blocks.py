"""Memory of large arrays that is used again: no two arrays in use share memory."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from wend._engine.core._select import is_compiled
from wend._engine.runtime.native.launcher import LARGE, launcher

LEAST = LARGE // 4
compiled = pytest.mark.skipif(
    not is_compiled(launcher) or sys.platform == "win32", reason="NumPy's own memory is used here"
)


def whole(array):
    """(first byte, byte behind the last) of an array."""
    start = array.ctypes.data
    return start, start + array.nbytes


def apart(arrays):
    spans = sorted(map(whole, arrays))
    return all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


@pytest.mark.parametrize("seed", range(4))
def test_arrays_of_many_sizes_never_share_memory(seed):
    """Blocks are cut and joined again while arrays of all sizes come and go."""
    rng = np.random.default_rng(seed)
    held = []
    for k in range(400):
        if held and rng.random() < 0.5:
            value, array = held.pop(int(rng.integers(len(held))))
            assert (array == value).all()
        else:
            size = int(LEAST * 2 ** rng.uniform(0, 5))
            array = launcher.large((size,), np.dtype("f4"))
            array.fill(k)
            held.append((k, array))
        assert apart([array for _, array in held])
    assert all((array == value).all() for value, array in held)


SIDE_BY_SIDE = """
import numpy as np
from wend._engine.runtime.native.launcher import launcher

def page(array):
    return array.ctypes.data // 4096

size, dtype = 37 << 20, np.dtype("u1")
block = launcher.large((size,), dtype)
first = page(block)
del block
parts = [launcher.large((size // 4 - 8192,), dtype) for _ in range(4)]
assert all(first <= page(part) < first + size // 4096 for part in parts)
del parts
assert page(launcher.large((size,), dtype)) == first
"""


@compiled
def test_blocks_side_by_side_serve_a_larger_array():
    """The parts that a block was cut into are one block again when a larger array needs it."""
    subprocess.run([sys.executable, "-c", SIDE_BY_SIDE], check=True)  # a process keeps other blocks


@compiled
def test_elements_begin_at_a_cache_line():
    arrays = [launcher.large((LEAST + 1000 * k,), np.dtype("f4")) for k in range(20)]
    assert all(array.ctypes.data % 64 == 0 for array in arrays)


@compiled
def test_large_arrays_of_the_reference_may_be_freed_and_resized_anywhere():
    """Arrays made inside and outside of `in_lots` are freed, and change their size, in turns."""
    rng = np.random.default_rng(0)
    held = []

    def churn():
        for k in range(60):
            if held and rng.random() < 0.5:
                value, array = held.pop(int(rng.integers(len(held))))
                assert (array == value).all()
            else:
                size = int(LEAST * 2 ** rng.uniform(-2, 6))
                array = np.full(size, k, "f4")
                if rng.random() < 0.3:
                    array.resize(size * 3, refcheck=False)
                    array[size:] = k
                held.append((k, array))

    for _ in range(6):
        launcher.in_lots(churn)
        churn()
    assert apart([array for _, array in held])
    assert all((array == value).all() for value, array in held)
