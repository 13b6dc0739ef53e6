"""Generated matrix products beside PyTorch's (MKL) and NumPy's (OpenBLAS), in GFLOP/s.

python benchmarks/matmul.py
python benchmarks/matmul.py --passes 3 64x784x256       # a quick look: rows x depth x columns

One thread, processor time, all sides in one process, taking turns. "packed" has packed the right
operand before, as is done once for a weight, "with packing" counts that; the other columns read
operands as they stand: as they are written (nn), the right one transposed (nt), the left one (tn).
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench import ONE_THREAD, publish

from wend.compiler import matmul

SHAPES = [
    "768x128x384", "64x768x256", "1024x1024x1024", "32x256x1024", "8x300x752", "64x784x256",
    "64x256x10", "768x128x128", "1x256x1024", "128x256x256",
]  # fmt: skip
BATCHES = ["48x64x32x64", "48x64x64x32", "8x256x32x256"]
COLUMNS = [
    "shape", "packed", "with packing", "nn", "nt", "tn", "torch nn", "torch nt", "torch tn",
    "numpy", "packed / torch", "low", "high",
]  # fmt: skip


def aligned(shape: tuple[int, ...], dtype: str, turned: bool = False) -> Any:
    """Random numbers that begin at a cache line; turned: the last two dims lie transposed."""
    size = int(np.prod(shape))
    room = np.empty(size + 64, dtype)
    begin = -room.ctypes.data % 64 // room.itemsize
    laid = shape[:-2] + (shape[-1], shape[-2]) if turned else shape
    found = room[begin : begin + size].reshape(laid)
    found[...] = np.random.default_rng(0).random(laid)
    return found.swapaxes(-1, -2) if turned else found


class Kernels:
    """The functions of the core, called as a plan calls them: with a block of words."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        library = matmul.core(dtype)
        self.product = library.function("product", ctypes.c_void_p)
        self.pack = library.function("pack", ctypes.c_void_p)
        self.scratch = np.empty(matmul.scratch_bytes(dtype) + 64, np.uint8)

    def block(self, left: Any, right: Any, out: Any, packed: Any = None) -> Any:
        """The argument block of a product."""
        (rows, depth), columns = left.shape[-2:], right.shape[-1]
        strides = [[s // x.itemsize for s in x.strides] for x in (left, right, out)]
        (*l1, left_row, left_step), (*r1, right_step, right_column), (*o1, out_row, _) = strides
        words = {
            "left": left.ctypes.data,
            "right": (right if packed is None else packed).ctypes.data,
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
            "batch0": 1,
            "batch1": int(np.prod(out.shape[:-2])),
            "left1": sum(l1),
            "right1": sum(r1),
            "out1": sum(o1),
            "last_row": rows,
            "last_column": columns,
            "scratch": -(-self.scratch.ctypes.data // 64) * 64,
        }
        return np.array([words.get(name, 0) for name in matmul.PRODUCT], np.int64)

    def pack_block(self, right: Any, packed: Any) -> Any:
        """The argument block of packing."""
        strides = [s // right.itemsize for s in right.strides]
        addresses = [right.ctypes.data, packed.ctypes.data]
        return np.array([*addresses, *right.shape, *strides, 1, 1, 0, 0], np.int64)


def sides(kernels: Kernels, shape: tuple[int, ...]) -> dict[str, Callable[[], Any]]:
    """What takes turns, by column."""
    *batch, rows, depth, columns = shape
    dtype = kernels.dtype
    lefts = [aligned((*batch, rows, depth), dtype, turned) for turned in (False, True)]
    rights = [aligned((*batch, depth, columns), dtype, turned) for turned in (False, True)]
    out = aligned((*batch, rows, columns), dtype)
    pairs = {"nn": (0, 0), "nt": (0, 1), "tn": (1, 0)}
    found: dict[str, Callable[[], Any]] = {}
    for name, (i, j) in pairs.items():
        found[name] = called(kernels.product, kernels.block(lefts[i], rights[j], out))
    if not batch:
        packed = aligned((matmul.packed_size(depth, columns, dtype), 1), dtype)
        found["packed"] = called(kernels.product, kernels.block(lefts[0], rights[0], out, packed))
        found["packing"] = called(kernels.pack, kernels.pack_block(rights[0], packed), packed)
    found["numpy"] = lambda: np.matmul(lefts[0], rights[0], out=out)
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        into = torch.from_numpy(out)
        for name, (i, j) in pairs.items():
            x, y = torch.from_numpy(lefts[i]), torch.from_numpy(rights[j])
            found[f"torch {name}"] = lambda x=x, y=y: torch.matmul(x, y, out=into)
    return found


def called(function: Any, block: Any, *kept: Any) -> Callable[[], Any]:
    """A call with a block, which lives as long as the call."""
    return lambda: (function(block.ctypes.data), kept)


def measure(kernels: Kernels, shape: tuple[int, ...], passes: int) -> dict[str, Any]:
    """One row: the best rates, and the median ratio of paired passes with its spread."""
    work = 2 * float(np.prod(shape)) / 1e9
    repeats = max(2, int(5e-3 / (work / 100)))
    functions = sides(kernels, shape)
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(passes):
        for name, function in functions.items():
            start = time.process_time()
            for _ in range(repeats):
                function()
            times[name].append((time.process_time() - start) / repeats)
    row: dict[str, Any] = {"shape": "x".join(map(str, shape))}
    best = {name: min(found) for name, found in times.items()}
    if "packing" in best:
        best["with packing"] = best["packed"] + best.pop("packing")
    row |= {name: work / seconds for name, seconds in best.items()}
    mine = "packed" if "packed" in times else "nn"
    if "torch nn" in times:
        ratios = sorted(b / a for a, b in zip(times[mine], times["torch nn"], strict=True))
        row["packed / torch"] = ratios[len(ratios) // 2]
        row |= {"low": ratios[0], "high": ratios[-1]}
    return row


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("shapes", nargs="*", help="rows x depth x columns, or with a batch first")
    parser.add_argument("--passes", type=int, default=11)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    given = parser.parse_args()
    kernels = Kernels(given.dtype)
    rows = [
        measure(kernels, tuple(int(n) for n in shape.split("x")), given.passes)
        for shape in given.shapes or SHAPES + BATCHES
    ]
    publish(f"matmul-{given.dtype}", rows, COLUMNS)


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        # The libraries read these when they are loaded.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    main()
