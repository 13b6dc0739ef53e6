"""Transforms from unconstrained numbers to the values of a constraint.

biject_to(constraint)      a bijection, for samplers and variational inference
transform_to(constraint)   a cheap map onto the values, for optimisation by gradients
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.core.kinds import Operand
from wend.distributions import constraints, transforms
from wend.distributions.constraints import Constraint
from wend.distributions.transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """A table from classes of constraints to functions that make a transform of such."""

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}
        super().__init__()

    def register(
        self, constraint: Constraint | type[Constraint], factory: Factory | None = None
    ) -> Any:
        """Add a factory for the class of a constraint; a decorator if no factory is given.

        Raises TypeError unless given a class of constraints or a constraint.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The transform to the values of a constraint.

        Raises NotImplementedError for classes without a factory.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to: ConstraintRegistry = ConstraintRegistry()
transform_to: ConstraintRegistry = ConstraintRegistry()


def _affine_of_exp(bound: Operand, scale: int) -> Transform:
    shift = transforms.AffineTransform(bound, scale)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


def _to_greater(constraint: Any) -> Transform:
    return _affine_of_exp(constraint.lower_bound, 1)


def _to_interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    numbers = all(isinstance(bound, int | float) for bound in (low, high))
    if numbers and low == 0 and high == 1:
        return transforms.SigmoidTransform()
    widened = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), widened])


def _of_parts(registry: ConstraintRegistry) -> dict[Any, Factory]:
    """Factories for regions that are made of regions."""
    return {
        constraints.independent: lambda c: transforms.IndependentTransform(
            registry(c.base_constraint), c.reinterpreted_batch_ndims
        ),
        constraints.cat: lambda c: transforms.CatTransform(
            [registry(part) for part in c.cseq], c.dim, c.lengths
        ),
        constraints.stack: lambda c: transforms.StackTransform(
            [registry(part) for part in c.cseq], c.dim
        ),
    }


_BOTH: dict[Any, Factory] = {
    constraints.real: lambda c: transforms.identity_transform,
    constraints.positive: _to_greater,
    constraints.nonnegative: _to_greater,
    constraints.greater_than: _to_greater,
    constraints.greater_than_eq: _to_greater,
    constraints.less_than: lambda c: _affine_of_exp(c.upper_bound, -1),
    constraints.interval: _to_interval,
    constraints.half_open_interval: _to_interval,
    constraints.corr_cholesky: lambda c: transforms.CorrCholeskyTransform(),
}
_BIJECTIONS: dict[Any, Factory] = {
    **_BOTH,
    **_of_parts(biject_to),
    constraints.simplex: lambda c: transforms.StickBreakingTransform(),
}
_CHEAP: dict[Any, Factory] = {
    **_BOTH,
    **_of_parts(transform_to),
    constraints.simplex: lambda c: transforms.SoftmaxTransform(),
    constraints.lower_cholesky: lambda c: transforms.LowerCholeskyTransform(),
    constraints.positive_definite: lambda c: transforms.PositiveDefiniteTransform(),
    constraints.positive_semidefinite: lambda c: transforms.PositiveDefiniteTransform(),
}
for _registry, _table in ((biject_to, _BIJECTIONS), (transform_to, _CHEAP)):
    for _constraint, _factory in _table.items():
        _registry.register(_constraint, _factory)
