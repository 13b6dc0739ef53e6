"""Numbers of TorchScript archives in a folder: by Wend, and by PyTorch that wrote these.

    python benchmarks/torchscript_archives.py FOLDER [--time]

For each file the shapes of arguments are tried that the types and the first weights allow, until
PyTorch takes a set. A row then shows the largest difference, relative to the largest number of the
result, for two calls in a row: programs may keep a state. `--time` adds the milliseconds of a call
by each, the best of five, in processor time.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import time
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import wend

ENDINGS = (".pt", ".jit", ".ts", ".ptl", ".torchscript", ".pth")
SIZES = ((224, 224), (64, 64), (28, 28), (640, 640), (160, 160), (320, 320))


def images(channels: int) -> list[Any]:
    """Images of usual sizes."""
    return [torch.rand(1, channels, n, m) for n, m in SIZES]


def tensors(module: Any) -> list[Any]:
    """Tensors that a module may take first, by the weights."""
    found: list[Any] = []
    for weight in itertools.islice((p for p in weights(module) if p.dim() >= 2), 12):
        if weight.dim() == 4:
            found += images(weight.shape[1])
        if weight.dim() == 3:
            found += [torch.randn(1, weight.shape[1], n) for n in (512, 16000)]
        if weight.dim() == 2:
            width = weight.shape[1]
            found += [torch.randn(1, width), torch.randn(1, 5, width), torch.randn(5, 1, width)]
            found += [torch.randint(0, min(weight.shape), (1, 12)), torch.randn(width)]
    found += [torch.randn(1, n) for n in (512, 1536, 16000)]
    found += [torch.randn(1, n) for n in (45, 48, 60, 270, 285, 470, 570)]
    found += [torch.randint(0, 100, (1, 12)).to(torch.uint8), *images(3), *images(1)]
    return found


def weights(module: Any) -> Any:
    """All tensors of a state, and those of attributes."""
    yield from module.parameters()
    yield from module.buffers()


def arguments(module: Any) -> Any:
    """Sets of arguments to try."""
    types = [str(a.type) for a in module.forward.schema.arguments[1:]]
    names = [a.name for a in module.forward.schema.arguments[1:]]
    first = tensors(module)
    if types == ["Tensor"]:
        return [(x,) for x in first]
    if types == ["List[Tensor]"]:
        return [([x[0]],) for x in first if x.dim() == 4]
    rows = []
    for x in first:
        row: list[Any] = [x]
        for kind, name in zip(types[1:], names[1:], strict=True):
            if kind == "int":
                row.append(16000 if "sr" in name else 3)
            elif kind == "Tensor":
                row.append(torch.randn_like(x.float()).to(x.dtype))
            elif kind == "float":
                row.append(1.0)
            elif kind == "bool":
                row.append(False)
            else:
                break
        rows.append(tuple(row))
    return rows


def fitting(path: Path) -> tuple[Any, list[Any]]:
    """Arguments that PyTorch takes, and results of two calls."""
    module = torch.jit.load(path, map_location="cpu").eval()
    for args in arguments(module):
        try:
            fresh = torch.jit.load(path, map_location="cpu").eval()
            with torch.no_grad():
                torch.manual_seed(0)
                return args, [fresh(*copy.deepcopy(args)) for _ in range(2)]
        except Exception:  # the set does not fit
            continue
    raise ValueError("no arguments fit")


def as_wend(x: Any) -> Any:
    """Arguments as Wend's."""
    if isinstance(x, torch.Tensor):
        return wend.tensor(x.numpy().copy())
    if isinstance(x, (list, tuple)):
        return type(x)(as_wend(v) for v in x)
    return x


def leaves(x: Any) -> list[Any]:
    """Numbers and arrays of a result, in order."""
    if isinstance(x, (torch.Tensor, wend.Tensor)):
        return [x.detach().numpy()]
    if isinstance(x, dict):
        return [leaf for v in x.values() for leaf in leaves(v)]
    if isinstance(x, (list, tuple)):
        return [leaf for v in x for leaf in leaves(v)]
    return [np.asarray(x)] if isinstance(x, (int, float)) else []


def difference(a: Any, b: Any) -> float:
    """The largest difference of two results, relative to the largest number of an array."""
    ours, theirs = leaves(a), leaves(b)
    if [x.shape for x in ours] != [x.shape for x in theirs]:
        return float("inf")
    gap = 0.0
    for x, y in zip(ours, theirs, strict=True):
        if x.size:
            x, y = x.astype(np.float64), y.astype(np.float64)
            with np.errstate(invalid="ignore"):
                apart = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.abs(x - y))
            finite = np.abs(y[np.isfinite(y)])
            gap = max(gap, float(apart.max()) / max(float(finite.max(initial=0)), 1e-6))
    return gap


def milliseconds(module: Any, args: Any, quiet: Any) -> float:
    """Processor time of a call, the best of five."""
    best = float("inf")
    with quiet():
        for _ in range(8):
            start = time.process_time()
            leaves(module(*args))
            best = min(best, time.process_time() - start)
    return 1000 * best


def row(path: Path, timed: bool) -> str:
    """A line of the table."""
    try:
        args, expected = fitting(path)
    except Exception as error:  # PyTorch does not run the file
        args, expected = None, str(error).strip().splitlines()[-1][:60]
    try:
        module = wend.jit.load(path, map_location="cpu").eval()
    except wend.errors.WendError as error:
        return f"refused: {str(error)[:110]}"
    if args is None:
        return f"loaded; PyTorch: {expected}"
    with wend.no_grad():
        wend.manual_seed(0)
        results = [module(*as_wend(args)) for _ in range(2)]
    gap = max(difference(a, b) for a, b in zip(results, expected, strict=True))
    shapes = ", ".join(str(tuple(x.shape)) if hasattr(x, "shape") else str(x) for x in args)
    line = f"{gap:.1e} | {shapes[:60]}"
    if timed:
        theirs = torch.jit.load(path, map_location="cpu").eval()
        line += f" | {milliseconds(module, as_wend(args), wend.no_grad):.1f}"
        line += f" | {milliseconds(theirs, args, torch.no_grad):.1f}"
    return line


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    wend.set_num_threads(1)
    for path in sorted(options.folder.rglob("*")):
        if path.suffix in ENDINGS and zipfile.is_zipfile(path):
            try:
                outcome = row(path, options.time)
            except Exception as error:  # the table goes on
                notes = "; ".join(getattr(error, "__notes__", [])[:2])
                outcome = f"FAILS: {type(error).__name__}: {str(error)[:200]} {notes}"
            print(f"| {path.name} | {outcome.replace(chr(10), ' ')} |", flush=True)


if __name__ == "__main__":
    main()
