"""Generated matrix products beside PyTorch's (MKL) and NumPy's (OpenBLAS), in GFLOP/s.

python benchmarks/matmul.py
python benchmarks/matmul.py --passes 3 64x784x256       # a quick look: rows x depth x columns
python benchmarks/matmul.py --grid 200 --passes 5       # shapes from 1 to 2048, all transposes

One thread, processor time, all sides in one process, taking turns. "packed" has packed the right
operand before, as is done once for a weight, "with packing" counts that; the other columns read
operands as they stand: as they are written (nn), the right one transposed (nt), the left one (tn).
The grid compares with the better of both, times by times: above 1 Wend is faster.
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

from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.llvm_ir import jit

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


GRID_COLUMNS = ["shape", "form", "wend", "torch", "numpy", "ratio", "packed ratio"]
FORMS = {"nn": (0, 0), "nt": (0, 1), "tn": (1, 0), "tt": (1, 1)}


def grid(count: int) -> list[tuple[tuple[int, int, int], str]]:
    """Shapes of every order of magnitude up to 2048, and odd ones, each with a form."""
    random = np.random.default_rng(0)
    sizes = 2.0 ** random.uniform(0, 11, (count, 3))
    # Every other extent is a round one, as layers have them.
    rounded = 2.0 ** np.round(np.log2(sizes))
    sizes = np.where(random.random((count, 3)) < 0.5, rounded, sizes).astype(int)
    forms = list(FORMS)
    return [((m, k, n), forms[i % 4]) for i, (m, k, n) in enumerate(sizes.tolist())]


_REPEAT = """
define void @repeat(ptr %function, ptr %block, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %end
body:
  call void %function(ptr %block)
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}
"""


def repeater(function: Any, block: Any, *kept: Any) -> Callable[[int], Any]:
    """What calls a kernel n times, as a plan does: without Python between the calls."""
    repeat = jit.compile_module(_REPEAT, ["repeat"]).function(
        "repeat", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    )
    address = ctypes.cast(function, ctypes.c_void_p)
    return lambda n: (repeat(address, block.ctypes.data, n), kept)


def repeated(function: Callable[[], Any]) -> Callable[[int], Any]:
    """What calls a Python function n times."""

    def run(n: int) -> None:
        for _ in range(n):
            function()

    return run


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


def on_grid(
    kernels: Kernels, shape: tuple[int, int, int], form: str, passes: int
) -> dict[str, Any]:
    """One row of the grid: rates, and the ratios to the better of the others."""
    rows, depth, columns = shape
    dtype = kernels.dtype
    turned = FORMS[form]
    x = aligned((rows, depth), dtype, bool(turned[0]))
    y = aligned((depth, columns), dtype, bool(turned[1]))
    out = aligned((rows, columns), dtype)
    packed = aligned((matmul.packed_size(depth, columns, dtype), 1), dtype)
    kernels.pack(kernels.pack_block(y, packed).ctypes.data)
    functions = {
        "wend": repeater(kernels.product, kernels.block(x, y, out)),
        "packed": repeater(kernels.product, kernels.block(x, y, out, packed), packed),
        "numpy": repeated(lambda: np.matmul(x, y, out=out)),
    }
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        into, a, b = torch.from_numpy(out), torch.from_numpy(x), torch.from_numpy(y)
        functions["torch"] = repeated(lambda: torch.matmul(a, b, out=into))
    work = 2 * rows * depth * columns / 1e9
    times = timed(functions, work, passes)
    best = {name: min(found) for name, found in times.items()}
    judge = min(seconds for name, seconds in best.items() if name in ("torch", "numpy"))
    row: dict[str, Any] = {"shape": "x".join(map(str, shape)), "form": form}
    row |= {name: work / seconds for name, seconds in best.items()}
    return row | {"ratio": judge / best["wend"], "packed ratio": judge / best["packed"]}


def timed(
    functions: dict[str, Callable[[int], Any]], work: float, passes: int
) -> dict[str, list[float]]:
    """Seconds of a call in each pass, the functions taking turns. work: in 10**9 operations"""
    repeats = max(1, min(2000, int(2e-3 / (work / 100 + 2e-6))))
    times: dict[str, list[float]] = {name: [] for name in functions}
    turns = list(functions.items())
    for _ in range(passes):
        for name, function in turns:
            function(1 + repeats // 8)  # what ran before has had the caches
            start = time.process_time()
            function(repeats)
            times[name].append((time.process_time() - start) / repeats)
        turns.append(turns.pop(0))
    return times


def judge_grid(kernels: Kernels, count: int, passes: int) -> None:
    """Measure the grid; publish all rows, slowest first, and say what of the targets is reached."""
    rows = [on_grid(kernels, shape, form, passes) for shape, form in grid(count)]
    for _ in range(2):  # what seems slower is looked at again: noise makes none faster
        for k, row in enumerate(rows):
            if row["ratio"] < 0.97:
                shape = tuple(int(n) for n in row["shape"].split("x"))
                again = on_grid(kernels, shape, row["form"], 2 * passes)
                rows[k] = max(row, again, key=lambda r: r["ratio"])
    rows.sort(key=lambda row: row["ratio"])
    publish(f"matmul-grid-{kernels.dtype}", rows, GRID_COLUMNS)
    for name in ("ratio", "packed ratio"):
        found = sorted(row[name] for row in rows)
        slower = sum(ratio < 0.97 for ratio in found)
        print(f"{name}: median {found[len(found) // 2]:.3f}, {slower} of {len(found)} below 0.97")


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
    parser.add_argument("--grid", type=int, default=0, help="so many shapes, against the better")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    given = parser.parse_args()
    kernels = Kernels(given.dtype)
    if given.grid:
        judge_grid(kernels, given.grid, given.passes)
        return
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
