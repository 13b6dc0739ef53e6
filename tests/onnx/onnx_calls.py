"""One op as an ONNX model: recorded, written, run by onnxruntime, compared with Wend."""

from __future__ import annotations

from typing import Any

import numpy as np

import harness
from wend.base import dtypes
from wend.core import _hot, _types
from wend.core.symbolic import SymInt, hint_of
from wend.onnx.exporting import GraphWriter


class Call:
    """A call of an op: its instance, program, operands as arrays, and run-time args."""

    def __init__(self, op: Any, sample: Any) -> None:
        bound = harness.map_arrays(sample, harness.tensor)
        prim, tensors, args, _ = harness.Binder(op.name, op).bind(bound.args, bound.kwargs)
        self.prim = prim
        self.arrays = [np.asarray(_hot.value_of(t).buffer) for t in tensors]
        self.args = list(args or [])
        self.program, self.types = self.typed(self.arrays)

    def typed(self, arrays: list[Any]) -> Any:
        device = harness.device()
        types = [
            _types.intern_type(a.shape, dtypes.from_numpy(a.dtype), device) for a in arrays
        ]
        return self.prim.typed(types, self.args)

    def model(self, opset: int = 21, symbolic: bool = True) -> Any:
        g = GraphWriter(opset)
        operands = []
        for k, array in enumerate(self.arrays):
            axes = range(array.ndim) if symbolic else ()
            operands.append(
                g.input(f"in{k}", dtypes.from_numpy(array.dtype), array.shape, axes)
            )
        results = g.emit(self.prim, self.program, operands, self.args)
        return g.finish([(f"out{k}", value) for k, value in enumerate(results)])

    def expected(self, arrays: list[Any]) -> list[Any]:
        if isinstance(self.prim, harness.Composite):
            return self.of_composite(arrays)
        prim = self.prim
        with np.errstate(all="ignore"):
            result = prim.reference(*prim.arrange(list(arrays), self.args))
        return list(harness.as_tuple(result))

    def of_composite(self, arrays: list[Any]) -> list[Any]:
        tensors = [harness.tensor(a) for a in arrays]
        result = self.prim.call_body(tensors, self.args)
        return [np.asarray(t.numpy()) for t in harness.as_tuple(result)]


def session(model: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(model: Any, arrays: list[Any]) -> list[Any]:
    ready = session(model)
    names = {i.name for i in ready.get_inputs()}
    feed = {f"in{k}": np.ascontiguousarray(a).reshape(a.shape) for k, a in enumerate(arrays) if f"in{k}" in names}
    return ready.run(None, feed)


_ = (SymInt, hint_of)
