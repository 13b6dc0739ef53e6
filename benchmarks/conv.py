"""Generated convolutions beside PyTorch's (oneDNN), in GFLOP/s: forward and both gradients.

python benchmarks/conv.py
python benchmarks/conv.py --passes 3 8x64x64x40      # images x channels x filters x pixels a side

One thread, processor time, both in one process, taking turns. Kernels are 3 x 3 with padding 1;
".../2" steps by 2, "...k1" has a kernel of 1 x 1 and no padding, "...dw" one channel a group.
"last" is PyTorch with channels last, where inputs are given so.
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

from wend._engine.compiler.kernels.conv import forward as conv

SHAPES = [
    "1x3x32x64", "1x3x32x160", "1x32x32x64", "8x32x32x64", "1x32x64x97/2", "1x64x64x32",
    "8x64x64x32", "8x64x64x40", "8x64x128x32/2", "1x128x128x16", "8x128x128x20",
    "8x512x512x4", "8x512x512x10", "8x256x512x8/2", "8x64x128x32/2k1", "8x64x128x32k1",
    "8x64x64x40dw",
]  # fmt: skip
SIDES = ("wend", "torch", "last")
COLUMNS = [f"{what} {side}" for what in ("forward", "to input", "to weight") for side in SIDES]


class Convolution:
    """Operands of one convolution, and the argument blocks of the three kernels."""

    def __init__(self, name: str) -> None:
        self.groups = 1
        rest, depthwise = name.removesuffix("dw"), name.endswith("dw")
        rest, self.kernel = (rest[:-2], 1) if rest.endswith("k1") else (rest, 3)
        rest, self.stride = (rest[:-2], 2) if rest.endswith("/2") else (rest, 1)
        images, channels, filters, side = (int(n) for n in rest.split("x"))
        self.padding = self.kernel // 2
        out = (side + 2 * self.padding - self.kernel) // self.stride + 1
        if depthwise:
            self.groups = channels
        random = np.random.default_rng(0).random
        each = channels // self.groups
        self.x = aligned(random((images, channels, side, side), "f"))
        self.w = aligned(random((filters, each, self.kernel, self.kernel), "f"))
        self.g = aligned(random((images, filters, out, out), "f"))
        self.work = 2 * self.g.size * each * self.kernel**2 / 1e9
        self.kept: list[Any] = []

    def kernels(self) -> dict[str, Callable[[], Any]]:
        """The three calls of Wend's kernels."""
        names = {
            "forward": ("convolve", conv.CONVOLVE),
            "to input": ("convolve_input", conv.CONVOLVE_INPUT),
            "to weight": ("convolve_weight", conv.CONVOLVE_WEIGHT),
        }
        found: dict[str, Callable[[], Any]] = {}
        for what, (name, words) in names.items():
            function = conv.core(name, "float32").function(name, ctypes.c_void_p)
            block = self.block(words)
            self.kept.append(block)
            found[what + " wend"] = lambda f=function, at=block.ctypes.data: f(at)
        return found

    def block(self, words: list[str]) -> Any:
        """An argument block; what is computed goes over what is read."""
        channels, filters = self.w.shape[1], len(self.w) // self.groups
        size, out = self.x.shape[2], self.g.shape[2]
        area = size + 2 * self.padding + self.stride
        taps = self.kernel**2
        space = conv.weight_workspace(channels, filters, taps, area * area, "float32")
        space = max(space, conv.workspace_sums("convolve", "float32") // 2 * self.w.nbytes)
        partial = 4 * conv.partial_sums(self.x.shape[1], size * size)
        bundle = 4 * conv.bundle_sums(max(channels, filters), "float32")
        spread = 4 * conv.spread_sums("convolve_weight", channels, filters, taps, "float32")
        spaces = (2 * space, partial, bundle, conv.scratch_bytes("float32"), spread)
        room = [np.empty(n + 64, np.uint8) for n in spaces]
        self.kept += room
        workspace, partial, bundle, scratch, spread = (-(-x.ctypes.data // 64) * 64 for x in room)
        sides = {
            "input": size,
            "out": out,
            "kernel": self.kernel,
            "stride": self.stride,
            "dilation": 1,
            "pad": self.padding,
        }
        given = {f"{k}_{side}": n for k, n in sides.items() for side in ("height", "width")}
        for name, array in (("input", self.x), ("out", self.g)):
            dims = ("image", "channel", "row", "column")
            given |= {f"{name}_{d}": s // 4 for d, s in zip(dims, array.strides, strict=True)}
        given |= {
            "input": self.x.ctypes.data,
            "weight": self.w.ctypes.data,
            "out": self.g.ctypes.data,
            "ragged_images": len(self.x),
            "groups": self.groups,
            "channels": channels,
            "filters": filters,
            "weight_filter": self.w[0].size,
            "last_column": out * out,
            "last_filter": filters,
            "workspace": workspace,
            "partial": partial,
            "bundle": bundle,
            "scratch": scratch,
            "batch": len(self.x),
            "spread": spread,
        }
        return np.array([given.get(name, 0) for name in words], np.int64)

    def torch(self) -> dict[str, Callable[[], Any]]:
        """The same by PyTorch, both layouts."""
        if not importlib.util.find_spec("torch"):
            return {}
        import torch

        torch.set_num_threads(1)
        back = torch.ops.aten.convolution_backward
        found: dict[str, Callable[[], Any]] = {}
        forms = (("torch", torch.contiguous_format), ("last", torch.channels_last))
        pair = [self.padding] * 2, [1, 1]
        how = ([self.stride] * 2, *pair, False, [0, 0], self.groups)
        for side, form in forms:
            x, w, g = (torch.from_numpy(a).to(memory_format=form) for a in (self.x, self.w, self.g))
            given = (x, w, None, self.stride, self.padding, 1, self.groups)
            found["forward " + side] = lambda a=given: torch.nn.functional.conv2d(*a)
            for i, what in enumerate(("to input ", "to weight ")):
                mask = [i == 0, i == 1, False]
                found[what + side] = lambda a=(g, x, w, None, *how, mask): back(*a)
        return found


def aligned(values: Any) -> Any:
    """A copy that begins at a cache line."""
    room = np.empty(values.size + 64, values.dtype)
    begin = -room.ctypes.data % 64 // room.itemsize
    found = room[begin : begin + values.size].reshape(values.shape)
    found[...] = values
    return found


def measure(name: str, passes: int) -> dict[str, Any]:
    """One row: the best rates of all."""
    convolution = Convolution(name)
    functions = convolution.kernels() | convolution.torch()
    repeats = max(2, int(5e-3 / (convolution.work / 100)))
    times: dict[str, list[float]] = {what: [] for what in functions}
    for _ in range(passes):
        for what, function in functions.items():
            start = time.process_time()
            for _ in range(repeats):
                function()
            times[what].append((time.process_time() - start) / repeats)
    return {"shape": name} | {what: convolution.work / min(found) for what, found in times.items()}


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("shapes", nargs="*")
    parser.add_argument("--passes", type=int, default=7)
    given = parser.parse_args()
    rows = [measure(name, given.passes) for name in given.shapes or SHAPES]
    publish("conv", rows, ["shape", *COLUMNS])


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        # The libraries read these when they are loaded.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    main()
