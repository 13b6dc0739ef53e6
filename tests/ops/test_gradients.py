"""Gradients of every op, from the registry: against PyTorch and against finite differences."""

import harness
import numpy as np
import pytest
from harness import OPS, Unused, report, snippet

from wend._engine.base import dtypes
from wend._engine.core.primitive import NO_GRADIENT

pytestmark = pytest.mark.filterwarnings("ignore")


def differentiable():
    """Ops with a gradient, on samples that hold floats."""
    return [
        pytest.param(op, id=op.name)
        for op in OPS
        if op.vjp is not NO_GRADIENT and "float" in op.facts.supports and not op.facts.random
    ]


def float_samples(op):
    for sample in harness.samples(op, dtypes.float64):
        arrays = harness.leaves(sample)
        if arrays:
            yield sample, arrays


def _against_torch(op, sample, found, twice):
    """What differs from PyTorch's gradients: "" if nothing, None if PyTorch has none."""
    function = harness.torch_function(op)
    if function is None:
        return None
    wanted, refusal = harness.outcomes(harness.torch_gradients, function, sample, twice)
    if refusal is not None:
        return None
    for i, (got, want) in enumerate(zip(found, wanted, strict=True)):
        if got is None or want is None:
            other = want if got is None else got
            if other is not None and np.any(other != 0):
                return f"of operand {i} is {got}, PyTorch has {want}"
            continue
        want = np.where(np.isnan(want), got, want)  # a number is no worse than its NaN
        want = np.where((np.abs(want) > 1e20) & np.isinf(got), got, want)  # nor a pole
        fault = harness.difference(got, want, loose=True)
        if fault:
            return f"of operand {i}: other than PyTorch: {fault}"
    return ""


def _against_differences(found, arrays, function, step, tolerance):
    slope, smooth = harness.directional(function, arrays, step)
    if not smooth:
        return ""
    got = harness.dot_direction(found, arrays)
    if abs(got - slope) <= tolerance * (1 + abs(slope)):
        return ""
    return f"along a direction is {got}, finite differences give {slope}"


def _types(found, arrays):
    for i, (g, a) in enumerate(zip(found, arrays, strict=True)):
        if g is not None and (g.dtype, g.shape) != (a.dtype, a.shape):
            return f"of operand {i} is {g.dtype}{g.shape}, the operand {a.dtype}{a.shape}"
    return ""


@pytest.mark.parametrize("op", differentiable())
def test_gradient(op):
    faults = []
    for sample, arrays in float_samples(op):
        found, error = harness.outcomes(harness.gradients, op, sample, arrays)
        if isinstance(error, Unused):
            continue
        if error is not None:
            faults.append(snippet(op, sample, f"backward raises {error!r}"))
            continue

        def weighted(moved, op=op, sample=sample):
            outs = harness.forward(op, sample, moved)
            if any(out.dtype != np.float64 for out in outs):
                return [(np.array(np.nan), np.array(1.0))]  # too coarse for differences
            return list(zip(outs, harness.weights_of(outs, 1), strict=True))

        fault = _types(found, arrays) or _against_torch(op, sample, found, False)
        if fault is None and not formal(op):
            fault = _against_differences(found, arrays, weighted, 1e-6, 1e-4)
        if fault:
            faults.append(snippet(op, sample, f"the gradient {fault}"))
    report(faults)


def formal(op):
    """Whether the op defines its gradient otherwise than as the derivative."""
    return getattr(op, "formal_gradient", False)


@pytest.mark.parametrize("op", differentiable())
def test_second_derivative(op):
    faults = []
    for sample, arrays in float_samples(op):
        found, error = harness.outcomes(harness.gradients, op, sample, arrays, True)
        if isinstance(error, Unused):
            continue
        if error is not None:
            faults.append(snippet(op, sample, f"a second backward raises {error!r}"))
            continue

        def weighted(moved, op=op, sample=sample):
            firsts = harness.gradients(op, sample, moved)
            rows = zip(firsts, harness.weights_of(moved, 2), strict=True)
            return [(g, w) for g, w in rows if g is not None]

        fault = _types(found, arrays) or _against_torch(op, sample, found, True)
        if fault is None and not formal(op):
            fault = _against_differences(found, arrays, weighted, 1e-5, 1e-3)
        if fault:
            faults.append(snippet(op, sample, f"the second derivative {fault}"))
    report(faults)


@pytest.mark.skipif(not harness.HAS_TORCH, reason="PyTorch is not installed")
@pytest.mark.parametrize("op", [p for p in differentiable() if harness.has_grid(p.values[0])])
def test_gradient_at_special_values(op):
    """At zeros, ties and infinities the gradient is a choice: PyTorch's."""
    sample = harness.Sample(*harness.special_grid(op, dtypes.float64, with_ends=False))
    sample, _ = harness.accepted(op, sample)
    arrays = harness.leaves(sample)
    found, error = harness.outcomes(harness.gradients, op, sample, arrays)
    assert error is None or isinstance(error, Unused), snippet(op, sample, repr(error))
    if error is None:
        fault = _types(found, arrays) or _against_torch(op, sample, found, False)
        assert not fault, snippet(op, sample, f"the gradient {fault}")
