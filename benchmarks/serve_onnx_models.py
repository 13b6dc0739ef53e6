"""One side of ``onnx_models.py``: times an ONNX file by Wend and by onnxruntime, in turns.

python serve_onnx_models.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import common
import numpy as np
import onnxruntime
import torch
from bench import serve

torch.set_num_threads(1)
#: Calls before a call is timed, and seconds that a pass of a side takes, about.
CALLS, PASS = 30, 0.3
#: The largest difference of results, as a share of the largest number of a result, or of FAINT
#: where all numbers are smaller: onnxruntime itself gives other digits for each level of changes.
CLOSE, FAINT = 1e-3, 1e-3


def drawn(kind: str, sizes: list[int], rng: np.random.Generator, dtype: str) -> Any:
    """An input: image, sound, bytes, zeros, or a number."""
    kinds: dict[str, Callable[[], Any]] = {
        "image": lambda: rng.random(size=sizes),
        "sound": lambda: 0.1 * rng.normal(size=sizes),
        "bytes": lambda: rng.integers(0, 256, size=sizes),
        "zeros": lambda: np.zeros(sizes),
    }
    values = kinds[kind]() if kind in kinds else np.array(float(kind))
    return values.astype(dtype)


def timed(call: Callable[[], Any], rounds: int) -> float:
    """Milliseconds of processor time of a call."""
    start = time.process_time()
    for _ in range(rounds):
        call()
    return 1000 * (time.process_time() - start) / rounds


def reference(file: str) -> Any:
    """A session of onnxruntime, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def difference(results: list[Any], wanted: list[Any]) -> float:
    """The largest difference, as a share of the largest number of each result."""
    shares = [
        float(np.max(np.abs(a - b), initial=0.0) / max(np.max(np.abs(b), initial=0.0), FAINT))
        for a, b in zip(results, (np.asarray(x, "float64") for x in wanted), strict=True)
    ]
    return max(shares)


def measure(file: str, inputs: list[tuple[str, list[int]]], passes: int) -> dict[str, Any]:
    """Times of passes of onnxruntime, the session and the module; and what came before."""
    rng = np.random.default_rng(0)
    theirs = reference(file)
    types = {"tensor(float)": "float32", "tensor(int32)": "int32", "tensor(int64)": "int64"}
    arrays = {
        known.name: drawn(kind, sizes, rng, types[known.type])
        for known, (kind, sizes) in zip(theirs.get_inputs(), inputs, strict=True)
    }
    begun = time.process_time()
    model = torch.onnx.load(file, trainable=False)
    loaded = time.process_time()
    tensors = [torch.from_numpy(x) for x in arrays.values()]
    session = torch.session(model, *tensors, dynamic_shapes=[{} for _ in tensors])
    session.prepare()
    prepared = time.process_time()

    def arrays_of(results: Any) -> list[Any]:
        return [y.numpy() for y in (results if isinstance(results, tuple) else (results,))]

    def called() -> list[Any]:
        with torch.no_grad():
            return arrays_of(model(*tensors))

    sides: dict[str, Callable[[], Any]] = {
        "onnxruntime": lambda: theirs.run(None, arrays),
        "session": lambda: arrays_of(session(*tensors)),
        "call": called,
    }
    for call in sides.values():
        for _ in range(CALLS):
            call()
    common.come_to_rest()
    wanted = sides["onnxruntime"]()
    apart = max(difference(sides[name](), wanted) for name in ("session", "call"))
    if not apart <= CLOSE:
        raise AssertionError(f"results differ by {apart:.1e} of the largest number")
    rounds = {name: max(1, round(1000 * PASS / timed(call, 3))) for name, call in sides.items()}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(passes):
        for name, call in sides.items():
            times[name].append(timed(call, rounds[name]))
    return {
        "times": times,
        "difference": apart,
        "load s": loaded - begun,
        "prepare s": prepared - loaded,
    }


if __name__ == "__main__":
    serve(measure)
