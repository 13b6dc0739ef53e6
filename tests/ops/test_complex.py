"""Every op that takes complex numbers, from the registry: values and gradients."""

import harness
import numpy as np
import pytest
from harness import OPS, report, snippet

import wend
from tries import own_trie
from wend._engine.base import dtypes
from wend._engine.core.primitive import NO_GRADIENT

pytestmark = pytest.mark.filterwarnings("ignore")
COMPLEX = [dtypes.complex64, dtypes.complex128]


def complex_samples(op, dtype):
    """The op's samples with each array of floats turned in the plane; those of complex numbers."""
    rng = np.random.default_rng(7)

    def turned(a):
        if a.dtype.kind == "c":
            return a.astype(dtype.numpy)
        if a.dtype != np.float64:
            return a
        return np.asarray(a * np.exp(1j * rng.uniform(-1.2, 1.2, size=a.shape)), dtype.numpy)

    return [harness.map_arrays(s, turned) for s in harness.samples(op)]


TAKING = [
    op
    for op in OPS
    if "complex" in op.facts.supports and not op.facts.random and op.vjp is not NO_GRADIENT
]


@pytest.mark.skipif(not harness.HAS_TORCH, reason="PyTorch is not installed")
@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in TAKING])
def test_of_complex_numbers(op):
    """Values in both precisions, and gradients, are PyTorch's."""
    function = harness.torch_function(op)
    if function is None:
        pytest.skip("PyTorch has no such function")
    faults = []
    for dtype in COMPLEX:
        for sample in complex_samples(op, dtype):
            faults += _compared(op, function, sample, dtype)
    report(faults)


def _compared(op, function, sample, dtype):
    moved = harness.torch_sample(sample)
    want, refusal = harness.outcomes(function, *moved.args, **moved.kwargs)
    if refusal is not None:
        return []  # what Wend takes beyond PyTorch is its own affair
    got, error = harness.outcomes(harness.computed, op, sample)
    if error is not None:
        return [snippet(op, sample, f"raises {error!r}; PyTorch does not")]
    for a, b in zip(got, harness.as_tuple(want), strict=True):
        fault = harness.difference(a, harness.from_torch(b), loose=True)
        if fault:
            return [snippet(op, sample, f"other than PyTorch: {fault}")]
    if dtype is dtypes.complex128 and any(a.dtype.kind in "fc" for a in got):
        return _gradients(op, function, sample)
    return []


def _gradients(op, function, sample):
    """What differs in first and second gradients."""
    arrays = harness.leaves(sample)
    for twice in (False, True):
        want, refusal = harness.outcomes(harness.torch_gradients, function, sample, twice)
        if refusal is not None:
            return []
        found, error = harness.outcomes(harness.gradients, op, sample, arrays, twice)
        if isinstance(error, harness.Unused):
            return []
        if error is not None:
            return [snippet(op, sample, f"backward raises {error!r}")]
        for i, (a, b) in enumerate(zip(found, want, strict=True)):
            if a is None or b is None:
                other = b if a is None else a
                fault = "" if other is None or not np.any(other) else f"is {a}, PyTorch has {b}"
            else:
                b = np.where(np.isfinite(b), b, a)  # a number is no worse than its NaN
                fault = harness.difference(a, b, loose=True)
            if fault:
                order = "second" if twice else "first"
                return [snippet(op, sample, f"the {order} gradient of operand {i}: {fault}")]
    return []


def test_parts_of_a_sum_without_dims_off_the_trie():
    """The sum of two gradients is a number of NumPy there, and its second part was not read."""
    p = wend.tensor(0.5 - 0.75j, dtype=wend.complex128, requires_grad=True)
    for sealed in (False, True):
        with own_trie(sealed=sealed), wend.autobatch(False):
            ((p * p).abs() + p.abs()).backward()
            parts = wend.view_as_real(p.grad) * 1
            assert parts.tolist() == [p.grad.real.item(), p.grad.imag.item()]
            p.grad = None
