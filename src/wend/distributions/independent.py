"""Distributions made of distributions: dims of the batch as dims of the event, and mixtures."""

from __future__ import annotations

from typing import Any, ClassVar

from wend._engine.base.errors import ArgumentError
from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.autograd.backward import no_grad
from wend.distributions import constraints
from wend.distributions.categorical import Categorical
from wend.distributions.distribution import Distribution
from wend.distributions.utils import sum_rightmost

__all__ = ["Independent", "MixtureSameFamily"]


class Independent(Distribution):
    """A distribution whose last batch dims count as dims of the event: their densities multiply."""

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        base_distribution: Any,
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

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As the base."""
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """As the base; not of several numbers."""
        return not self.reinterpreted_batch_ndims and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        """The base's, of more dims."""
        found = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            found = constraints.independent(found, self.reinterpreted_batch_ndims)
        return found

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance)
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        made.base_dist = self.base_dist.expand(Size((*batch_shape, *inner)))
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A number of a component that is drawn first.

    mixture_distribution: Categorical, over the components
    component_distribution: the components along its last batch dim
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
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
    def support(self) -> Any:  # type: ignore[override]
        """The components' support."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The distribution over components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

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

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            place = -1 - self._event_ndims
            ones = (1 for _ in range(self._event_ndims + 1))
            chosen = ops.reshape(chosen, (*chosen.shape, *ones))
            chosen = ops.expand(chosen, (*chosen.shape[:place], 1, *self._event_shape))
            place += drawn.dim()
            return ops.squeeze(ops.gather(drawn, place, chosen), place)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance)
        wide = Size((*batch_shape, self._num_component))
        made._component_distribution = self._component_distribution.expand(wide)
        made._mixture_distribution = self._mixture_distribution.expand(Size(batch_shape))
        return made

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )


def _check_mixture(mixture: Any, component: Any) -> None:
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
