"""Values that a distribution's parameters and samples may have: `check` tells, per value."""

from __future__ import annotations

from typing import Any

from wend.base.errors import LinAlgError
from wend.core._hot import Tensor
from wend.core.primitive import ops
from wend.frontend import linalg

__all__ = [
    "Constraint",
    "boolean",
    "greater_than",
    "integer_interval",
    "interval",
    "lower_cholesky",
    "nonnegative",
    "nonnegative_integer",
    "positive",
    "positive_definite",
    "real",
    "real_vector",
    "simplex",
    "unit_interval",
]


class Constraint:
    """A region of values.

    is_discrete: whether all values are whole numbers
    event_dim: how many of the last dims of a tensor make up a value
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """A bool tensor: where `value` lies in the region."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.strip("_")


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # all but NaN


class _RealVector(_Real):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ops.all(super().check(value), -1)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ops.all(value >= 0, -1) & (ops.abs(ops.sum(value, -1) - 1) < 1e-6)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        triangular = ops.all(ops.all(ops.tril(value) == value, -1), -1)
        return triangular & ops.all(ops.diagonal(value, 0, -2, -1) > 0, -1)


class _PositiveDefinite(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        close = ops.isclose(value, ops.matrix_transpose(value), atol=1e-6)
        symmetric = ops.all(ops.all(close, -1), -1)
        try:
            linalg.cholesky(value)
        except LinAlgError:
            return ops.zeros_like(symmetric)
        return symmetric


class _Interval(Constraint):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)

    def __repr__(self) -> str:
        name = type(self).__name__.strip("_")
        return f"{name}(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"


class _IntegerInterval(_Interval):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class _AtLeast(Constraint):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound

    def __repr__(self) -> str:
        return f"{type(self).__name__.strip('_')}(lower_bound={self.lower_bound})"


class _IntegerAtLeast(_AtLeast):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class _GreaterThan(_AtLeast):
    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


boolean = _Boolean()
greater_than = _GreaterThan
integer_interval = _IntegerInterval
interval = _Interval
nonnegative = _AtLeast(0.0)
nonnegative_integer = _IntegerAtLeast(0)
positive = _GreaterThan(0.0)
lower_cholesky = _LowerCholesky()
positive_definite = _PositiveDefinite()
real = _Real()
real_vector = _RealVector()
simplex = _Simplex()
unit_interval = _Interval(0.0, 1.0)
