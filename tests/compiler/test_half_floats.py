"""float16 and bfloat16 in generated code: bit for bit what NumPy and ml_dtypes make of them."""

import elementwise
import ml_dtypes
import numpy as np
import pytest
from targets import targets

from wend._engine.base import dtypes
from wend._engine.compiler.llvm_ir.number_bits import rounded

HALVES = [(dtypes.float16, np.float16), (dtypes.bfloat16, ml_dtypes.bfloat16)]
ALL = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


def same(got, want):
    """Equal bits, or both NaN."""
    size = {2: np.uint16, 4: np.uint32, 8: np.uint64}[got.dtype.itemsize]
    with np.errstate(all="ignore"):
        nan = np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    equal = (got.view(size) == want.view(size)) | nan
    assert equal.all(), f"{got[~equal][:5]}, not {want[~equal][:5]}"


def floats(dtype):
    """Ties, neighbours of ties, subnormal results, overflow, and anything."""
    bits = np.arange(0, 1 << 32, 65521, dtype=np.uint64).astype(np.uint32)
    tie = (ALL.astype(np.uint32) << 16)[:, None] + np.array([0x7FFF, 0x8000, 0x8001], np.uint32)
    half = ALL.view(np.float16).astype(np.float64)
    with np.errstate(all="ignore"):
        middle = (half[:-1] + half[1:]) / 2
        around = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, 1e9)])
        singles = np.concatenate([bits.view(np.float32), tie.ravel().view(np.float32)])
        return np.concatenate([singles.astype(dtype), around.astype(dtype)])


@pytest.mark.parametrize(("kind", "target"), targets())
@pytest.mark.parametrize(("dtype", "numpy"), HALVES)
def test_every_half_is_widened(dtype, numpy, kind, target):
    for lanes in (1, 16):
        got, _ = elementwise.run(
            lambda b, x: b.convert(x, dtypes.float32), [ALL.view(numpy)], lanes, target
        )
        same(got, ALL.view(numpy).astype(np.float32))
        back, _ = elementwise.run(lambda b, x: x, [ALL.view(numpy)], lanes, target)
        same(back, ALL.view(numpy))


@pytest.mark.parametrize(("kind", "target"), targets())
@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize(("dtype", "numpy"), HALVES)
def test_floats_are_rounded_once(dtype, numpy, source, kind, target):
    x = floats(source)
    with np.errstate(all="ignore"):
        want = x.astype(numpy)
    for lanes in (1, 16):
        got, _ = elementwise.run(lambda b, x: b.convert(x, dtype), [x], lanes, target)
        same(got, want)


@pytest.mark.parametrize(("dtype", "numpy"), HALVES)
def test_neighbours_of_halves(dtype, numpy):
    x = ALL.view(numpy)
    for towards in (numpy(1), numpy(-np.inf), numpy(np.inf), numpy(0)):
        got, _ = elementwise.run(
            lambda b, x, y: b.nextafter(x, y), [x, np.full_like(x, towards)], 16
        )
        with np.errstate(all="ignore"):
            want = np.nextafter(x, towards).astype(numpy)
            want[x == towards] = towards  # as C has it: of two zeros, the second
        same(got, want)


@pytest.mark.parametrize(("dtype", "numpy"), HALVES)
def test_constants_are_rounded_as_the_processor_does(dtype, numpy):
    values = floats(np.float64)[::97]
    with np.errstate(all="ignore"):
        want = values.astype(numpy).astype(np.float64)
    same(np.array([rounded(float(v), dtype) for v in values]), want)
