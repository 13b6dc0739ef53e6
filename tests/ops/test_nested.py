"""Every op of nested tensors: on all operands nested, the components are what the op makes of each.

The ops come from the registry, the components from their samples.
"""

import re

import harness
import numpy as np
import pytest
from harness import OPS, report, snippet

import wend
from wend._engine.base import dtypes, tree
from wend._engine.core import _hot
from wend._engine.core.signature import Binder
from wend.nested.table import WHOLE_SHAPES
from wend.nested.tensor import NestedTensor, nest

pytestmark = pytest.mark.filterwarnings("ignore")
SIZE = 2
IS_DIM = re.compile(r"(.*_)?dims?\d?")


def public(ops=OPS):
    """Ops that users call with tensors."""
    return [
        pytest.param(op, id=op.name)
        for op in ops
        if not op.facts.random
        and not op.facts.calls_user
        and (op.torch.functions or op.torch.methods)
        and any(p.kind.startswith(("tensor", "operand")) for p in op.params)
    ]


def dtype_for(op):
    return dtypes.float64 if "float" in op.facts.supports else harness.supported(op)[-1]


def components(array):
    """Two operands of one shape."""
    if not harness.is_float(array):
        return [array] * SIZE
    return [array, np.roll(np.ascontiguousarray(array).ravel()[::-1], 1).reshape(array.shape)]


def moved(param, value, rank):
    """An argument of a component's op as one of the nested tensor's."""
    whole = param.kind == "sizes" and param.name in WHOLE_SHAPES
    if whole:
        first = 1 if param.name == "repeats" else SIZE
        return (first, *(value if isinstance(value, (list, tuple)) else [value]))
    if param.kind in ("dim", "dims") or (
        param.kind in ("int", "ints") and IS_DIM.fullmatch(param.name)
    ):
        shifted = tree.map(lambda d: d + 1 if type(d) is int and d >= 0 else d, value)
        if param.name == "dims" and param.kind == "ints" and rank and len(value) == rank:
            shifted = (0, *[d % rank + 1 for d in value])
        return shifted
    return value


def is_total(op, results):
    """Reductions of everything, and losses, are about all components."""
    if any(p.name == "reduction" for p in op.params):
        return True
    return all(r.dim() == 0 for r in results)


def faults_of(op, sample):
    arrays = []
    harness.map_arrays(sample, arrays.append)
    if not arrays or any(a.ndim == 0 for a in arrays):
        return None
    columns = [components(a) for a in arrays]

    def placed(values):
        by_identity = {id(a): x for a, x in zip(arrays, values, strict=True)}
        return harness.map_arrays(sample, lambda a: by_identity[id(a)])

    def call(*args, **kwargs):
        found = op.function(*args, **kwargs)
        return [r for r in harness.as_tuple(found) if isinstance(r, _hot.Tensor)]

    given = [placed([wend.tensor(c[k]) for c in columns]) for k in range(SIZE)]
    alone = [call(*each.args, **each.kwargs) for each in given]
    if is_total(op, alone[0]):
        return None
    whole = placed([nest([wend.tensor(x) for x in c]) for c in columns])
    rows = zip(op.params, Binder(op.name, op).match(whole.args, whole.kwargs), strict=True)
    rank = arrays[0].ndim if op.name == "permute" else 0
    args = {p.name: moved(p, value, rank) for p, (value, raw) in rows if raw != -1}
    if op.batching.joins:
        args.setdefault("dim", 1)  # along dim 0 all components are joined
    together = call(**args)
    for k in range(SIZE):
        for i, (a, b) in enumerate(zip(together, alone[k], strict=True)):
            part = a.unbind()[k] if isinstance(a, NestedTensor) else a[k]
            fault = harness.difference(part.numpy(), b.numpy())
            if fault:
                return f"result {i} of component {k}: {fault}"
    return None


@pytest.mark.parametrize("op", public())
def test_each_component(op):
    faults = []
    for sample in harness.samples(op, dtype_for(op)):
        fault = faults_of(op, sample)
        if fault:
            faults.append(snippet(op, sample, fault))
    report(faults)
