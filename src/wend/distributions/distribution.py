"""`Distribution`: the common part of all distributions."""

from __future__ import annotations

from typing import Any, ClassVar

from wend.base.errors import ArgumentError
from wend.base.shapes import Size
from wend.core._hot import Tensor
from wend.core.primitive import ops
from wend.distributions.constraints import Constraint
from wend.frontend.autograd.backward import no_grad
from wend.frontend.creation import tensor

__all__ = ["Distribution", "ExponentialFamily", "broadcast_all"]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of equal shape; numbers take the tensors' dtype."""
    given = [v for v in values if isinstance(v, Tensor)]
    dtype = given[0].dtype if given else None
    made = [v if isinstance(v, Tensor) else tensor(float(v), dtype=dtype) for v in values]
    return tuple(ops.broadcast_tensors(*made))


class Distribution:
    """The base class: batches of distributions over events.

    batch_shape: independent distributions   event_shape: the dims of a sample of each
    validate_args: check parameters and values (by default as `set_default_validate_args` says)
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    support: Any = None
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check arguments, unless told otherwise."""
        if value not in (True, False):
            raise ArgumentError(f"set_default_validate_args: expected a bool, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = (),
        event_shape: Any = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            # A parameter that follows from another is computed when asked for.
            if name not in self.__dict__:
                continue
            value = self.__dict__[name]
            if not bool(ops.all(constraint.check(value))):
                raise ArgumentError(
                    f"{type(self).__name__}: expected parameter {name} of shape "
                    f"{tuple(value.shape)} to satisfy the constraint {constraint!r}, but found "
                    f"invalid values:\n{value}"
                )

    def _validate_sample(self, value: Any) -> None:
        """Raise ArgumentError (a ValueError) for a value outside of the support."""
        if not isinstance(value, Tensor):
            raise ArgumentError("The value argument to log_prob must be a Tensor")
        shape = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(shape), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ArgumentError(
                    f"{type(self).__name__}: value of shape {tuple(value.shape)} does not "
                    f"broadcast with batch_shape + event_shape {tuple(shape)}"
                )
        if self.support is not None and not bool(ops.all(self.support.check(value))):
            raise ArgumentError(
                f"{type(self).__name__}: expected value of shape {tuple(value.shape)} to be "
                f"within the support {self.support!r}, but found invalid values:\n{value}"
            )

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of a sample of each distribution."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean of each distribution."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most likely value of each distribution."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance of each distribution."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation of each distribution."""
        return ops.sqrt(self.variance)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples of shape sample_shape + batch_shape + event_shape, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples that are functions of the parameters, so that gradients flow there."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """n samples; use sample((n,))."""
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density (or probability) at `value`."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of being at most `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The value below which the probability mass `value` lies."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy of each distribution, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return ops.exp(self.entropy())

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a first dim."""
        raise NotImplementedError

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """The distribution with the parameters expanded to `batch_shape`."""
        raise NotImplementedError

    def _expanded(self, names: tuple[str, ...], batch_shape: Any, last: Any = ()) -> Any:
        """A copy whose parameters of those names, where given, are expanded."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        for name in names:
            if name in self.__dict__:
                made.__dict__[name] = ops.expand(self.__dict__[name], (*batch_shape, *last))
        made._batch_shape = Size(batch_shape)
        return made

    def __repr__(self) -> str:
        parts = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                shown = value if value.numel() == 1 else value.size()
                parts.append(f"{name}: {shown}")
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """Distributions whose density is exp(natural parameters . statistics - log normalizer)."""
