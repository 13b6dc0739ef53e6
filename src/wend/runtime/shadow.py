"""WEND_VERIFY=1: every plan is run beside the reference, and the first op that differs is named."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend.base.errors import ExecutionError
from wend.core._hot import Batch
from wend.core.provenance import locate
from wend.runtime.reference import ReferencePlan

#: How far results may differ, in terms of the largest element, by bytes of a float.
TOLERANCE = {2: 2e-2, 4: 2e-4, 8: 1e-9}


def verify(compiled: Any, batch: Batch) -> None:
    """Raise ExecutionError, with the user's line, if machine code computes something else."""
    reference = compiled.reference
    expected = expect(reference, batch)
    if expected is None:
        return
    found = compiled.execute(batch.values, batch.args)
    if found is None or all(agree(found[i], expected[i]) for i in found):
        return
    wrong = first_wrong(reference, batch, expected)
    if wrong is None:
        wrong = next(i for i in found if not agree(found[i], expected[i]))
    node = next(n for n in reference.path.nodes if wrong in n.outputs)
    fault = ExecutionError(
        f"{node.prim.name}: machine code and the reference differ; this is a defect of Wend"
    )
    raise locate(fault, node.prim.name, batch, wrong, reference.path)


def expect(reference: ReferencePlan, batch: Batch) -> list[Any] | None:
    """What the reference computes, every value of it; None if it raises."""
    values = batch.values
    types = [v.type for v in values]
    env: list[Any] = [None] * reference.size
    for i in reference.leaves:
        env[i] = np.array(values[i].buffer)
    with np.errstate(all="ignore"):
        try:
            for step in reference.steps:
                frees, donates, step.frees, step.donates = step.frees, step.donates, (), False
                try:
                    step.call(env, types, batch.args)
                finally:
                    step.frees, step.donates = frees, donates
        except Exception:
            return None
    return env


def first_wrong(reference: ReferencePlan, batch: Batch, expected: list[Any]) -> int | None:
    """The first value in order that machine code computes differently, if all are stored."""
    from wend.runtime.cpu import compile_plan

    ids = [o for step in reference.steps for o in step.outputs]
    whole = compile_plan(reference, frozenset(ids))
    found = whole.execute(batch.values, batch.args)
    if found is None:
        return None
    return next((i for i in ids if i in found and not agree(found[i], expected[i])), None)


def agree(a: Any, b: Any) -> bool:
    """Equal up to the rounding of sums in another order."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    tolerance = TOLERANCE[a.dtype.itemsize] if a.dtype.kind != "c" else 2e-4
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=1e-30))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
