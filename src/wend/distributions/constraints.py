"""Values that a distribution's parameters and samples may have: `check` tells, per value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.base.dtypes import bool_, finfo
from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend._engine.ops.placing import full_beside
from wend._frontend import linalg
from wend.distributions._formulas import attribute
from wend.distributions.utils import all_rightmost

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A region of values.

    is_discrete: whether all values are whole numbers
    event_dim: how many of the last dims of a tensor make up a value
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """A bool tensor: where `value` lies in the region."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__.strip('_')}({', '.join(self._shown())})"

    def _shown(self) -> list[str]:
        """The arguments, as they are printed."""
        bounds = ("lower_bound", "upper_bound")
        return [f"{name}={self.__dict__[name]}" for name in bounds if name in self.__dict__]


# -- regions that depend on a distribution's parameters --------------------------------------------


class _Dependent(Constraint):
    """A region that is known once a distribution has its parameters.

    Asked for a fact that was not given, it raises NotImplementedError.
    """

    def __init__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether all values are whole numbers."""
        return self._fact("is_discrete")

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """How many of the last dims make up a value."""
        return self._fact("event_dim")

    def _fact(self, name: str) -> Any:
        known = self.__dict__[f"_{name}"]
        if known is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return known

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> _Dependent:
        """The same, with facts that are known before."""
        if is_discrete is NotImplemented:
            is_discrete = self._is_discrete
        if event_dim is NotImplemented:
            event_dim = self._event_dim
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Tensor) -> Tensor:
        raise ArgumentError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property that gives a region; asked of the class, a dependent region.

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self): ...
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:  # type: ignore[override]
        """Decorate the function that makes the region."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: object) -> bool:
    """Whether a region depends on a distribution's parameters."""
    return isinstance(constraint, _Dependent)


# -- regions made of regions ----------------------------------------------------------------------


class _IndependentConstraint(Constraint):
    """Values that lie in a region along each of their first dims."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise ArgumentError(f"independent: expected a Constraint, got {base_constraint!r}")
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise ArgumentError(
                "independent: reinterpreted_batch_ndims must be an int from 0 on, and is "
                f"{reinterpreted_batch_ndims!r}"
            )
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    is_discrete = attribute("base_constraint.is_discrete", "As the region of a part.")

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The dims of a part and those of the parts."""
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            raise ArgumentError(
                f"{self!r}: Expected value.dim() >= {self.event_dim} but got {value.dim()}"
            )
        return all_rightmost(result, self.reinterpreted_batch_ndims)

    def _shown(self) -> list[str]:
        return [repr(self.base_constraint), str(self.reinterpreted_batch_ndims)]


class MixtureSameFamilyConstraint(Constraint):
    """Values that lie in the region of each component of a mixture."""

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise ArgumentError(f"mixture: expected a Constraint, got {base_constraint!r}")
        self.base_constraint = base_constraint

    is_discrete = attribute("base_constraint.is_discrete", "As the region of a component.")
    event_dim = attribute("base_constraint.event_dim", "As the region of a component.")

    def check(self, value: Tensor) -> Tensor:
        # Components lie in the last dim of the batch, before the dims of an event.
        last = self.event_dim
        fits = self.base_constraint.check(ops.unsqueeze(value, -1 - last))
        if value.dim() < last:
            raise ArgumentError(f"{self!r}: Expected value.dim() >= {last} but got {value.dim()}")
        return all_rightmost(fits, fits.dim() - (value.dim() - last))

    def _shown(self) -> list[str]:
        return [repr(self.base_constraint)]


class _OfSlices(Constraint):
    """Base: regions of the slices along a dim."""

    cseq: list[Any]

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether any of the regions is."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The most of the regions."""
        return max(int(c.event_dim) for c in self.cseq)


class _Cat(_OfSlices):
    """Regions of slices along a dim, `lengths` of each (1 if not given)."""

    def __init__(
        self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        self.cseq = list(cseq)
        self.lengths: list[int] = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ArgumentError(
                f"cat: {len(self.lengths)} lengths do not fit {len(self.cseq)} constraints"
            )
        self.dim = dim

    def check(self, value: Tensor) -> Tensor:
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            checks.append(constraint.check(ops.narrow(value, self.dim, start, length)))
            start += length
        return ops.cat(checks, self.dim)


class _Stack(_OfSlices):
    """Regions of the slices along a dim."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The most of the regions, and the dim of the slices if that lies among those of events."""
        most = super().event_dim
        return most + 1 if self.dim + most < 0 else most

    def check(self, value: Tensor) -> Tensor:
        slices = [ops.select(value, self.dim, i) for i in range(value.size(self.dim))]
        checks = [c.check(v) for c, v in zip(self.cseq, slices, strict=False)]
        return ops.stack(checks, self.dim)


# -- numbers ---------------------------------------------------------------------------------------


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # all but NaN


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Interval(Constraint):
    def __init__(self, lower_bound: Operand, upper_bound: Operand) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _IntegerInterval(_Interval):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class _HalfOpenInterval(_Interval):
    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _GreaterThan(Constraint):
    def __init__(self, lower_bound: Operand) -> None:
        self.lower_bound = lower_bound
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(Constraint):
    def __init__(self, lower_bound: Operand) -> None:
        self.lower_bound = lower_bound
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _IntegerGreaterThan(_GreaterThanEq):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class _LessThan(Constraint):
    def __init__(self, upper_bound: Operand) -> None:
        self.upper_bound = upper_bound
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


# -- vectors ---------------------------------------------------------------------------------------


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ops.all(value >= 0, -1) & (ops.abs(ops.sum(value, -1) - 1) < 1e-6)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ops.all((value == 0) | (value == 1), -1) & (ops.sum(value, -1) == 1)


class _Multinomial(Constraint):
    """Counts from 0 on that sum to at most upper_bound, the number of trials."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Operand) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Tensor) -> Tensor:
        return ops.all(x >= 0, -1) & (ops.sum(x, -1) <= self.upper_bound)


# -- matrices --------------------------------------------------------------------------------------


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return all_rightmost(ops.tril(value) == value, 2)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & ops.all(ops.diagonal(value, 0, -2, -1) > 0, -1)


class _CorrCholesky(_LowerCholesky):
    """Lower triangles with a positive diagonal whose rows have length 1."""

    def check(self, value: Tensor) -> Tensor:
        # Rounding of the sum of squares in a row.
        tolerance = 10 * value.size(-1) * finfo(value.dtype).eps
        length = ops.sqrt(ops.sum(ops.square(value), -1))
        return super().check(value) & ops.all(ops.abs(length - 1) < tolerance, -1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        """False for matrices that are not square."""
        fits = value.shape[-2] == value.shape[-1]
        return (
            self._fits(value) if fits else full_beside(value, tuple(value.shape[:-2]), False, bool_)
        )

    def _fits(self, value: Tensor) -> Tensor:
        """Where square matrices lie in the region."""
        return full_beside(value, tuple(value.shape[:-2]), True, bool_)


class _Symmetric(_Square):
    def _fits(self, value: Tensor) -> Tensor:
        return all_rightmost(ops.isclose(value, ops.matrix_transpose(value), atol=1e-6), 2)


class _PositiveSemidefinite(_Symmetric):
    def _fits(self, value: Tensor) -> Tensor:
        return super()._fits(value) & ops.all(linalg.eigvalsh(value) >= 0, -1)


class _PositiveDefinite(_Symmetric):
    def _fits(self, value: Tensor) -> Tensor:
        return super()._fits(value) & (linalg.cholesky_ex(value)[1] == 0)


dependent: _Dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
cat = _Cat
stack = _Stack
boolean: _Boolean = _Boolean()
one_hot: _OneHot = _OneHot()
multinomial = _Multinomial
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
interval = _Interval
half_open_interval = _HalfOpenInterval
integer_interval = _IntegerInterval
nonnegative: _GreaterThanEq = _GreaterThanEq(0.0)
nonnegative_integer: _IntegerGreaterThan = _IntegerGreaterThan(0)
positive_integer: _IntegerGreaterThan = _IntegerGreaterThan(1)
positive: _GreaterThan = _GreaterThan(0.0)
unit_interval: _Interval = _Interval(0.0, 1.0)
real: _Real = _Real()
real_vector: independent = independent(real, 1)
simplex: _Simplex = _Simplex()
square: _Square = _Square()
symmetric: _Symmetric = _Symmetric()
lower_triangular: _LowerTriangular = _LowerTriangular()
lower_cholesky: _LowerCholesky = _LowerCholesky()
corr_cholesky: _CorrCholesky = _CorrCholesky()
positive_definite: _PositiveDefinite = _PositiveDefinite()
positive_semidefinite: _PositiveSemidefinite = _PositiveSemidefinite()
