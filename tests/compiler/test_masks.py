"""Storing some lanes of a vector: every number and set of them, for processors of several kinds."""

import ctypes

import numpy as np
import pytest
from targets import targets

from wend._engine.compiler.kernels.matmul.microkernel import lane_mask
from wend._engine.compiler.llvm_ir import masks
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import compile_module

LANES = 8
KINDS = [("float", "float32"), ("double", "float64"), ("i8", "int8"), ("i32", "int32")]


def stored(write, element, dtype, target, count):
    """`write` stores a vector of 1, 2, ... that is loaded for it; what was there is 0."""
    f = Routine("some", [("ptr", "x"), ("ptr", "to"), ("i64", "count")])
    write(f, f.load(f"<{LANES} x {element}>", "%x", np.dtype(dtype).itemsize))
    library = compile_module(f.text(), ["some"], target)
    x, to = np.arange(1, LANES + 1).astype(dtype), np.zeros((2, LANES + 1), dtype)
    call = library.function("some", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call(x.ctypes.data, to.ctypes.data, count)
    return to


@pytest.mark.parametrize(("element", "dtype"), KINDS)
@pytest.mark.parametrize(("kind", "target"), targets())
def test_lanes_of_a_mask(kind, target, element, dtype):
    def write(f, x):
        mask = lane_mask(f, LANES, "%count")
        place = "%to", np.dtype(dtype).itemsize
        masks.store_lanes(f, element, LANES, x, place, mask, target.masks)

    for count in range(LANES + 3):
        to = stored(write, element, dtype, target, count)
        there = min(count, LANES)
        assert to[0].tolist() == [*range(1, there + 1), *[0] * (LANES + 1 - there)]
        assert not to[1].any()


@pytest.mark.parametrize(("element", "dtype"), KINDS)
@pytest.mark.parametrize(("kind", "target"), targets())
def test_first_lanes_of_several_vectors(kind, target, element, dtype):
    size = np.dtype(dtype).itemsize

    def write(f, x):
        second = f.at("%to", (LANES + 1) * size)
        masks.store_first(f, element, LANES, [x, x], ["%to", second], size, "%count")

    for count in range(LANES):
        to = stored(write, element, dtype, target, count)
        for row in to:
            assert row.tolist() == [*range(1, count + 1), *[0] * (LANES + 1 - count)]
