"""Writes in place between forward and backward, for every op: the gradient uses the values before.

PyTorch refuses some of these programs ('modified by an inplace operation'); Wend gives each the
gradient of the same program without the writes.
"""

import harness
import numpy as np
import pytest
from harness import OPS, Unused, report, snippet

import wend
from wend._engine.base import dtypes
from wend._engine.core._hot import synchronize
from wend._engine.core.primitive import NO_GRADIENT

pytestmark = pytest.mark.filterwarnings("ignore")


def writable(op):
    return op.vjp is not NO_GRADIENT and "float" in op.facts.supports and not op.facts.random


def overwrite(t):
    try:
        t.mul_(3.0)
    except RuntimeError as error:  # an expanded tensor cannot be written to
        if "single memory location" not in str(error) and "more than one" not in str(error):
            raise


def recorded(t):
    overwrite(t)


def unrecorded(t):
    with wend.no_grad():
        overwrite(t)


def bare(t):
    overwrite(t.data)


def through_a_view(t):
    with wend.no_grad():
        overwrite(t.reshape(-1) if t.is_contiguous() else t)


#: How values are overwritten, and whether they have been computed by then.
WRITES = [(recorded, False), (unrecorded, True), (bare, True), (through_a_view, True)]


def gradients(op, sample, arrays, write=None, computed=False):
    """Gradients of a weighted sum of the results, which is recorded before the writes.

    computed: the values are computed before the writes, and again behind the writes
    """
    leaves = [harness.tensor(a, requires_grad=True) for a in arrays]
    operands = [x * 1 for x in leaves]
    outs = [r for r in harness.floating(harness.call(op, sample, operands)) if r.requires_grad]
    if not outs:
        raise Unused
    weights = [harness.tensor(c) for c in harness.cotangents(outs, 1)]
    loss = sum((o * w).sum() for o, w in zip(outs, weights))
    if computed:
        synchronize()
    if write is not None:
        for t in (*outs, *operands):
            write(t)
    if computed:
        synchronize()
    loss = loss.real if loss.dtype.is_complex else loss
    found = wend.autograd.grad(loss, leaves, allow_unused=True)
    return [None if g is None else harness.value(g) for g in found]


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in OPS if writable(op)])
def test_gradients_are_those_of_the_values_before(op):
    faults = []
    for sample in harness.samples(op, dtypes.float64):
        arrays = harness.leaves(sample)
        wanted, error = harness.outcomes(gradients, op, sample, arrays)
        if not arrays or error is not None:
            continue  # see test_gradients
        for write, computed in WRITES:
            found = gradients(op, sample, arrays, write, computed)
            for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
                if not (f is w is None or np.allclose(f, w, 1e-12, 1e-12, equal_nan=True)):
                    fault = f"{write.__name__}: of operand {i} is {f}, without the write {w}"
                    faults.append(snippet(op, sample, fault))
    report(faults)
