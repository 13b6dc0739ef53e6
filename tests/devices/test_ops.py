"""Every op on an OpenCL device, from the registry: values, gradients and errors of the processor.

`WEND_XPU=all` makes the processor itself such a device, where Intel's driver is installed.
"""

import harness
import numpy as np
import pytest
from harness import OPS, PRIMITIVES, report, snippet

import wend
from tries import own_trie
from wend._engine.base import dtypes
from wend._engine.base.devices import CPU
from wend._engine.core.primitive import NO_GRADIENT
from wend._frontend.autograd.backward import grad

#: The types of operands, and so many samples of an op in other types than float32.
TYPES = "float32 float64 float16 bfloat16 int64 uint8 bool complex64 complex128".split()
FEWER = 2

pytestmark = pytest.mark.filterwarnings("ignore")


def run(op, sample, differentiable):
    """(results, gradients of their weighted sum; None for one that is not used) of a call."""
    wend.manual_seed(0)
    inputs = [harness.tensor(a, requires_grad=differentiable) for a in harness.leaves(sample)]
    results = harness.call(op, sample, inputs)
    outs = [r for r in harness.floating(results) if r.requires_grad]
    grads = []
    if outs:
        weights = [harness.tensor(c) for c in harness.cotangents(outs, 1)]
        grads = grad(outs, inputs, weights, allow_unused=True)
    values = [harness.value(r) for r in results]
    return values, [None if g is None else harness.value(g) for g in grads]


def outcome(place, op, sample, differentiable):
    """(`run` on a device, in a trie of its own; the error)."""
    with own_trie(), harness.on(place):
        return harness.outcomes(run, op, sample, differentiable)


def widened(sample):
    """The sample with all floats as float64."""

    def wide(array):
        dtype = dtypes.from_numpy(array.dtype)
        return array.astype(np.float64) if dtype.category == dtypes.FLOAT else array

    return harness.map_arrays(sample, wide)


def fault_of(got, want, exact):
    """What differs; nothing where results are no less exact than those of the processor.

    exact: () -> the result that float64 gives, or None
    """
    if (got is None) != (want is None):
        return "exists on one side only"
    fault = "" if got is None else harness.difference(got, want, loose=True)
    if not fault or got.dtype != want.dtype or got.shape != want.shape or got.dtype.kind in "biu":
        return fault
    best = exact()
    if best is None or best.shape != want.shape or np.isnan(got).any() != np.isnan(want).any():
        return fault
    # Long sums round at other places, and no small result of large terms can be close then.
    with np.errstate(all="ignore"):
        errors = [np.abs(a.astype(np.float64) - best) for a in (got, want)]
    ours, theirs = (float(np.nanmax(e, initial=0.0)) for e in errors)
    return "" if ours <= 2 * theirs else fault


def faults_of(op, sample, differentiable, place):
    """What differs between the device and the processor."""
    (want, error), (got, mine) = (outcome(at, op, sample, differentiable) for at in (CPU, place))
    if error is not None or mine is not None:
        same = (type(error), str(error)) == (type(mine), str(mine))
        return [] if same else [f"raises {mine!r}; on the processor {error!r}"]
    wide = []

    def exact(part, k):
        if not wide:
            wide.append(outcome(CPU, op, widened(sample), differentiable)[0])
        return None if wide[0] is None else wide[0][part][k]

    told = []
    for part, what in enumerate(("result", "gradient")):
        for k, (a, b) in enumerate(zip(got[part], want[part], strict=True)):
            fault = fault_of(a, b, lambda part=part, k=k: exact(part, k))
            if fault:
                told.append(f"{what} {k}: {fault}")
    return told


@pytest.mark.parametrize(
    ("op", "dtype"), [p for p in harness.by_dtype(OPS) if p.values[1].name in TYPES]
)
def test_op(op, dtype, accelerator):
    differentiable = op.vjp is not NO_GRADIENT and dtype.category >= dtypes.FLOAT
    told = []
    for sample in harness.samples(op, dtype)[: None if dtype is dtypes.float32 else FEWER]:
        faults = faults_of(op, sample, differentiable, accelerator)
        told += [snippet(op, sample, fault) for fault in faults]
    report(told)


@pytest.mark.parametrize(
    "op", [op for op in PRIMITIVES if "complex" in op.facts.supports], ids=lambda op: op.name
)
def test_complex128(op, accelerator):
    sample = harness.samples(op, dtypes.complex128)[0]
    faults = faults_of(op, sample, op.vjp is not NO_GRADIENT, accelerator)
    report([snippet(op, sample, fault) for fault in faults])
