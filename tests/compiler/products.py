"""Calling the functions of `compiler.kernels.matmul.matmul` on NumPy arrays."""

import ctypes
import mmap

import numpy as np
import pytest

from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.llvm_ir.jit import compile_module


def aligned(size, dtype):
    """Zeros that begin at a multiple of 64 bytes."""
    whole = np.zeros(size + 64, dtype)
    return whole[-whole.ctypes.data % 64 // whole.itemsize :][:size]


def words(names, **values):
    """The argument block."""
    assert set(values) <= set(names)
    return np.array([values.get(name, 0) for name in names], np.int64)


def strides(array, rank):
    """Strides in elements, of `rank` dims; 0 for those that are not there."""
    return [0] * (rank - array.ndim) + [s // array.itemsize for s in array.strides]


def call(name, dtype, block, target=None):
    if target is None:
        library = matmul.core(dtype)
    else:
        library = compile_module(matmul.core_text(dtype, target), ["product", "pack"], target)
    library.function(name, ctypes.c_void_p)(block.ctypes.data)


def pack(right, dtype, target=None):
    depth, columns = right.shape[-2:]
    batch = [1] * (4 - right.ndim) + list(right.shape[:-2])
    r0, r1, step, column = strides(right, 4)
    kind = matmul.accumulator(dtype)
    size = matmul.packed_size(depth, columns, dtype, target)
    packed = aligned(max(1, int(np.prod(batch)) * size), kind)
    block = words(
        matmul.PACK,
        right=right.ctypes.data,
        packed=packed.ctypes.data,
        depth=depth,
        columns=columns,
        right_step=step,
        right_column=column,
        batch0=batch[0],
        batch1=batch[1],
        right0=r0,
        right1=r1,
    )
    call("pack", dtype, block, target)
    return packed


def product(left, right, out, dtype, packed=None, target=None, **more):
    """out = left @ right by the generated kernel; up to two dims of batch."""
    rows, depth = left.shape[-2:]
    columns = right.shape[-1]
    batch = [1] * (4 - out.ndim) + list(out.shape[:-2])
    l0, l1, left_row, left_step = strides(left, 4)
    r0, r1, right_step, right_column = strides(right, 4)
    o0, o1, out_row, _ = strides(out, 4)
    if packed is not None:
        right, size = packed, matmul.packed_size(depth, columns, dtype, target)
        r0, r1 = batch[1] * size * bool(r0), size * bool(r1)
    scratch = aligned(matmul.scratch_bytes(dtype, target), np.uint8)
    given = {
        "left": left.ctypes.data,
        "right": right.ctypes.data,
        "out": out.ctypes.data,
        "rows": rows,
        "columns": columns,
        "depth": depth,
        "left_row": left_row,
        "left_step": left_step,
        "right_step": right_step,
        "right_column": right_column,
        "packed": int(packed is not None),
        "out_row": out_row,
        "batch0": batch[0],
        "batch1": batch[1],
        "left0": l0,
        "left1": l1,
        "right0": r0,
        "right1": r1,
        "out0": o0,
        "out1": o1,
        "last_row": rows,
        "last_column": columns,
        "scratch": scratch.ctypes.data,
    }
    call("product", dtype, words(matmul.PRODUCT, **{**given, **more}), target)
    return out


def guarded(array, front=False):
    """A copy whose memory begins or ends where the process may not read or write."""
    page = mmap.PAGESIZE
    size = -(-array.nbytes // page) * page
    room = mmap.mmap(-1, size + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    libc = ctypes.CDLL(None, use_errno=True)
    for guard in (start, start + page + size):
        if libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0):
            pytest.skip("this system does not protect pages")
    begin = page if front else page + size - array.nbytes
    copy = np.frombuffer(room, array.dtype, array.size, begin).reshape(array.shape)
    copy[...] = array
    return copy
