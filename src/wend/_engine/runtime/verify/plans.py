"""WEND_VERIFY=1: every plan is run beside the reference; the first op that differs is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base import defects
from wend._engine.base.errors import DefectError
from wend._engine.core._hot import FlushJob
from wend._engine.core.provenance import locate
from wend._engine.ops.elementwise.arithmetic import Add, Sub
from wend._engine.ops.reduce import Sum
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend._engine.runtime.numpy_executor.runners import NodeRun

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wend._engine.runtime.compiled.plan import CompiledPlan

#: By bytes of a float: how far results may differ, relative to the largest element.
TOLERANCE = {2: 2e-2, 4: 2e-4, 8: 1e-9}


def verify(compiled: CompiledPlan, batch: FlushJob) -> None:
    """Raise DefectError, with the user's line, if machine code computes different values."""
    reference = compiled.reference
    expected = expect(reference, batch)
    if expected is None:
        return
    arrays = compiled.execute(batch.values, batch.args)
    limits = Limits(reference, expected, batch)
    if arrays is None or all(limits.allow(i, array) for i, array in arrays.items()):
        return
    wrong = first_wrong(reference, batch, limits)
    if wrong is None:
        wrong = next(i for i, array in arrays.items() if not limits.allow(i, array))
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


def call(step: NodeRun, env: list[Any], types: list[Any], args: list[Any]) -> None:
    """Run a step so that it frees nothing, and writes to no operand."""
    frees, donates, step.frees, step.donates = step.frees, step.donates, (), False
    try:
        step.call(env, types, args)
    finally:
        step.frees, step.donates = frees, donates


class Limits:
    """How far the values of a flush may be from those of the reference: see `terms_of_sums`."""

    def __init__(self, reference: ReferencePlan, expected: list[Any], batch: FlushJob) -> None:
        self.reference = reference
        self.expected = expected
        self.batch = batch
        self.widths = narrowest(reference, expected)
        self.terms: dict[int, float] | None = None  # found at the first need

    def allow(self, i: int, array: object) -> bool:
        """Return whether an array may be the value i."""
        expected, width = self.expected[i], self.widths.get(i, 8)
        if agree(array, expected, 0.0, width):
            return True
        if self.terms is None:
            self.terms = terms_of_sums(self.reference, self.expected, self.batch, self.widths)
        return agree(array, expected, self.terms.get(i, 0.0), width)


def terms_of_sums(
    reference: ReferencePlan, expected: list[Any], batch: FlushJob, widths: dict[int, int]
) -> dict[int, float]:
    """Return the largest term of each value that is a sum, or was made from sums.

    Terms that cancel leave their rounding, a multiple of the largest term, in the sum.  Each later
    op hands this error on: the op is run with its operands moved by the tolerated error.

    widths: see `narrowest`
    """
    terms: dict[int, float] = {}
    types = [v.type for v in batch.values]
    for step in reference.steps:
        if isinstance(step.node.prim, (Sum, Add, Sub)):
            parts = [max(magnitude(np.asarray(expected[i])), terms.get(i, 0)) for i in step.inputs]
            terms[step.outputs[0]] = max(parts)
            continue
        for i in dict.fromkeys(step.inputs):
            was = np.asarray(expected[i])
            if i not in terms or was.dtype.kind not in "fc":
                continue
            tolerance = tolerance_of(was.dtype, widths.get(i, 8))
            for moved in (was + tolerance * terms[i], was - tolerance * terms[i]):
                env = list(expected)
                env[i] = moved.astype(was.dtype)
                try:
                    with np.errstate(all="ignore"):
                        call(step, env, types, batch.args)
                except Exception as error:  # the moved operand is refused: its error cannot be told
                    if not defects.by_rule(error):
                        raise
                    continue
                for o in step.outputs:
                    if np.asarray(expected[o]).dtype.kind in "fc":
                        with np.errstate(all="ignore"):
                            change = np.asarray(env[o]) - np.asarray(expected[o])
                        terms[o] = max(terms.get(o, 0), magnitude(change) / tolerance)
    return terms


def magnitude(a: NDArray[Any]) -> float:
    """Return the largest absolute value of the finite elements of an array."""
    return float(np.max(np.abs(a[np.isfinite(a)]).astype(np.float64), initial=1e-30))


def first_wrong(reference: ReferencePlan, batch: FlushJob, limits: Limits) -> int | None:
    """Return the first value that machine code computes differently, if all values are stored.

    Returns None if there is none, or machine code cannot run.
    """
    from wend._engine.runtime.compiled.plan import compile_plan

    ids = [o for step in reference.steps for o in step.outputs]
    whole = compile_plan(reference, frozenset(ids))
    arrays = whole.execute(batch.values, batch.args)
    if arrays is None:
        return None
    return next((i for i in ids if i in arrays and not limits.allow(i, arrays[i])), None)


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


def bytes_of(array: object) -> int:
    """Return the bytes of a float of this array; 8 for an array without floats or rounding."""
    return bytes_of_dtype(np.asarray(array).dtype)


def bytes_of_dtype(dtype: np.dtype[Any]) -> int:
    """Return the bytes of a float of this NumPy dtype; 8 for a dtype that is not of floats."""
    if dtype.kind in "biuO":
        return 8
    return int(dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize)


def tolerance_of(dtype: np.dtype[Any], width: int) -> float:
    """Return how far results may differ, relative to the largest element.

    width: bytes of the narrowest float that the results were made from
    """
    return TOLERANCE[min(dtype.itemsize, width)] if dtype.kind != "c" else 2e-4


def agree(a: object, b: object, largest: float, width: int = 8) -> bool:
    """Return whether two arrays are equal up to the rounding of sums in another order.

    largest: the largest term of a sum
    width: bytes of the narrowest float that the arrays were made from
    """
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    tolerance = tolerance_of(a.dtype, width)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    scale = max(magnitude(b), largest)
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
