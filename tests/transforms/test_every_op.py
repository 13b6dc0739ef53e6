"""Every op, composites too, over a batch axis of each operand: results and gradients.

Against one call per example.  The ops come from the registry, the examples from their samples.
"""

import harness
import numpy as np
import pytest
from harness import OPS, Unused, report, snippet

from wend._engine.base import dtypes
from wend._engine.core import _hot
from wend._engine.core.primitive import NO_GRADIENT, Composite
from wend._engine.core.signature import Binder
from wend._engine.core.symtrace import template
from wend._engine.transforms.batch import batch_graph, interpret
from wend._engine.transforms.levels import run_mapped
from wend._frontend.autograd.backward import grad

pytestmark = pytest.mark.filterwarnings("ignore")
SIZE = 3


def batchable(ops=OPS):
    """Ops that take tensors and draw no random numbers."""
    return [
        pytest.param(op, id=op.name)
        for op in ops
        if not op.facts.random
        and not op.facts.calls_user
        and any(p.kind.startswith(("tensor", "operand")) for p in op.params)
    ]


def dtype_for(op):
    return dtypes.float64 if "float" in op.facts.supports else harness.supported(op)[-1]


def examples(array):
    """Unlike examples of one shape; what may be an index or a mask is only repeated."""
    if harness.is_float(array):
        flat = np.ascontiguousarray(array).ravel()
        return [array] + [np.roll(flat[::-1], k).reshape(array.shape) for k in range(SIZE - 1)]
    return [array] * SIZE


def arrays_of(sample):
    found = []
    harness.map_arrays(sample, found.append)
    return found


def choices(count):
    """Which operands are batched: each alone, then all."""
    alone = [tuple(i == k for i in range(count)) for k in range(count)]
    return alone if count < 2 else [*alone, (True,) * count]


def called(op, sample, tensors):
    """Tensors among the results of a call with these in the place of the sample's arrays."""
    rest = iter(tensors)
    moved = harness.map_arrays(sample, lambda a: next(rest))
    results = harness.as_tuple(op.function(*moved.args, **moved.kwargs))
    return [r for r in results if isinstance(r, _hot.Tensor)]


def stacked(arrays, flags):
    """Arrays with a batch axis where flagged."""
    return [np.stack(examples(a)) if f else a for a, f in zip(arrays, flags, strict=True)]


def of_example(arrays, flags, k):
    return [examples(a)[k] if f else a for a, f in zip(arrays, flags, strict=True)]


@pytest.mark.parametrize("op", batchable())
def test_vmap(op):
    faults = []
    for sample in harness.samples(op, dtype_for(op)):
        arrays = arrays_of(sample)
        for flags in choices(len(arrays)):
            fault = vmap_fault(op, sample, arrays, flags)
            if fault:
                faults.append(snippet(op, sample, f"mapped over operands {flags}: {fault}"))
    report(faults)


def vmap_fault(op, sample, arrays, flags):
    wanted = [
        [harness.value(r) for r in called(op, sample, map(harness.tensor, row))]
        for row in (of_example(arrays, flags, k) for k in range(SIZE))
    ]
    tensors = [harness.tensor(a) for a in stacked(arrays, flags)]

    def function(*given):
        return called(op, sample, given)

    found, error = harness.outcomes(run_mapped, function, tensors, flags, SIZE, "error")
    if error is not None:
        return f"raises {error!r}"
    for k, (result, is_batched) in enumerate(found):
        got = harness.value(result)
        got = got if is_batched else np.stack([got] * SIZE)
        fault = harness.difference(got, np.stack([row[k] for row in wanted]), loose=True)
        if fault:
            return fault
    return ""


def differentiable():
    return [
        pytest.param(op, id=op.name)
        for op in OPS
        if op.vjp is not NO_GRADIENT
        and "float" in op.facts.supports
        and not op.facts.random
        and not op.facts.calls_user
        and any(p.kind.startswith(("tensor", "operand")) for p in op.params)
    ]


@pytest.mark.parametrize("op", differentiable())
def test_gradient_of_vmap(op):
    faults = []
    for sample in harness.samples(op, dtypes.float64):
        arrays = arrays_of(sample)
        for flags in {(True,) * len(arrays), tuple(k == 0 for k in range(len(arrays)))}:
            fault = gradient_fault(op, sample, arrays, flags)
            if fault:
                faults.append(snippet(op, sample, f"mapped over operands {flags}: {fault}"))
    report(faults)


def weighted(results, seed=1):
    outs = [r for r in results if r.requires_grad]
    if not outs:
        raise Unused
    return outs, [harness.tensor(w) for w in harness.cotangents(outs, seed)]


def gradient_fault(op, sample, arrays, flags):
    """A fault in the gradient of the mapped op, against the sum or stack of the examples'."""
    inputs = [harness.tensor(a, harness.is_float(a)) for a in stacked(arrays, flags)]
    leaves = [x for x in inputs if x.requires_grad]

    def function(*given):
        return called(op, sample, given)

    try:
        found = run_mapped(function, inputs, flags, SIZE, "error")
        outs, weights = weighted([r for r, on in found if on])
        got = grad(outs, leaves, weights, allow_unused=True)
    except Unused:
        return ""
    want = [None] * len(leaves)
    on_axis = [f for f, a in zip(flags, arrays, strict=True) if harness.is_float(a)]
    rows = []
    for k in range(SIZE):
        row = [harness.tensor(a, harness.is_float(a)) for a in of_example(arrays, flags, k)]
        results = [r for r in called(op, sample, row) if r.requires_grad]
        seeds = [harness.tensor(harness.value(w)[k]) for w in weights]
        mine = [x for x in row if x.requires_grad]
        rows.append(grad(results, mine, seeds, allow_unused=True))
    for j, g in enumerate(got):
        column = [row[j] for row in rows]
        if g is None or any(c is None for c in column):
            if g is not None and np.any(harness.value(g) != 0):
                return f"gradient {j} should be None"
            continue
        want = [harness.value(c) for c in column]
        want = np.stack(want) if on_axis[j] else np.sum(want, axis=0)
        fault = harness.difference(harness.value(g), want, loose=True)
        if fault:
            return f"gradient {j}: {fault}"
    return ""


def composites():
    return batchable([op for op in OPS if issubclass(op, Composite)])


@pytest.mark.parametrize("op", composites())
def test_batched_graph_of_a_body(op):
    """`batch_graph` of a composite's body."""
    faults = []
    for sample in harness.samples(op, dtype_for(op)):
        bound = harness.map_arrays(sample, harness.tensor)
        prim, tensors, args, _ = Binder(op.name, op).bind(bound.args, bound.kwargs)
        program, _ = prim.typed([t.value.type for t in tensors], args)
        arrays = [harness.value(t) for t in tensors]
        for flags in choices(len(arrays)):
            fault = graph_fault(program.graph, arrays, flags, args)
            if fault:
                faults.append(snippet(op, sample, f"batched over operands {flags}: {fault}"))
    report(faults)


def graph_fault(graph, arrays, flags, args):
    plain = (False,) * len(arrays)
    given = [harness.tensor(a) for a in stacked(arrays, flags)]
    program, error = harness.outcomes(
        batch_graph, graph, flags, [t.value.type for t in given], args
    )
    if error is not None:
        return f"batch_graph raises {error!r}"
    found, error = harness.outcomes(interpret, program.graph, given, plain, args)
    if error is not None:
        return f"the batched graph raises {error!r}"
    for j, (result, _) in enumerate(found):
        want = []
        for k in range(SIZE):
            row = [harness.tensor(a) for a in of_example(arrays, flags, k)]
            want.append(harness.value(interpret(graph, row, plain, args)[j][0]))
        fault = harness.difference(harness.value(result), np.stack(want), loose=True)
        if fault:
            return f"output {j}: {fault}"
    return ""


@pytest.mark.parametrize(
    "op", [p for p in differentiable() if not issubclass(p.values[0], Composite)]
)
def test_batched_gradient_rule(op):
    """`batch_graph` of a gradient rule over its seeds, as a Jacobian needs it."""
    faults = []
    for sample in harness.samples(op, dtypes.float64):
        bound = harness.map_arrays(sample, harness.tensor)
        prim, tensors, args, _ = Binder(op.name, op).bind(bound.args, bound.kwargs)
        types = [t.value.type for t in tensors]
        if not types:
            continue
        program, outs = prim.typed(types, args)
        needs = tuple(t.dtype.category >= 2 for t in types)
        given = tuple(t.dtype.category >= 2 for t in outs)
        if True not in needs or True not in given or prim.facts.labels_leaf:
            continue
        graph = template(program, needs, given)
        if None in graph.outputs or not graph.outputs:
            continue
        results = harness.as_tuple(op.function(*bound.args, **bound.kwargs))
        arrays = [harness.value(t) for t in (*tensors, *results)]
        seeds = [a for a, on in zip(map(harness.value, results), given, strict=True) if on]
        flags = (False,) * len(arrays) + (True,) * len(seeds)
        fault = graph_fault(graph, arrays + seeds, flags, args)
        if fault:
            faults.append(snippet(op, sample, f"gradient rule batched over its seeds: {fault}"))
    report(faults)
