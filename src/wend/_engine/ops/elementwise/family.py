"""The family of elementwise ops: their common rules.

A member gives a formula (`reference`), a gradient and scalar code; the family gives the type rule
(PyTorch's promotion, then broadcasting), the batching rule, and the casts around the formula.
float16 and bfloat16 are computed in float32 and rounded once, as on every real machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any, ClassVar

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.dtypes import CATEGORY_NAMES, DType
from wend._engine.base.errors import ArgumentTypeError, DTypeNotImplemented
from wend._engine.core._types import Program
from wend._engine.core.kinds import Size
from wend._engine.core.op_facts import OpFacts
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import DIM, SymInt, SymNumber, broadcast_shapes
from wend._engine.core.types import Number, Spec
from wend._engine.ops.builder import Builder, Value
from wend._engine.ops.numeric import wrapped
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue

V = Any  #: a Tensor, or a run-time number, while a rule is traced
Grads = tuple[Any, ...]
Array = Any  #: an ndarray or NumPy scalar inside a formula

REAL = frozenset({"bool", "int", "float"})
NUMERIC: frozenset[str] = frozenset({"int", "float"})
FLOATING: frozenset[str] = frozenset({"float"})
INTEGRAL = frozenset({"bool", "int"})
ANY_NUMBER: frozenset[str] = frozenset({"bool", "int", "float", "complex"})
SIGNED_NUMBER = frozenset({"int", "float", "complex"})


def is_number(operand: V) -> bool:
    """Whether an operand of a gradient rule is a number rather than a tensor."""
    return isinstance(operand, (bool, int, float, complex, SymNumber, SymInt))


def zeros_like(x: V) -> V:
    """Zeros of x's shape and dtype, whatever x holds (0 * x would keep NaNs)."""
    return ops.fill_like(x, 0)


def tensor_of(operand: V) -> V:
    """A number as a 0-d tensor of its own type; anything else unchanged."""
    if type(operand) not in (bool, int, float, complex):
        return operand
    return ops.full((), operand, dtype=dtypes.of_python(type(operand)))


def promoted(*operands: V) -> DType:
    """The dtype that PyTorch computes these tensors and numbers in."""
    return dtypes.result_dtype(map(_entry, operands))


def _entry(operand: Any) -> tuple[DType, bool, bool]:
    """(dtype, is it 0-d, is it a number) of a Spec, Number, traced tensor, array or number."""
    if isinstance(operand, np.ndarray):
        return dtypes.from_numpy(operand.dtype), operand.ndim == 0, False
    category = getattr(operand, "category", None)
    if category is not None:  # Number, SymNumber
        return dtypes.dtype_of_scalar_category(category), False, True
    if isinstance(operand, SymInt):
        return dtypes.int64, False, True
    if isinstance(operand, (bool, int, float, complex)):
        return dtypes.of_python(type(operand)), False, True
    return operand.dtype, len(operand.shape) == 0, False


def widened(dtype: DType) -> DType:
    """The type in which elements of `dtype` are computed."""
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


def _alike(known: Any, operands: Any) -> bool:
    """Whether Specs and Numbers are of the same dtypes: nothing else counts."""
    if len(known) != len(operands):
        return False
    for a, b in zip(known, operands, strict=True):
        if type(a) is not type(b):
            return False
        if type(a) is Spec:
            if a.dtype is not b.dtype or (not a.shape) is not (not b.shape):
                return False
        elif a is not None and (type(a) is not Number or a.category != b.category):
            return False
    return True


class Formula:
    """A formula for operands of known dtypes: the casts are decided.

    rule: a function of operands and numbers of the computed dtypes
    casts: (which of these, the NumPy dtype that it is to have)
    dtype: the NumPy dtype of the result
    """

    __slots__ = ("casts", "dtype", "rule")

    def __init__(
        self,
        rule: Callable[..., Any],
        casts: tuple[tuple[int, np.dtype[Any]], ...],
        dtype: np.dtype[Any],
    ) -> None:
        self.rule = rule
        self.casts = casts
        self.dtype = dtype

    def __call__(self, *values: Any, out: Any = None) -> Any:
        """Return the result as an array of the inferred dtype.

        out: an array that the result may be written over
        """
        row: Any = values
        if self.casts:
            row = list(values)
            for i, target in self.casts:
                row[i] = cast(row[i], target)
        result = self.rule(*row) if out is None else self.rule(*row, out=out)
        if type(result) is np.ndarray and result.dtype == self.dtype:
            return result
        return converted(result, self.dtype)


class Elementwise(Primitive, abstract=True):
    """y[i] = f(x[i], ...): operands are promoted to a common dtype and broadcast to a common shape.

    kind: treatment of the promoted dtype
    "same"   for computation and result
        "float"  bool and ints become the default float type first
        "bool"   for computation, the result is bool
    supports: categories that the promoted dtype may have
    promotes: which operands take part in the promotion (all else keep their dtype); None: all
    widens: whether float16 and bfloat16 are computed in float32
    domain: interval(s) from which sample operands are drawn
    onnx_name: the ONNX operator that computes the formula of operands in order, if there is one
    overwrites: whether `reference` takes `out`, which may be an operand. The result is the same bit
    by bit, so that this is for exact formulas, or formulas rounded once

    `reference` is written for arrays of the computed dtype. The family wraps it, so that the
    executor's call takes any arrays and numbers and returns the inferred dtype.
    """

    facts = OpFacts(elementwise=True)
    signature = "input"
    kind: ClassVar[str] = "same"
    promotes: ClassVar[tuple[bool, ...] | None] = None
    widens: ClassVar[bool] = True
    onnx_name: ClassVar[str] = ""
    domain: ClassVar[Any] = (-3.0, 3.0)
    _known: dict[Any, Any]  # casts, by the dtypes of the operands
    _plain: dict[Any, Any]  # dtype of the result by that of all operands, where none is cast
    _tensors: tuple[int, ...]  # which operands are tensors
    _first: int
    _inferred: Any = None, [], None  # default dtype, operands and dtypes of the last question
    formula: ClassVar[tuple[Any, ...]] = ()  # in a tuple, or the formula would be bound as a method

    def by_rows(self, rows: tuple[bool, ...], ranks: tuple[int, ...]) -> bool:
        """Broadcasting must leave dim 0 of the operands that have rows in place."""
        return all(rank == max(ranks) for on, rank in zip(rows, ranks, strict=True) if on)

    def runner(self, operands: list[Any]) -> Callable[..., Any]:
        """`reference` for operands of known dtypes: the casts are decided once.

        operands: a Spec per tensor, a Number per number, None for an operand left out
        """
        default, inferred, decided = self._inferred
        if default is dtypes.get_default_dtype() and _alike(inferred, operands):
            targets, out = decided
        else:
            targets, out = self.dtypes_of(*operands)
        (formula,) = self.formula
        rule = formula.__func__ if isinstance(formula, staticmethod) else MethodType(formula, self)
        casts = tuple(
            [
                (i, target.numpy)
                for i, (target, o) in enumerate(zip(targets, operands, strict=True))
                if target is not None and o is not None and getattr(o, "dtype", None) is not target
            ]
        )
        return Formula(rule, casts, out.numpy)

    def __init_subclass__(cls, abstract: bool = False, **kwargs: Any) -> None:
        formula = cls.__dict__.get("reference")
        if formula is not None:
            # before registration, which may look at `reference`
            cls.reference = _with_casts(formula)
            cls.formula = (formula,)
        super().__init_subclass__(abstract=abstract, **kwargs)

    def __init__(self, attrs: dict[str, Any], form: tuple[Any, ...]) -> None:
        super().__init__(attrs, form)
        self._known = {}
        self._plain = {}
        self._tensors = tuple(i for i, entry in enumerate(form) if entry == "T")
        self._first = self._tensors[0] if self._tensors else 0

    # -- types ------------------------------------------------------------------------------

    def trace_rule(self, types: list[Any], args: list[Any]) -> Program:
        """As for any op; for a single tensor, the result has the tensor's extents, whatever they
        are."""
        if len(types) != 1 or self.sized or type(self).infer is not Elementwise.infer:
            return super().trace_rule(types, args)
        (x,) = types
        numbers = [Number(category) for category in self.categories]
        out = self.infer(*self.arrange([Spec(x.shape, x.dtype)], numbers))
        extents = tuple([(DIM, 0, axis) for axis in range(len(x.shape))])
        return Program(self, (), ((extents, out.dtype),))

    def infer(self, *operands: Any) -> Spec:
        """Spec of the result. Raises ShapeError, DTypeError."""
        specs = [o for o in operands if isinstance(o, Spec)]
        if not specs:
            raise ArgumentTypeError(f"{self.name}: at least one operand must be a Tensor")
        decided = self.dtypes_of(*operands)
        self._inferred = dtypes.get_default_dtype(), operands, decided
        out = decided[1]
        return Spec(broadcast_shapes(self.name, *(s.shape for s in specs)), out)

    def dtypes_of(self, *operands: Any) -> tuple[tuple[DType | None, ...], DType]:
        """(dtype in which each operand enters the formula, dtype of the result).

        operands: Specs and Numbers, or arrays and numbers. None for an operand left unchanged.
        """
        takes_part = self.promotes or (True,) * len(operands)
        entries = [
            _entry(o) for o, p in zip(operands, takes_part, strict=True) if p and o is not None
        ]
        common = self.promote(dtypes.result_dtype(entries))
        self.check_dtype(common)
        if self.kind == "float" and common.category < dtypes.FLOAT:
            common = dtypes.get_default_dtype()
        out = dtypes.bool_ if self.kind == "bool" else common
        computed = widened(common) if self.widens else common
        return tuple(computed if p else None for p in takes_part), out

    def promote(self, common: DType) -> DType:
        """Hook: the dtype to compute in, given the common dtype of the operands."""
        return common

    def check_dtype(self, common: DType) -> None:
        """Raise DTypeError if the op does not take operands of this dtype."""
        if CATEGORY_NAMES[common.category] not in self.facts.supports:
            taken = " and ".join(c for c in CATEGORY_NAMES if c in self.facts.supports)
            raise DTypeNotImplemented(
                f"{self.name}: not implemented for {common}: takes {taken} tensors"
            )

    # -- further rules that the family gives ----------------------------------------------------

    def emit(self, b: Builder, *operands: Value) -> Value:
        """By default, the builder's instruction of the op's own name."""
        return getattr(b, self.name)(*operands)

    def onnx(self, g: OnnxBuilder, *operands: Any) -> OnnxValue:
        """The node `onnx_name`, or else `emit` with ONNX nodes as instructions."""
        targets, out = self.dtypes_of(*operands)
        values: list[Any] = []
        for operand, target in zip(operands, targets, strict=True):
            if operand is None or target is None:
                values.append(operand)
            else:
                place = g.number if is_number(operand) else g.cast
                values.append(place(operand, target))
        if self.onnx_name and g.runs(self.onnx_name, values[0].dtype):
            result = g.node(self.onnx_name, *values, dtype=out if self.kind == "bool" else None)
        else:
            result = self.emit(g.elements, *values)
        return g.cast(result, out)

    def batch(self, batched: Sequence[bool], size: Size, *operands: V) -> V:
        """Align the dims of the single examples to the right of the batch axis.

        An operand that is 0-d in each example gains a dim, which would raise its rank in promotion:
        so it is cast to the dtype that the example's formula takes.  The result is cast to the
        dtype of the example's result: the formula may take a wider type, and so may a 0-d operand.
        """
        flags = _per_operand(self, batched, operands)
        examples = [_without_axis(o) if f else o for o, f in zip(operands, flags, strict=True)]
        ranks = [0 if o is None or is_number(o) else len(o.shape) for o in examples]
        targets, out = self.dtypes_of(*map(_as_spec, examples))
        aligned = []
        for operand, flag, rank, target in zip(operands, flags, ranks, targets, strict=True):
            if flag:
                if rank == 0 and target is not None and operand.dtype not in (target, out):
                    operand = ops.cast(operand, target)
                lead = operand.shape[0]
                padding = (1,) * (max(ranks) - rank)
                if padding:
                    operand = ops.reshape(operand, (lead, *padding, *operand.shape[1:]))
            aligned.append(operand)
        result = self.again(*aligned)
        return result if result.dtype is out else ops.cast(result, out)

    def again(self, *operands: V) -> V:
        """This op, attributes included, on new operands."""
        rest = iter(operands)
        call = {p.name: self.attrs[p.name] if p.is_attr else next(rest) for p in self.params}
        return type(self).function(**call)

    # -- samples ----------------------------------------------------------------------------

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        """Calls over the shapes that matter; numbers too where the op takes numbers."""
        kinds = [p.kind for p in self.params if not p.is_attr and p.kind != "scalar"]
        n = len(kinds)
        for shapes in _SHAPES[n]:
            yield Sample(*(self.draw(rng, i, shape) for i, shape in enumerate(shapes)))
        for i in range(n):
            if kinds[i] == "operand" and n > 1:
                arrays: list[Any] = [self.draw(rng, j, (2, 3)) for j in range(n)]
                number = float(arrays[i][0, 0])
                arrays[i] = number if "float" in self.facts.supports else int(number)
                yield Sample(*arrays)

    def draw(self, rng: np.random.Generator, i: int, shape: tuple[int, ...]) -> np.ndarray:
        """Values for the i-th operand, uniform over the operand's domain."""
        domain = self.domain[i] if isinstance(self.domain[0], tuple) else self.domain
        low, high = domain
        return np.asarray(rng.uniform(low, high, size=shape))


# fmt: off
_SHAPES: dict[int, tuple[tuple[tuple[int, ...], ...], ...]] = {
    1: (((),), ((1,),), ((0, 3),), ((3, 4),), ((2, 1, 3),)),
    2: (((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (3,)), ((2, 3), ()), ((), ()),
        ((0, 3), (1, 3)), ((1,), (2, 1, 2))),
    3: (((3, 4), (3, 4), (3, 4)), ((3, 1), (4,), ()), ((), (2,), (3, 1)), ((0, 2), (2,), (1, 1)),
        ((), (), ())),
}
# fmt: on


def _per_operand(op: Elementwise, batched: Sequence[bool], operands: tuple[V, ...]) -> list[bool]:
    """`batched` speaks of tensor and operand parameters only; scalars are never batched."""
    flags = iter(batched)
    kinds = [p.kind for p in op.params if not p.is_attr]
    result = [kind in ("tensor", "tensor?", "operand") and next(flags) for kind in kinds]
    assert len(result) == len(operands)
    return result


def _without_axis(operand: V) -> Spec:
    return Spec(operand.shape[1:], operand.dtype)


def _as_spec(operand: V) -> Any:
    if operand is None or is_number(operand) or isinstance(operand, Spec):
        return operand
    return Spec(operand.shape, operand.dtype)


# -- casts around a formula -------------------------------------------------------------------


def _with_casts(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The formula on operands of any dtype: cast in, compute, cast out."""
    static = formula.__func__ if isinstance(formula, staticmethod) else None

    def reference(self: Elementwise, *operands: Any) -> np.ndarray:
        first = operands[self._first]
        if type(first) is np.ndarray:
            dtype = first.dtype
            out = self._plain.get(dtype)
            if out is not None:  # no casts if all are of that dtype
                for other in operands:
                    if type(other) is not np.ndarray or other.dtype is not dtype:
                        out = None
                        break
                else:
                    result = formula(self, *operands) if static is None else static(*operands)
                    if type(result) is np.ndarray and result.dtype is out:
                        return result
                    return np.asarray(result).astype(out, copy=False)
        targets, out = _casts(self, operands)
        arrays = [o if t is None else cast(o, t) for o, t in zip(operands, targets)]
        result = formula(self, *arrays) if static is None else static(*arrays)
        return np.asarray(result).astype(out, copy=False)

    reference.__doc__ = formula.__doc__
    reference.__wrapped__ = formula  # type: ignore[attr-defined]
    return reference


def _casts(op: Elementwise, operands: tuple[Any, ...]) -> Any:
    """(NumPy dtype to cast each operand to, or None; dtype of the result), remembered.

    The op's form tells which operands are numbers and of which category.
    """
    arrays = [operands[i] for i in op._tensors]
    key: Any
    if len(arrays) == 1 and type(arrays[0]) is np.ndarray:
        key = (arrays[0].dtype, dtypes.get_default_dtype())
    else:
        kinds = [(o.dtype, o.ndim == 0) if type(o) is np.ndarray else type(o) for o in arrays]
        key = (dtypes.get_default_dtype(), *kinds)
    casts = op._known.get(key)
    if casts is None:
        casts = op._known[key] = _plan_casts(op, operands)
        if len(arrays) == len(operands) and all(t is None for t in casts[0]):
            alike = all(type(o) is np.ndarray and o.dtype == arrays[0].dtype for o in arrays)
            if alike:
                op._plain[arrays[0].dtype] = casts[1]
    return casts


def _plan_casts(op: Elementwise, operands: tuple[Any, ...]) -> Any:
    arrays = [np.asarray(o) if isinstance(o, np.generic) else o for o in operands]
    targets, out = op.dtypes_of(*arrays)
    numpy_targets = [
        None
        if t is None or o is None or (isinstance(o, np.ndarray) and o.dtype == t.numpy)
        else t.numpy
        for o, t in zip(arrays, targets, strict=True)
    ]
    return numpy_targets, out.numpy


def converted(result: Any, dtype: np.dtype[Any]) -> Any:
    """Return the result of a formula, a NumPy scalar perhaps, as an array of that dtype."""
    return np.asarray(result).astype(dtype, copy=False)


def cast(operand: Any, target: np.dtype[Any]) -> Any:
    """An operand or number in that dtype."""
    if type(operand) is float:
        return target.type(operand)
    if isinstance(operand, (np.ndarray, np.generic)):
        return operand.astype(target)
    if target.kind in "iu" and isinstance(operand, int):
        return wrapped(operand, target)
    return target.type(operand)


#: Constants that several gradients use.
LN2 = math.log(2.0)
LN10 = math.log(10.0)
