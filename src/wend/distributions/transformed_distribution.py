"""The distribution of a function of random numbers."""

from __future__ import annotations

from typing import Any, ClassVar

from wend._engine.base.errors import ArgumentError
from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend._frontend.autograd.backward import no_grad
from wend.distributions import constraints
from wend.distributions.distribution import Distribution
from wend.distributions.independent import Independent
from wend.distributions.transforms import ComposeTransform, Transform
from wend.distributions.utils import sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """y = f(x) for x of a base distribution, f a transform or a list of such, the first first.

    log p(y) = log p(x) - log |dy / dx|
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
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

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As the base."""
        return bool(self.base_dist.has_rsample)

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        """Where the last transform maps to."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self.event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 else found

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._grown(batch_shape, _instance)

    def _grown(self, batch_shape: Any, _instance: Any = None, **tails: Any) -> Any:
        """A copy whose base, and parameters of these names, are expanded."""
        made = self._expanded(batch_shape, _instance, **tails)
        shape: Any = Size((*batch_shape, *self.event_shape))
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        cut = len(shape) - len(self.base_dist.event_shape)
        made.base_dist = self.base_dist.expand(Size(shape[:cut]))
        return made

    def _mapped(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self._mapped(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._mapped(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        dims = len(self.event_shape)
        result: Any = 0.0
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
