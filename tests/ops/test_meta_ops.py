"""Every op on the device meta: shapes, dtypes and strides as on the CPU, and as in PyTorch."""

import harness
import pytest
from harness import OPS, report, snippet

import wend
from wend._engine.base import dtypes

BY_OP = [pytest.param(op, id=op.name) for op in OPS]
needs_torch = pytest.mark.skipif(not harness.HAS_TORCH, reason="PyTorch is not installed")


def facts(results):
    """Shape, dtype, strides of each result, and whether gradients flow to it."""
    return [
        (tuple(r.shape), r.dtype, r.stride(), r.requires_grad) if isinstance(r, wend.Tensor) else r
        for r in harness.as_tuple(results)
    ]


def arrays(sample):
    found = []
    harness.map_arrays(sample, found.append)
    return found


def called(op, sample, enter):
    """(results, None) or (None, the error) of the op, with `enter(array)` as operands."""
    moved = harness.map_arrays(sample, enter)
    return harness.outcomes(lambda: op.function(*moved.args, **moved.kwargs))


def leaf(array, device):
    made = harness.tensor(array).to(device)
    return made.requires_grad_(harness.is_float(array))


@pytest.mark.parametrize("op", BY_OP)
def test_types_are_those_of_the_cpu(op):
    faults = []
    for sample in harness.samples(op):
        want, error = called(op, sample, lambda a: leaf(a, "cpu"))
        if error is not None or not arrays(sample):
            continue
        got, error = called(op, sample, lambda a: leaf(a, "meta"))
        if error is not None:
            faults.append(snippet(op, sample, f"on meta raises {error!r}"))
            continue
        tensors = [r for r in harness.as_tuple(got) if isinstance(r, wend.Tensor)]
        if not all(r.is_meta and r.device.type == "meta" for r in tensors):
            faults.append(snippet(op, sample, "a result is not on meta"))
        elif facts(got) != facts(want):
            faults.append(snippet(op, sample, f"on meta gives {facts(got)}, not {facts(want)}"))
    report(faults)


def torch_facts(results):
    return [
        (tuple(r.shape), str(r.dtype)) if hasattr(r, "stride") else r
        for r in harness.as_tuple(results)
    ]


@needs_torch
@pytest.mark.parametrize("op", [op for op in BY_OP if harness.torch_function(op.values[0])])
def test_types_are_pytorchs(op):
    function, faults, compared = harness.torch_function(op), [], 0
    for dtype in (dtypes.float32, dtypes.int32):
        if dtype not in harness.supported(op):
            continue
        for sample in harness.samples(op, dtype):
            theirs = harness.torch_sample(sample)
            _, error = harness.outcomes(lambda m=theirs: function(*m.args, **m.kwargs))
            if error is not None:
                continue  # PyTorch refuses the call
            theirs = harness.map_tensors(theirs, lambda t: t.to("meta"))
            want, error = harness.outcomes(lambda m=theirs: function(*m.args, **m.kwargs))
            if error is not None:
                continue  # PyTorch has no rule for the device
            got, error = called(op, sample, lambda a: harness.tensor(a).to("meta"))
            if error is not None:
                faults.append(snippet(op, sample, f"on meta raises {error!r}"))
            elif torch_facts(got) != torch_facts(want):
                told = f"on meta gives {torch_facts(got)}, PyTorch {torch_facts(want)}"
                faults.append(snippet(op, sample, told))
            compared += 1
    report(faults)
    if not compared:
        pytest.skip("PyTorch has no rule for the device")
