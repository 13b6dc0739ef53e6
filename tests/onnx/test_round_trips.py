"""Models of ONNX's suite, loaded and exported again: the second export writes the first's nodes.

`python tests/onnx/test_round_trips.py [KIND [PART OF A NAME]]` prints the figures, and the cases
that are no fixed points, with the stage that fails.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from backend_cases import data_sets, suite  # noqa: E402
from test_backend_suite import RANDOM, expected_failures, reason_of  # noqa: E402

import wend  # noqa: E402

#: The least number of cases that are fixed points; the other kinds take minutes.
#: Files of parts whose bounds are computed for all sizes are read as files of values.
LEAST = {"pytorch-operator": 31, "pytorch-converted": 76}


def canonical(model):
    """The model as bytes, with names by first use."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    names = {}

    def name(old):
        return names.setdefault(old, f"v{len(names)}") if old else ""

    def walk(graph):
        graph.name = ""
        for info in graph.input:
            info.name = name(info.name)
        for node in graph.node:
            node.name = ""
            node.input[:] = map(name, node.input)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    walk(attribute.g)
                attribute.t.name = ""
            node.output[:] = map(name, node.output)
        for item in [*graph.output, *graph.initializer]:
            item.name = name(item.name)
        tensors = [onnx.TensorProto.FromString(t.SerializeToString()) for t in graph.initializer]
        tensors.sort(key=lambda t: t.name)
        del graph.initializer[:]
        graph.initializer.extend(tensors)
        for info in [*graph.input, *graph.output]:
            for dim in info.type.tensor_type.shape.dim:
                if dim.dim_param:
                    dim.dim_param = name(f"dim {dim.dim_param}")

    walk(found.graph)
    return found.SerializeToString(deterministic=True)


def listed(values):
    """Results as arrays."""
    rows = values if isinstance(values, tuple) else (values,)
    return [np.asarray(x.detach()) for x in rows]


def stage(case):
    """Where a case stops to be a fixed point, with the reason; 'fixed' for the end."""
    source, sets = data_sets(case)
    model, inputs = wend.onnx.load(source), sets[0][0]
    if any(not isinstance(x, np.ndarray) or x.dtype == object for x in inputs):
        return "no tensors", ""
    at = "inputs"
    try:
        given = tuple(wend.tensor(x) for x in inputs)
        at = "first export"
        first = wend.onnx.export(model, given, verify=False).model_proto
        at = "second load"
        again = wend.onnx.load(first.SerializeToString())
        at = "results"
        if not case.name.startswith(RANDOM):
            for a, b in zip(listed(again(*given)), listed(model(*given)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        at = "second export"
        second = wend.onnx.export(again, given, verify=False).model_proto
    except Exception as error:
        return at, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if canonical(first) == canonical(second):
        return "fixed", ""
    kinds = [[n.op_type for n in m.graph.node if n.op_type != "Constant"] for m in (first, second)]
    return "text", f"{kinds[0]} -> {kinds[1]}"


def stages(kind, part=""):
    """{name: (stage, reason)} of the cases of a kind that Wend loads."""
    table = expected_failures()
    cases = [c for c in suite(kind) if part in c.name and not reason_of(c.name, table)]
    return {case.name: stage(case) for case in cases}


@pytest.mark.parametrize("kind", LEAST)
def test_a_second_export_is_the_first(kind):
    found = stages(kind)
    others = {name: s for name, s in found.items() if s[0] != "fixed"}
    assert len(found) - len(others) >= LEAST[kind], others
    assert {s for s, _ in others.values()} <= {"text", "second export"}, others


if __name__ == "__main__":
    for kind in sys.argv[1:2] or ("simple", *LEAST, "node"):
        found = stages(kind, "".join(sys.argv[2:3]))
        for name, (at, reason) in found.items():
            if at != "fixed":
                print(f"{name} | {at} | {reason}")
        print(kind, dict(Counter(at for at, _ in found.values())), flush=True)
