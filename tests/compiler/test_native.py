"""Ops that have generated code of their own: every sample of the registry, in every dtype.

`NATIVE` says for which ops no sample may be left to the reference rule in a plan.
"""

import harness
import numpy as np
import pytest

import wend as torch
from wend.base import config, dtypes
from wend.compiler.lower import Lowering
from wend.core import _hot

NATIVE = """
    arange uniform standard_normal random_bits random_integers flip pad cat roll
    amax amin sum prod argmax argmin max_dim min_dim
    index_select gather index scatter_add index_add index_put
""".split()
#: Samples that stay with the reference, by op: 0-d operands, several index tensors, indices smaller
#: than the operand, assignment, and rolls over more dims as one.
LEFT = {
    "argmax": 2, "argmin": 2, "cat": 1, "gather": 6, "index": 4, "index_add": 1, "index_put": 9,
    "index_select": 2, "max_dim": 1, "min_dim": 1, "roll": 3, "scatter_add": 6,
}  # fmt: skip
DTYPES = [d for d in harness.REAL if d.name not in ("int8", "int16", "uint8")]


@pytest.fixture(autouse=True)
def at_once():
    """Plans are compiled before their first run."""
    with config.override(compile=True, wait=True, verify=False):
        yield


def params():
    return [
        pytest.param(op, dtype, id=f"{op.name}-{dtype.name}")
        for op in harness.PRIMITIVES
        if op.name in NATIVE
        for dtype in DTYPES
        if dtype in harness.supported(op)
    ]


def plain(function, sample):
    """The results of a call as arrays."""
    moved = harness.map_arrays(sample, harness.tensor)
    results = harness.as_tuple(function(*moved.args, **moved.kwargs))
    return [harness.value(r) for r in results]


def planned(op, sample, monkeypatch):
    """(results by machine code, names of the ops that were left to their reference rules)."""
    left = []
    real = Lowering.host

    def spy(lowering, node, *rest):
        left.append(node.prim.name)
        return real(lowering, node, *rest)

    fresh_trie()
    with monkeypatch.context() as patch:
        patch.setattr(Lowering, "host", spy)
        return plain(op.function, sample), left


def fresh_trie():
    torch.synchronize()
    trace = _hot.current_trace()
    trace.root = _hot.State(None, None)
    trace.reset()


@pytest.mark.parametrize(("op", "dtype"), params())
def test_samples_by_machine_code(op, dtype, monkeypatch):
    faults, hosts = [], []
    for sample in harness.samples(op, dtype):
        with config.override(compile=False, wait=False):
            fresh_trie()
            expected = plain(op.function, sample)
        got, left = planned(op, sample, monkeypatch)
        hosts += [sample] if left else []
        differences = [harness.difference(a, b) for a, b in zip(got, expected, strict=True)]
        faults += [f"{sample}: {fault}" for fault in differences if fault]
    assert not faults, "\n".join(faults)
    if dtype.category == dtypes.FLOAT or not op.supports & {"float"}:
        assert len(hosts) <= LEFT.get(op.name, 0), f"left to the reference: {hosts}"


def test_uniform_draws_are_the_references_bit_for_bit():
    for size in [(1,), (5, 7), (3, 130), (2, 3, 64), (70, 1)]:
        for dtype in ("float32", "float64", "float16", "bfloat16"):
            draw = harness.wend.core.primitive.ops.uniform
            given = {"dtype": getattr(torch, dtype)}
            with config.override(compile=False, wait=False):
                fresh_trie()
                expected = harness.value(draw(size, 7, 2**40 + 3, **given))
            fresh_trie()
            assert np.array_equal(harness.value(draw(size, 7, 2**40 + 3, **given)), expected)
