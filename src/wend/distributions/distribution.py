"""`Distribution`: the common part of all distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from wend._engine.base.errors import ArgumentError
from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend._frontend.autograd.backward import enable_grad, grad, no_grad
from wend.distributions.constraints import is_dependent
from wend.distributions.utils import lazy_property, sum_rightmost

__all__ = ["Distribution", "ExponentialFamily"]


class Distribution:
    """The base class: batches of distributions over events.

    batch_shape: independent distributions   event_shape: the dims of a sample of each
    validate_args: check parameters and values (by default as `set_default_validate_args` says)
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    arg_constraints: ClassVar[Any] = {}  # a property of some classes
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
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        checks = []
        for name, constraint in self.arg_constraints.items():
            if is_dependent(constraint):
                continue
            # A parameter that follows from another is computed when asked for.
            if name not in self.__dict__ and isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue
            value = getattr(self, name)
            checks.append((name, constraint, value, ops.all(constraint.check(value))))
        if not checks:
            return
        whole = checks[0][-1]
        for *_, fits in checks[1:]:
            whole = whole & fits
        # A single value is waited for, unless some parameter does not fit.
        if bool(whole):
            return
        for name, constraint, value, fits in checks:
            if not bool(fits):
                raise ArgumentError(
                    f"{type(self).__name__}: expected parameter {name} of shape "
                    f"{tuple(value.shape)} to satisfy the constraint {constraint!r}, but found "
                    f"invalid values:\n{value}"
                )

    def _validate_sample(self, value: object) -> None:
        """Raise ArgumentError (a ValueError) for a value outside of the support."""
        if not isinstance(value, Tensor):
            raise ArgumentError("The value argument to log_prob must be a Tensor")
        event_dim_start = len(value.shape) - len(self._event_shape)
        if tuple(value.shape[event_dim_start:]) != tuple(self._event_shape):
            raise ArgumentError(
                f"{type(self).__name__}: The right-most size of value must match event_shape: "
                f"{tuple(value.shape)} vs {tuple(self._event_shape)}."
            )
        shape = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(shape), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ArgumentError(
                    f"{type(self).__name__}: value of shape {tuple(value.shape)} does not "
                    f"broadcast with batch_shape + event_shape {tuple(shape)}"
                )
        support = self.support
        if support is not None and not bool(ops.all(support.check(value))):
            raise ArgumentError(
                f"{type(self).__name__}: expected value of shape {tuple(value.shape)} to be "
                f"within the support {support!r}, but found invalid values:\n{value}"
            )

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
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

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples of shape sample_shape + batch_shape + event_shape, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
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

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        """The distribution with the parameters expanded to `batch_shape`.

        _instance: a new object of a subclass, made without its __init__, that is filled
        """
        raise NotImplementedError

    def _get_checked_instance(self, cls: type, _instance: Distribution | None = None) -> Any:
        """The object to fill: as given, or new.

        Raises NotImplementedError for a subclass of `cls` with its own __init__.
        """
        if _instance is not None:
            return _instance
        if type(self).__init__ != cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return self.__new__(type(self))

    def _expanded(
        self, batch_shape: Sequence[int], _instance: Distribution | None, names: tuple[str, ...]
    ) -> Any:
        """A copy whose tensors and distributions of these names are expanded to a batch shape.

        Their further dims stay. Names without a value are left out, other lazy properties dropped.
        """
        copy = object.__new__(type(self)) if _instance is None else _instance
        space = copy.__dict__
        for name, value in self.__dict__.items():
            if name not in space and not isinstance(getattr(type(self), name, None), lazy_property):
                space[name] = value
        dims = len(self._batch_shape)
        for name in names:
            own: Any = self.__dict__.get(name)
            if hasattr(own, "batch_shape"):
                space[name] = own.expand(Size((*batch_shape, *own.batch_shape[dims:])))
            elif own is not None:
                space[name] = ops.expand(own, (*batch_shape, *own.shape[dims:]))
        copy._batch_shape = Size(batch_shape)
        copy._event_shape = self._event_shape
        return copy

    def __repr__(self) -> str:
        parts = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                shown = value if value.numel() == 1 else value.size()
                parts.append(f"{name}: {shown}")
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """Distributions whose density is exp(natural parameters . statistics - log normalizer).

    A member that names its natural parameters and log normalizer has entropies and divergences
    from those: Nielsen, Nock: Entropies and cross-entropies of exponential families (2010).
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """The natural parameters."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """The logarithm of the factor that makes the density integrate to 1."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Operand:
        """The mean of the further terms of the density's logarithm, for the entropy."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """By the gradient of the log normalizer, which is the mean of the statistics."""
        return -self._mean_carrier_measure + self._cross_entropy(self)

    def _cross_entropy(self, q: ExponentialFamily) -> Tensor:
        """The mean under this of minus log of q's density, without carriers."""
        natural_params = self._natural_params
        with enable_grad():
            own = [p if p.requires_grad else p.detach().requires_grad_() for p in natural_params]
            means = grad(ops.sum(self._log_normalizer(*own)), own, create_graph=True)
        if not any(p.requires_grad for p in natural_params):
            means = [m.detach() for m in means]
        params = q._natural_params
        result = q._log_normalizer(*params)
        for param, mean in zip(params, means, strict=True):
            term = param * mean
            result = result - sum_rightmost(term, term.dim() - len(self._batch_shape))
        return result
