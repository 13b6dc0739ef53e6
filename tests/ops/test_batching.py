"""Batching rules, and vmap of every op: each operand alone, then all, against single calls."""

import itertools

import harness
import numpy as np
import pytest
from harness import PRIMITIVES, report, snippet

import wend
from wend._engine.base import dtypes
from wend._engine.base.errors import GraphError
from wend._engine.core.primitive import NO_GRADIENT, Composite
from wend._frontend.autograd.backward import grad
from wend.func.mapping import vmap

pytestmark = pytest.mark.filterwarnings("ignore")
SIZE = 2


def batchable():
    return [
        pytest.param(op, id=op.name)
        for op in PRIMITIVES
        if not op.facts.random and any(p.kind.startswith(("tensor", "operand")) for p in op.params)
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
    dtype = dtypes.float64 if "float" in op.facts.supports else harness.supported(op)[-1]
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


@pytest.mark.parametrize("rows", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("shapes", [((), ()), ((), (3,)), ((3,), ())])
def test_a_batch_of_numbers_promotes_as_one(rows, shapes):
    """A 0-d operand says less about the result's dtype; half floats are rounded once."""
    kinds = [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.int64]
    rng = np.random.default_rng(0)
    for first, second in itertools.product(kinds, kinds):
        operands = [
            wend.tensor(rng.uniform(1, 9, size=(4, *shape) if row else shape)).to(dtype)
            for row, shape, dtype in zip(rows, shapes, (first, second), strict=True)
        ]
        dims = tuple(0 if row else None for row in rows)
        for function in (wend.mul, wend.div, wend.sub, wend.maximum, wend.lt):
            made = vmap(function, in_dims=dims)(*operands)
            for i in range(4):
                one = function(*(x[i] if on else x for x, on in zip(operands, rows, strict=True)))
                text = f"{function.__name__} of {first} and {second}"
                assert made.dtype is one.dtype, text
                assert made[i].tolist() == one.tolist(), text


# -- composites, and gradients, through vmap ------------------------------------------------------


def mappable():
    return [
        pytest.param(op, id=op.name)
        for op in harness.OPS
        if not op.facts.random and any(p.kind.startswith(("tensor", "operand")) for p in op.params)
    ]


def all_arrays(sample):
    found = []
    harness.map_arrays(sample, found.append)
    return found


def with_tensors(sample, tensors):
    """The sample with its arrays replaced, in order."""
    rest = iter(tensors)
    return harness.map_arrays(sample, lambda array: next(rest))


def mapped_call(op, sample, flags):
    """(results of vmap over the flagged arrays, per example the results of single calls)."""
    rows = [
        examples(a) if flag else [a] * SIZE
        for a, flag in zip(all_arrays(sample), flags, strict=True)
    ]
    stacked = [
        harness.tensor(np.stack(row) if flag else row[0])
        for row, flag in zip(rows, flags, strict=True)
    ]

    def function(*tensors):
        moved = with_tensors(sample, tensors)
        return harness.as_tuple(op.function(*moved.args, **moved.kwargs))

    dims = tuple(0 if flag else None for flag in flags)
    results = vmap(function, in_dims=dims)(*stacked)
    singles = [function(*(harness.tensor(row[i]) for row in rows)) for i in range(SIZE)]
    return results, singles


@pytest.mark.parametrize("op", [p for p in mappable() if issubclass(p.values[0], Composite)])
def test_vmap_of_composites(op):
    dtype = dtypes.float64 if "float" in op.facts.supports else harness.supported(op)[-1]
    faults = []
    for sample in harness.samples(op, dtype):
        for flags in choices(len(all_arrays(sample))):
            outcome, error = harness.outcomes(mapped_call, op, sample, flags)
            fault = f"raises {error!r}" if error is not None else _unlike(*outcome)
            if fault:
                faults.append(snippet(op, sample, f"vmap over operands {flags}: {fault}"))
    report(faults)


def _unlike(results, singles):
    for k, result in enumerate(results):
        want = np.stack([harness.value(row[k]) for row in singles])
        fault = harness.difference(harness.value(result), want)
        if fault:
            return fault
    return ""


def differentiable(param):
    op = param.values[0]
    return op.vjp is not NO_GRADIENT and "float" in op.facts.supports


@pytest.mark.parametrize("op", [p for p in mappable() if differentiable(p)])
def test_gradient_of_vmap(op):
    """The gradient of a mapped op is the stack of the examples' gradients."""
    faults = []
    for sample in harness.samples(op, dtypes.float64):
        arrays = harness.leaves(sample)
        singles, error = harness.outcomes(
            lambda s=sample, a=arrays: [
                harness.gradients(op, s, [examples(x)[i] for x in a]) for i in range(SIZE)
            ]
        )
        if error is not None:
            continue  # nothing to differentiate, or test_gradient shows it
        found, error = harness.outcomes(_mapped_gradients, op, sample, arrays)
        if isinstance(error, GraphError):
            continue  # refused in words: users' functions have no batching rule
        if error is not None:
            faults.append(snippet(op, sample, f"the gradient of vmap raises {error!r}"))
            continue
        for i, g in enumerate(found):
            rows = [row[i] for row in singles]
            if g is None or any(r is None for r in rows):
                continue
            fault = harness.difference(g, np.stack(rows), loose=True)
            if fault:
                faults.append(snippet(op, sample, f"the gradient of vmap, operand {i}: {fault}"))
    report(faults)


def _mapped_gradients(op, sample, arrays):
    inputs = [harness.tensor(np.stack(examples(a)), requires_grad=True) for a in arrays]

    def function(*tensors):
        moved = harness.with_leaves(sample, list(tensors))
        results = harness.as_tuple(op.function(*moved.args, **moved.kwargs))
        return tuple(r for r in results if r.dtype.is_floating_point)

    outs = [r for r in vmap(function)(*inputs) if r.requires_grad]
    shapes = [np.empty(tuple(r.shape[1:])) for r in outs]
    weights = [harness.tensor(np.stack([w] * SIZE)) for w in harness.weights_of(shapes, 1)]
    found = grad(outs, inputs, weights, allow_unused=True)
    return [None if g is None else harness.value(g) for g in found]
