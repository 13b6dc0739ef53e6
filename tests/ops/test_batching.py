"""The batching rule of every primitive, each operand alone, then all: against single calls."""

import harness
import numpy as np
import pytest
from harness import PRIMITIVES, report, snippet

from wend.base import dtypes

pytestmark = pytest.mark.filterwarnings("ignore")
SIZE = 2


def batchable():
    return [
        pytest.param(op, id=op.name)
        for op in PRIMITIVES
        if not op.random and any(p.kind.startswith(("tensor", "operand")) for p in op.params)
    ]


def examples(array):
    """Unlike examples of one shape; what may be an index or a mask is only repeated."""
    if harness.is_float(array):
        return [array, np.ascontiguousarray(array.ravel()[::-1]).reshape(array.shape)]
    return [array, array]


def choices(count):
    """Which operands are batched: each alone, then all."""
    alone = [tuple(i == k for i in range(count)) for k in range(count)]
    return alone if count == 1 else [*alone, (True,) * count]


def batched_call(prim, params, flags):
    """(tensors for the rule, its `batched`, per example the parameters) for the operand flags."""
    rest = iter(flags)
    operands, rule_flags, rows = [], [], [[] for _ in range(SIZE)]

    def place(array):
        flag = next(rest)
        each = examples(array) if flag else [array] * SIZE
        stacked = harness.tensor(np.stack(each) if flag else array)
        return stacked, flag, [harness.tensor(a) for a in each]

    kinds = [p.kind for p in prim.params if not p.is_attr]
    for kind, param in zip(kinds, params, strict=True):
        if isinstance(param, np.ndarray):
            operand, flag, each = place(param)
        elif kind == "tensors":
            placed = [place(a) for a in param]
            operand, flag = [p[0] for p in placed], [p[1] for p in placed]
            each = [[p[2][i] for p in placed] for i in range(SIZE)]
        else:
            operand, flag, each = param, False, [param] * SIZE
        operands.append(operand)
        if kind in ("tensor", "tensor?", "operand", "tensors"):
            rule_flags.append(flag)
        for row, item in zip(rows, each, strict=True):
            row.append(item)
    return operands, tuple(rule_flags), rows


def arrays_in(params):
    for p in params:
        if isinstance(p, np.ndarray):
            yield p
        elif isinstance(p, list):
            yield from p


def one_call(prim, params):
    """The op itself on one example's parameters."""
    rest = iter(params)
    call = {p.name: prim.attrs[p.name] if p.is_attr else next(rest) for p in prim.params}
    return harness.as_tuple(type(prim).function(**call))


@pytest.mark.parametrize("op", batchable())
def test_batch(op):
    dtype = dtypes.float64 if "float" in op.supports else harness.supported(op)[-1]
    faults = []
    for sample in harness.samples(op, dtype):
        prim, params = harness.bind(op, sample)
        for flags in choices(len(list(arrays_in(params)))):
            fault = _fault(prim, params, flags)
            if fault:
                faults.append(snippet(op, sample, f"batched over operands {flags}: {fault}"))
    report(faults)


def _fault(prim, params, flags):
    operands, rule_flags, rows = batched_call(prim, params, flags)
    wanted = [[harness.value(t) for t in one_call(prim, row)] for row in rows]
    results, error = harness.outcomes(prim.batch, rule_flags, SIZE, *operands)
    if error is not None:
        return f"the rule raises {error!r}"
    for k, result in enumerate(harness.as_tuple(results)):
        fault = harness.difference(harness.value(result), np.stack([row[k] for row in wanted]))
        if fault:
            return fault
    return ""
