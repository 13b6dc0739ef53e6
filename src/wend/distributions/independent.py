"""Distributions made of distributions: more dims an event, mixtures, functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from wend._engine.base.errors import ArgumentError
from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend._frontend.autograd.backward import no_grad
from wend.distributions import constraints
from wend.distributions._formulas import Formulas, attribute, in_support
from wend.distributions.categorical import Categorical
from wend.distributions.constraints import Constraint
from wend.distributions.distribution import Distribution
from wend.distributions.transforms import ComposeTransform, Transform
from wend.distributions.utils import sum_rightmost

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """A distribution whose last batch dims count as dims of the event: their densities multiply."""

    arg_constraints: ClassVar = {}

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ArgumentError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        event = (*batch[cut:], *base_distribution.event_shape)
        super().__init__(batch[:cut], event, validate_args=validate_args)

    has_rsample = attribute("base_dist.has_rsample", "As the base.")

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """As the base; not of several numbers."""
        return not self.reinterpreted_batch_ndims and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Constraint:  # type: ignore[override]
        """The base's, of more dims."""
        region, more = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(region, more) if more else region

    mean = attribute("base_dist.mean")
    mode = attribute("base_dist.mode")
    variance = attribute("base_dist.variance")

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    _formulas = Formulas(
        "base_dist",
    )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A number of a component that is drawn first.

    mixture_distribution: Categorical, over the components
    component_distribution: the components along its last batch dim
    """

    arg_constraints: ClassVar = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        _check_mixture(mixture_distribution, component_distribution)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        event = component_distribution.event_shape
        self._num_component = component_distribution.batch_shape[-1]
        self._event_ndims = len(event)
        super().__init__(
            component_distribution.batch_shape[:-1], event, validate_args=validate_args
        )

    @constraints.dependent_property
    def support(self) -> Constraint:  # type: ignore[override]
        """The components' support."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    mixture_distribution = attribute("_mixture_distribution", "The distribution over components.")
    component_distribution = attribute("_component_distribution", "The components.")

    def _weights(self) -> Tensor:
        """The probabilities of the components, with the dims of an event behind."""
        probs = self._mixture_distribution.probs
        return ops.reshape(probs, (*probs.shape, *(1 for _ in self._event_shape)))

    @property
    def mean(self) -> Tensor:
        means = self._component_distribution.mean
        return ops.sum(self._weights() * means, -1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        weights, component = self._weights(), self._component_distribution
        place = -1 - self._event_ndims
        inside = ops.sum(weights * component.variance, place)
        apart = ops.square(component.mean - ops.unsqueeze(self.mean, place))
        return inside + ops.sum(weights * apart, place)

    def _spread(self, x: Tensor) -> Tensor:
        """A value beside each component."""
        return ops.unsqueeze(x, -1 - self._event_ndims)

    def cdf(self, x: Tensor) -> Tensor:
        below = self._component_distribution.cdf(self._spread(x))
        return ops.sum(below * self._mixture_distribution.probs, -1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        density = self._component_distribution.log_prob(self._spread(x))
        weights = ops.log_softmax(self._mixture_distribution.logits, -1)
        return ops.logsumexp(density + weights, -1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            place = -1 - self._event_ndims
            ones = (1 for _ in range(self._event_ndims + 1))
            chosen = ops.reshape(chosen, (*chosen.shape, *ones))
            chosen = ops.expand(chosen, (*chosen.shape[:place], 1, *self._event_shape))
            place += drawn.dim()
            return ops.squeeze(ops.gather(drawn, place, chosen), place)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        copy = self._expanded(batch_shape, _instance, ("_component_distribution",))
        copy._mixture_distribution = self._mixture_distribution.expand(Size(batch_shape))
        return copy

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )


def _check_mixture(mixture: object, component: object) -> None:
    """Raise ArgumentError unless a mixture can be made of these."""
    if not isinstance(mixture, Categorical):
        raise ArgumentError(
            " The Mixture distribution needs to be an instance of torch.distributions.Categorical"
        )
    if not isinstance(component, Distribution):
        raise ArgumentError(
            "The Component distribution need to be an instance of torch.distributions.Distribution"
        )
    if not component.batch_shape:
        raise ArgumentError("The components must lie along a dim of the batch")
    own, others = tuple(mixture.batch_shape), tuple(component.batch_shape[:-1])
    for n, m in zip(reversed(own), reversed(others), strict=False):
        if n != 1 and m != 1 and n != m:
            raise ArgumentError(
                f"`mixture_distribution.batch_shape` ({own}) is not compatible with "
                f"`component_distribution.batch_shape`({others})"
            )
    count, components = mixture._num_events, component.batch_shape[-1]
    if count != components:
        raise ArgumentError(
            f"`mixture_distribution component` ({count}) does not equal "
            f"`component_distribution.batch_shape[-1]` ({components})"
        )


class TransformedDistribution(Distribution):
    """y = f(x) for x of a base distribution, f a transform or a list of such, the first first.

    log p(y) = log p(x) - log |dy / dx|
    """

    __module__ = "wend.distributions.transformed_distribution"

    arg_constraints: ClassVar = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        listed = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(listed, list) or not all(isinstance(t, Transform) for t in listed):
            raise ArgumentError(
                f"transforms must be a Transform or list of Transforms, but was {transforms}"
            )
        self.transforms = listed
        shape = base_distribution.batch_shape + base_distribution.event_shape
        whole = ComposeTransform(self.transforms)
        dims = whole.domain.event_dim
        if len(shape) < dims:
            raise ArgumentError(
                f"base_distribution needs to have shape with size at least {dims}, but got "
                f"{tuple(shape)}."
            )
        forward = whole.forward_shape(shape)
        needed = whole.inverse_shape(forward)
        base_event = len(base_distribution.event_shape)
        if tuple(needed) != tuple(shape):
            base_distribution = base_distribution.expand(Size(needed[: len(needed) - base_event]))
        if dims > base_event:
            base_distribution = Independent(base_distribution, dims - base_event)
        self.base_dist = base_distribution
        out = whole.codomain.event_dim
        cut = len(forward) - max(out, base_event + out - dims)
        super().__init__(forward[:cut], forward[cut:], validate_args=validate_args)

    has_rsample = attribute("base_dist.has_rsample", "As the base.")

    @constraints.dependent_property
    def support(self) -> Constraint:  # type: ignore[override]
        """Where the last transform maps to."""
        if not self.transforms:
            return self.base_dist.support
        region = self.transforms[-1].codomain
        more = len(self.event_shape) - region.event_dim
        return constraints.independent(region, more) if more > 0 else region

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        return self._expanded(batch_shape, _instance, ())

    def _expanded(
        self, batch_shape: Sequence[int], _instance: Distribution | None, names: tuple[str, ...]
    ) -> Any:
        """As of all distributions, with the base expanded to the shape before the transforms."""
        copy = super()._expanded(batch_shape, _instance, names)
        shape: Sequence[int] = Size((*batch_shape, *self.event_shape))
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        cut = len(shape) - len(self.base_dist.event_shape)
        copy.base_dist = self.base_dist.expand(Size(shape[:cut]))
        return copy

    def _mapped(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._mapped(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._mapped(self.base_dist.rsample(sample_shape))

    @in_support
    def log_prob(self, value: Tensor) -> Tensor:
        dims = len(self.event_shape)
        result: Operand = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, y)
            result = result - sum_rightmost(slope, dims - transform.domain.event_dim)
            y = x
        density = self.base_dist.log_prob(y)
        return result + sum_rightmost(density, dims - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """A share of the base as a share of this: 1 - share where the function falls."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._mapped(self.base_dist.icdf(self._monotonize_cdf(value)))


class Folded(TransformedDistribution):
    """Base: |x| of numbers x that are spread alike on both sides of 0."""

    arg_constraints: ClassVar = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    scale = attribute("base_dist.scale", "The width of the spread of x.")
    _formulas = Formulas(
        mode=lambda scale: ops.zeros_like(scale),
        cdf=lambda value, base_dist: 2 * base_dist.cdf(value) - 1,
        entropy=lambda base_dist: base_dist.entropy() - math.log(2),
        # Twice the density of x, and nothing below 0.
        log_prob=lambda value, base_dist: ops.where(
            value >= 0, base_dist.log_prob(value) + math.log(2), -math.inf
        ),
    )

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)
