"""WEND_VERIFY=1: every plan is run beside the reference; the first op that differs is named."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend.base import defects
from wend.base.errors import DefectError
from wend.core._hot import FlushJob
from wend.core.provenance import locate
from wend.ops.elementwise.arithmetic import Add, Div, Sub
from wend.ops.elementwise.selection import Cast
from wend.ops.reduce import Sum
from wend.runtime.numpy_executor.plan import ReferencePlan

#: By bytes of a float: how far results may differ, relative to the largest element.
TOLERANCE = {2: 2e-2, 4: 2e-4, 8: 1e-9}


def verify(compiled: Any, batch: FlushJob) -> None:
    """Raise DefectError, with the user's line, if machine code computes different values."""
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
    """Return all values that the reference computes; None if an op refuses its operands."""
    values = batch.values
    leaves = {i: np.array(values[i].buffer) for i in reference.leaves}
    return evaluate(reference, leaves, [v.type for v in values], batch.args)


def evaluate(
    reference: ReferencePlan, leaves: dict[int, Any], types: list[Any], args: list[Any]
) -> list[Any] | None:
    """Do the same as `expect`, from these arrays of leaves, to which nothing writes."""
    env: list[Any] = [None] * reference.size
    for i in reference.leaves:
        env[i] = leaves[i]
    with np.errstate(all="ignore"):
        try:
            for step in reference.steps:
                call(step, env, types, args)
        except Exception as error:
            # The flush itself meets an op's refusal as well, and raises it; a defect is noted.
            if not defects.by_rule(error):
                defects.note(error, repaired=False)
            return None
    return env


def call(step: Any, env: list[Any], types: list[Any], args: list[Any]) -> None:
    """Run a step so that it frees nothing, and writes to no operand."""
    frees, donates, step.frees, step.donates = step.frees, step.donates, (), False
    try:
        step.call(env, types, args)
    finally:
        step.frees, step.donates = frees, donates


def terms_of_sums(
    reference: ReferencePlan, expected: list[Any], batch: FlushJob
) -> dict[int, float]:
    """Return the largest term of each value that is a sum: terms that cancel leave its rounding.

    A mean is a sum that is divided and rounded to its type.  Its largest term is the sum's largest
    term, divided and rounded in the same way.
    """
    terms: dict[int, float] = {}
    types = [v.type for v in batch.values]
    for step in reference.steps:
        if step.output is None:
            continue
        if isinstance(step.node.prim, (Sum, Add, Sub)):
            parts = [max(magnitude(np.asarray(expected[i])), terms.get(i, 0)) for i in step.inputs]
            terms[step.output] = max(parts)
        elif isinstance(step.node.prim, (Div, Cast)) and step.inputs[0] in terms:
            env = list(expected)
            i = step.inputs[0]
            env[i] = np.full_like(expected[i], terms[i])
            with np.errstate(all="ignore"):
                call(step, env, types, batch.args)
            terms[step.output] = magnitude(np.asarray(env[step.output]))
    return terms


def magnitude(a: Any) -> float:
    """Return the largest absolute value of the finite elements of an array."""
    return float(np.max(np.abs(a[np.isfinite(a)]).astype(np.float64), initial=1e-30))


def first_wrong(
    reference: ReferencePlan, batch: FlushJob, expected: list[Any], terms: dict[int, float]
) -> int | None:
    """Return the first value that machine code computes differently, if all values are stored.

    Returns None if there is none, or machine code cannot run.
    """
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
    """Return, by value, the bytes of the narrowest float that the value was made from.

    The rounding of this float is left in the value.
    """
    widths: dict[int, int] = {}

    def own(i: int) -> int:
        return bytes_of(expected[i])

    for step in reference.steps:
        least = min([widths.get(i, own(i)) for i in step.inputs], default=8)
        for o in step.outputs:
            widths[o] = min(least, own(o))
    return widths


def bytes_of(array: Any) -> int:
    """Return the bytes of a float of this array; 8 for an array without floats or rounding."""
    return bytes_of_dtype(np.asarray(array).dtype)


def bytes_of_dtype(dtype: Any) -> int:
    """Return the bytes of a float of this NumPy dtype; 8 for a dtype that is not of floats."""
    if dtype.kind in "biuO":
        return 8
    return int(dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize)


def agree(a: Any, b: Any, largest: float, width: int = 8) -> bool:
    """Return whether two arrays are equal up to the rounding of sums in another order.

    largest: the largest term of a sum
    width: bytes of the narrowest float that the arrays were made from
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
