"""One op as an ONNX model: bound to a call, written, run by onnxruntime, compared with Wend."""

from __future__ import annotations

import re
from typing import Any

import harness
import numpy as np
import onnx
import onnxruntime

from wend._engine.base import dtypes
from wend._engine.core import _hot, _types
from wend._engine.core.primitive import Composite
from wend._engine.core.signature import Binder
from wend.onnx.exporting import GraphWriter, UnsupportedOperatorError

#: Operators that onnxruntime does not run on tensors without elements.
NOT_EMPTY = {"Scan", "MaxPool", "AveragePool", "LpPool", "Conv", "ConvTranspose", "Expand"}


class Call:
    """A call of an op: its instance, its operands as arrays, and its run-time args."""

    def __init__(self, op: Any, sample: Any) -> None:
        bound = harness.map_arrays(sample, harness.tensor)
        prim, tensors, args, _ = Binder(op.name, op).bind(bound.args, bound.kwargs)
        self.prim = prim
        self.arrays = [np.asarray(_hot.value_of(t).buffer) for t in tensors]
        self.args = list(args or [])
        self.program = self.typed(self.arrays)
        self.free: Any = None  # the axes whose extents the latest model leaves open

    def typed(self, arrays: list[Any]) -> Any:
        """The pattern of the call for operands like these."""
        types = [
            _types.intern_type(a.shape, dtypes.from_numpy(a.dtype), harness.device())
            for a in arrays
        ]
        return self.prim.typed(types, self.args)[0]

    def model(self, opset: int = 21) -> Any:
        """The op as a model, for all sizes if its text does not depend on them."""
        for free in (None, (0,), ()):
            self.free = free
            try:
                return self.model_of(opset, free)
            except UnsupportedOperatorError as error:
                if free == () or not re.search("size|windows", str(error)):
                    raise
        raise AssertionError

    def model_of(self, opset: int, free: Any) -> Any:
        """The op as a model for all sizes of the axes `free`; None for all axes."""
        g = GraphWriter(opset)
        operands = [
            g.input(
                f"in{k}",
                dtypes.from_numpy(array.dtype),
                array.shape,
                range(array.ndim) if free is None else free,
            )
            for k, array in enumerate(self.arrays)
        ]
        results = g.emit(self.prim, self.program, operands, self.args)
        return g.finish([(f"out{k}", value) for k, value in enumerate(results)])

    def expected(self, arrays: list[Any]) -> list[Any]:
        """The results of Wend's NumPy rule; of a composite, those of its body."""
        prim = self.prim
        if isinstance(prim, Composite):
            result = prim.call_body([harness.tensor(a) for a in arrays], self.args)
            return [np.asarray(t.numpy()) for t in harness.as_tuple(result)]
        with np.errstate(all="ignore"):
            result = prim.reference(*prim.arrange([np.array(a) for a in arrays], self.args))
        return list(harness.as_tuple(result))


def session(model: Any) -> Any:
    """The model in onnxruntime, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(model: Any, arrays: list[Any]) -> list[Any] | None:
    """The model's results; None for a model that onnxruntime refuses to run without elements."""
    names = {node.op_type for node in model.graph.node}
    if names & NOT_EMPTY and any(a.size == 0 for a in arrays):
        return None
    feed = {f"in{k}": np.array(a, order="C") for k, a in enumerate(arrays)}
    return list(session(model).run(None, feed))


def check(call: Call, model: Any, arrays: list[Any]) -> bool:
    """Whether the model ran; it must then agree with Wend in shapes, types and values."""
    want = call.expected(arrays)
    got = run(model, arrays)
    if got is None:
        return False
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if type(call.prim).facts.random:
            continue
        if a.dtype.kind != "f":
            np.testing.assert_array_equal(a, b)
            continue
        bound = 4e-3 if a.itemsize == 2 else 2e-5
        np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=bound, atol=bound)
    return True


def valid(model: Any) -> Any:
    """The model, checked with its types and shapes inferred."""
    onnx.checker.check_model(model, full_check=True)
    return model
