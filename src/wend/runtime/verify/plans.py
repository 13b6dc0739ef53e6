"""WEND_VERIFY=1: every plan is run beside the reference, and the first op that differs is named."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend.base import defects
from wend.base.errors import DefectError
from wend.core._hot import FlushJob
from wend.core.provenance import locate
from wend.ops.arithmetic import Div
from wend.ops.reduce import Sum
from wend.ops.selection import Cast
from wend.runtime.numpy_executor.plan import ReferencePlan

#: How far results may differ, in terms of the largest element, by bytes of a float.
TOLERANCE = {2: 2e-2, 4: 2e-4, 8: 1e-9}


def verify(compiled: Any, batch: FlushJob) -> None:
    """Raise DefectError, with the user's line, if machine code computes something else."""
    reference = compiled.reference
    expected = expect(reference, batch)
    if expected is None:
        return
    found = compiled.execute(batch.values, batch.args)
    terms = terms_of_sums(reference, expected, batch)
    widths = narrowest(reference, expected)

    def same(i: int) -> bool:
        return agree(found[i], expected[i], terms.get(i, 0.0), widths.get(i, 8))

    if found is None or all(map(same, found)):
        return
    wrong = first_wrong(reference, batch, expected, terms)
    if wrong is None:
        wrong = next(i for i in found if not same(i))
    node = next(n for n in reference.path.nodes if wrong in n.outputs)
    fault = DefectError(
        f"{node.prim.name}: machine code and the reference differ; this is a defect of Wend"
    )
    raise locate(fault, node.prim.name, batch, wrong, reference.path)


def expect(reference: ReferencePlan, batch: FlushJob) -> list[Any] | None:
    """What the reference computes, every value of it; None if an op refuses its values."""
    values = batch.values
    leaves = {i: np.array(values[i].buffer) for i in reference.leaves}
    return evaluate(reference, leaves, [v.type for v in values], batch.args)


def evaluate(
    reference: ReferencePlan, leaves: dict[int, Any], types: list[Any], args: list[Any]
) -> list[Any] | None:
    """As `expect`, from these arrays, which nobody writes to."""
    env: list[Any] = [None] * reference.size
    for i in reference.leaves:
        env[i] = leaves[i]
    with np.errstate(all="ignore"):
        try:
            for step in reference.steps:
                call(step, env, types, args)
        except Exception as error:
            # The flush meets it as well, and tells of it: of an op's refusal, or of a defect.
            if not defects.by_rule(error):
                defects.note(error, repaired=False)
            return None
    return env


def call(step: Any, env: list[Any], types: list[Any], args: list[Any]) -> None:
    """Run a step that frees nothing, and writes to no operand."""
    frees, donates, step.frees, step.donates = step.frees, step.donates, (), False
    try:
        step.call(env, types, args)
    finally:
        step.frees, step.donates = frees, donates


def terms_of_sums(
    reference: ReferencePlan, expected: list[Any], batch: FlushJob
) -> dict[int, float]:
    """By value that is a sum, its largest term: terms that cancel leave the rounding of these.

    A mean is a sum that is divided and rounded to its type: what that makes of the term counts.
    """
    terms: dict[int, float] = {}
    types = [v.type for v in batch.values]
    for step in reference.steps:
        if step.output is None:
            continue
        if isinstance(step.node.prim, Sum):
            terms[step.output] = magnitude(np.asarray(expected[step.inputs[0]]))
        elif isinstance(step.node.prim, (Div, Cast)) and step.inputs[0] in terms:
            env = list(expected)
            i = step.inputs[0]
            env[i] = np.full_like(expected[i], terms[i])
            with np.errstate(all="ignore"):
                call(step, env, types, batch.args)
            terms[step.output] = magnitude(np.asarray(env[step.output]))
    return terms


def magnitude(a: Any) -> float:
    """The largest finite element of an array of numbers, without its sign."""
    return float(np.max(np.abs(a[np.isfinite(a)]).astype(np.float64), initial=1e-30))


def first_wrong(
    reference: ReferencePlan, batch: FlushJob, expected: list[Any], terms: dict[int, float]
) -> int | None:
    """The first value in order that machine code computes differently, if all are stored."""
    from wend.runtime.compiled.plan import compile_plan

    ids = [o for step in reference.steps for o in step.outputs]
    whole = compile_plan(reference, frozenset(ids))
    found = whole.execute(batch.values, batch.args)
    if found is None:
        return None
    widths = narrowest(reference, expected)
    for i in ids:
        if i in found and not agree(found[i], expected[i], terms.get(i, 0.0), widths.get(i, 8)):
            return i
    return None


def narrowest(reference: ReferencePlan, expected: list[Any]) -> dict[int, int]:
    """By value the bytes of the narrowest float that it was made from: its rounding is left."""
    widths: dict[int, int] = {}

    def own(i: int) -> int:
        return bytes_of(expected[i])

    for step in reference.steps:
        least = min([widths.get(i, own(i)) for i in step.inputs], default=8)
        for o in step.outputs:
            widths[o] = min(least, own(o))
    return widths


def bytes_of(array: Any) -> int:
    """Bytes of a float of this array; 8 if it has none, and so no rounding."""
    return bytes_of_dtype(np.asarray(array).dtype)


def bytes_of_dtype(dtype: Any) -> int:
    """As `bytes_of`, of a NumPy dtype."""
    if dtype.kind in "biuO":
        return 8
    return int(dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize)


def agree(a: Any, b: Any, largest: float, width: int = 8) -> bool:
    """Equal up to the rounding of sums in another order.

    largest: of the terms of a sum     width: bytes of the narrowest float that they were made from
    """
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    tolerance = TOLERANCE[min(a.dtype.itemsize, width)] if a.dtype.kind != "c" else 2e-4
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    scale = max(magnitude(b), largest)
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
