"""Libraries made ahead of time: size on disk, and time of a call beside the program's own.

wend run benchmarks/libraries.py [--seconds N]

The program's time is its best: the path is compiled, and the result is read. Both compute on one
thread, and turns alternate. PyTorch's row is the size of `libtorch_cpu.so`, which every program
that runs an exported model loads.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench import HERE, publish, ratio
from torch import nn

sys.path += [str(HERE.parent / "examples"), str(HERE / "workloads")]
COLUMNS = ["model", "sizes", ".so kB", ".wasm kB", "weights kB", "ratio", "low", "high"]
DTYPES = {"float32": 8, "int64": 5}
TURN = 0.01  # seconds of a turn, at least


class Tagger(nn.Module):
    """Tags for words; later layers are for sentences of which a tag is not sure.

    words: (n,) of int64   ->   scores: (n, 5)
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.layers = nn.ModuleList(nn.LSTM(64, 64) for _ in range(3))
        self.heads = nn.ModuleList(nn.Linear(64, 5) for _ in range(3))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embedding(words).unsqueeze(1)
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x)[0]
            scores = head(x.squeeze(1)).softmax(-1)
            if scores.amax(dim=-1).min() > 0.9:
                break
        return scores


class CTensor(ctypes.Structure):
    """An array of the header."""

    _fields_ = (
        ("shape", ctypes.c_int64 * 8),
        ("nbytes", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
    )


def caller(made: Any, x: np.ndarray) -> tuple[Callable[[], Any], np.ndarray]:
    """Return a function that runs the library on x, and the array that results go to."""
    library = ctypes.CDLL(str(made.library))
    library.model_new.restype = ctypes.c_void_p
    library.model_error.restype = ctypes.c_char_p
    model = ctypes.c_void_p(library.model_new(str(made.weights).encode()))
    given, out = CTensor(), CTensor()
    given.shape[: x.ndim], given.data, given.ndim = x.shape, x.ctypes.data, x.ndim
    given.dtype = DTYPES[x.dtype.name]
    room = np.zeros(1 << 16, np.float32)
    out.data, out.nbytes = room.ctypes.data, room.nbytes
    rows = ctypes.byref(given), 1, ctypes.byref(out), 1

    def run() -> None:
        if library.model_run(model, *rows):
            raise RuntimeError(library.model_error().decode())

    run()
    return run, room[: int(np.prod(out.shape[: out.ndim]))]


def models() -> dict[str, tuple[nn.Module, Callable[[int], torch.Tensor], tuple[int, ...]]]:
    """Return by name (module, function from a size to an input, sizes)."""
    from digits import CNN
    from resnet import ResNet

    torch.manual_seed(0)
    mlp = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    return {
        "mlp": (mlp, lambda n: torch.randn(n, 784), (2, 1, 64)),
        "digits": (CNN(), lambda n: torch.randn(n, 1, 8, 8), (2, 1, 64)),
        "resnet": (ResNet(), lambda n: torch.randn(2, 3, n, n), (64, 96, 160)),
        "tagger": (Tagger(), lambda n: torch.randint(0, 1000, (n,)), (5, 20, 60)),
    }


def compared(module: nn.Module, x: torch.Tensor, made: Any, seconds: float) -> dict[str, float]:
    """Return the ratio of a library's time to the program's, where the results are the same."""
    run, found = caller(made, x.numpy())
    with torch.no_grad():
        want = module(x).numpy().ravel()
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
        mine, theirs = [], []
        for _ in range(20):
            module(x).numpy()
        start = time.process_time()
        run()
        calls = 1 + int(TURN / max(time.process_time() - start, 1e-6))
        end = time.process_time() + seconds
        while time.process_time() < end or len(mine) < 5:
            start = time.process_time()
            for _ in range(calls):
                run()
            middle = time.process_time()
            for _ in range(calls):
                module(x).numpy()
            mine.append(middle - start)
            theirs.append(time.process_time() - middle)
    return ratio(mine, theirs)


def kilobytes(path: Path) -> float:
    """Return the size of a file."""
    return path.stat().st_size / 1000


def libtorch() -> list[dict[str, Any]]:
    """Return the row of PyTorch's library, where PyTorch is installed."""
    for folder in sys.path:
        found = Path(folder) / "torch" / "lib" / "libtorch_cpu.so"
        if found.exists():
            return [{"model": "libtorch_cpu.so", ".so kB": kilobytes(found)}]
    return []


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of processor time a size")
    args = parser.parse_args()
    zig = importlib.util.find_spec("ziglang") is not None
    rows: list[dict[str, Any]] = []
    for name, (module, make, sizes) in models().items():
        module.eval()
        with tempfile.TemporaryDirectory() as folder:
            example = make(sizes[0])
            made = torch.aot.compile(module, example, directory=folder)
            row: dict[str, Any] = {"model": name, ".so kB": kilobytes(made.library)}
            row["weights kB"] = kilobytes(made.weights)
            if zig:
                other = Path(folder) / "wasm"
                wasm = torch.aot.compile(module, example, "wasm32", directory=other)
                row[".wasm kB"] = kilobytes(wasm.library)
            for size in sizes:
                x = make(size)
                shape = "x".join(map(str, x.shape))
                found = compared(module, x, made, args.seconds)
                rows.append({**row, "sizes": shape, **found})
                row = {"model": ""}
    publish("libraries", [*rows, *libtorch()], COLUMNS)


if __name__ == "__main__":
    main()
