"""Every emit rule as machine code, from the registry: a new op is tested unasked."""

import elementwise
import harness
import numpy as np
import pytest
from harness import ELEMENTWISE, by_dtype, report, snippet

from wend.base import dtypes
from wend.compiler.instructions import VectorBuilder
from wend.ops.builder import Builder

#: Vectors of one register, of several, and none.
LANES = (1, 4, 16, 32)


def test_the_vector_builder_has_every_instruction():
    asked = {name for name, member in vars(Builder).items() if callable(member)}
    missing = {name for name in asked if not name.startswith("_")} - set(dir(VectorBuilder))
    assert asked and not missing, missing


def rule(prim, params, numbers):
    """The emit rule between conversions, as a kernel has it; numbers among the operands stay."""
    targets, out = prim.dtypes_of(*params)

    def code(b, *values):
        rest = iter(values)
        operands = [
            n if n is None else b.convert(next(rest), t) if t is not None else next(rest)
            for n, t in zip(numbers, targets, strict=True)
        ]
        return b.convert(prim.emit(b, *operands), out)

    return code


def arrays(prim, params):
    """The operands as arrays; a number in the dtype that it enters in."""
    targets, _ = prim.dtypes_of(*params)
    return [
        p if isinstance(p, np.ndarray) else harness.enter(p, t)
        for p, t in zip(params, targets, strict=True)
        if p is not None
    ]


def checked_samples(op, dtype):
    found = harness.samples(op, dtype)
    if harness.has_grid(op):
        grid = harness.Sample(*harness.special_grid(op, dtype))
        found.append(harness.accepted(op, grid)[0])
    return found


@pytest.mark.parametrize(("op", "dtype"), by_dtype(ELEMENTWISE))
def test_machine_code_agrees_with_reference(op, dtype):
    faults = []
    for sample in checked_samples(op, dtype):
        prim, params = harness.bind(op, sample)
        with np.errstate(all="ignore"):
            want = prim.reference(*params)
            operands = arrays(prim, params)
        code = rule(prim, params, params)
        types = tuple(dtypes.from_numpy(a.dtype) for a in operands)
        for lanes in LANES:
            key = prim, tuple(p is None for p in params), types
            got, failed = elementwise.run(code, operands, lanes, key=key)
            if failed:
                faults.append(snippet(op, sample, f"of {lanes} lanes: {failed}"))
                continue
            fault = harness.difference(np.broadcast_to(got, want.shape), want)
            if fault:
                small = harness.narrowed(sample, harness.first_difference(got, want))
                faults.append(snippet(op, small, f"of {lanes} lanes: {fault}"))
    report(faults)
