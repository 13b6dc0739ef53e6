"""Runs the cases of ONNX's own suite for backends through `wend.onnx.load`."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test import loader

import wend
from wend.onnx.importing.types import CARRIED, ELEMENTS

#: Types that Wend lacks: the NumPy name of the type that carries the values.
CARRIERS = {ELEMENTS[e][0]: str(ELEMENTS[e][2]).partition(".")[2] for e in CARRIED}


def suite(kind):
    """The cases of a kind; those of `node` are computed here, in some seconds."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return loader.load_model_tests(kind=kind)


def value(given):
    """A NumPy array, a list of these, or None."""
    if isinstance(given, list):
        return [value(each) for each in given]
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    if isinstance(given, onnx.SequenceProto):
        return value(numpy_helper.to_list(given))
    return None if given is None else np.asarray(given)


def stored(path, info):
    """The value in a file of test data."""
    kinds = {
        "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
        "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
        "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
    }
    kind, read = kinds[info.type.WhichOneof("value")]
    return read(kind.FromString(path.read_bytes()))


def data_sets(case):
    """(model, [(inputs, outputs)]) of a case."""
    if case.model_dir is None:
        sets = [
            ([value(x) for x in inputs], [value(y) for y in outputs])
            for inputs, outputs in case.data_sets
        ]
        return case.model.SerializeToString(), sets
    folder = Path(case.model_dir)
    model = folder / "model.onnx"
    graph = onnx.load(model).graph
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        both = []
        for kind, infos in (("input", graph.input), ("output", graph.output)):
            count = len(list(data.glob(f"{kind}_*.pb")))
            both.append([stored(data / f"{kind}_{i}.pb", infos[i]) for i in range(count)])
        sets.append(tuple(both))
    return model, sets


def compare(expected, found, case, only_shapes):
    """Raises AssertionError if a result differs in structure, dtype, shape or values."""
    if expected is None:
        assert found is None
        return
    if isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected)
        for pair in zip(expected, found):
            compare(*pair, case, only_shapes)
        return
    if expected.dtype == object:
        assert found == expected.tolist()
        return
    dtype = CARRIERS.get(expected.dtype.name, expected.dtype.name)
    assert str(found.dtype) == f"torch.{dtype}", f"{found.dtype}, not {dtype}"
    assert tuple(found.shape) == expected.shape, f"{tuple(found.shape)}, not {expected.shape}"
    if only_shapes:
        return
    rtol = case.rtol
    found = found.detach()
    if dtype == "bfloat16":
        rtol, found, dtype = max(rtol, 2**-6), found.float(), "float32"
    expected = expected.astype(dtype)
    np.testing.assert_allclose(found.numpy(), expected, rtol=rtol, atol=case.atol)


def check(case, only_shapes=False):
    """Run a case. Raises whatever goes wrong."""
    source, sets = data_sets(case)
    model = wend.onnx.load(source)
    for inputs, outputs in sets:
        found = model(*inputs)
        found = list(found) if isinstance(found, tuple) else [found]
        assert len(found) == len(outputs)
        for pair in zip(outputs, found):
            compare(*pair, case, only_shapes)
