"""Formulas in the bodies of classes, so that a distribution states its mathematics.

    class Exponential(Distribution):
        mean = fact(lambda rate: 1 / rate)
        log_prob = in_support(lambda value, rate: ops.log(rate) - rate * value)
        expand = expanding("rate")

The parameters of a formula are attributes of the object: `rate` is `self.rate`. A parameter
`self` is the object, and `value` the argument of a method.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from types import FunctionType
from typing import Any

from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.autograd.backward import no_grad
from wend._frontend.random import rand, randn

__all__ = [
    "at_value",
    "attribute",
    "drawn",
    "expanding",
    "fact",
    "from_normal",
    "from_uniform",
    "in_support",
    "of_parameters",
]

Formula = Callable[..., Any]


class _Member:
    """A function, or the getter of a property, that a class gets under the name in its body."""

    def __init__(self, function: Any, kind: type[property] | None = None) -> None:
        self.function, self.kind = function, kind

    def __set_name__(self, owner: type, name: str) -> None:
        of = self.function
        # A copy, as if defined in the class: a formula may have several names there.
        own = FunctionType(of.__code__, of.__globals__, name, of.__defaults__, of.__closure__)
        own.__qualname__, own.__module__ = f"{owner.__qualname__}.{name}", owner.__module__
        own.__annotations__ = {k: v for k, v in of.__annotations__.items() if k != "self"}
        own.__doc__ = of.__doc__
        if self.kind is None:
            setattr(owner, name, own)
            return
        fact = self.kind(own)
        fact.__set_name__(owner, name)  # type: ignore[attr-defined]
        setattr(owner, name, fact)


def _names(formula: Any) -> tuple[str, ...]:
    code = formula.__code__
    return tuple(code.co_varnames[: code.co_argcount])


def _result(formula: Formula, names: tuple[str, ...], self: Any, value: Any = None) -> Any:
    own = {"self": self, "value": value}
    return formula(*[own[name] if name in own else getattr(self, name) for name in names])


def fact(formula: Formula) -> property:
    """A property: `mean = fact(lambda low, high: (low + high) / 2)`."""
    names = _names(formula)

    def compute(self: Any) -> Tensor:
        return _result(formula, names, self)

    return _Member(compute, property)  # type: ignore[return-value]


def attribute(path: str, doc: str | None = None) -> property:
    """A property with the value of an attribute of a part, as "base_dist.loc"."""
    get = attrgetter(path)

    def compute(self: Any) -> Any:
        return get(self)

    compute.__doc__ = doc
    return _Member(compute, property)  # type: ignore[return-value]


def of_parameters(formula: Formula) -> Callable[[Any], Tensor]:
    """A method without arguments: `entropy = of_parameters(lambda rate: 1 - ops.log(rate))`."""
    names = _names(formula)

    def compute(self: Any) -> Tensor:
        return _result(formula, names, self)

    return _Member(compute)  # type: ignore[return-value]


def at_value(formula: Formula) -> Callable[[Any, Tensor], Tensor]:
    """A method of a tensor: `icdf = at_value(lambda value, rate: -ops.log1p(-value) / rate)`."""
    names = _names(formula)

    def compute(self: Any, value: Tensor) -> Tensor:
        return _result(formula, names, self, value)

    return _Member(compute)  # type: ignore[return-value]


def in_support(formula: Formula) -> Callable[[Any, Tensor], Tensor]:
    """As `at_value`; a distribution that checks arguments checks the value.

    The method raises ArgumentError (a ValueError) for a value outside of the support.
    """
    names = _names(formula)

    def compute(self: Any, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _result(formula, names, self, value)

    compute.__doc__ = formula.__doc__
    return _Member(compute)  # type: ignore[return-value]


# -- samples ---------------------------------------------------------------------------------------


def _from_noise(draw: Callable[..., Tensor], formula: Formula) -> Callable[..., Tensor]:
    """`rsample` of numbers in the shape of the samples and the type of the first parameter."""
    _, *names = _names(formula)

    def compute(self: Any, sample_shape: Any = ()) -> Tensor:
        parameters = [getattr(self, name) for name in names]
        shape = tuple(self._extended_shape(sample_shape))
        return formula(draw(shape, dtype=parameters[0].dtype), *parameters)

    return _Member(compute)  # type: ignore[return-value]


def from_uniform(formula: Formula) -> Callable[..., Tensor]:
    """`rsample` from numbers in [0, 1), the formula's first parameter."""
    return _from_noise(rand, formula)


def from_normal(formula: Formula) -> Callable[..., Tensor]:
    """`rsample` from normal numbers, the formula's first parameter."""
    return _from_noise(randn, formula)


def drawn(formula: Formula) -> Callable[..., Tensor]:
    """`sample` without gradients, from parameters in the shape of the samples."""
    names = _names(formula)

    def compute(self: Any, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return formula(*[ops.expand(getattr(self, name), shape) for name in names])

    return _Member(compute)  # type: ignore[return-value]


def expanding(*names: str) -> Callable[..., Any]:
    """`expand` of parameters and parts of these names, all else being as it was."""

    def expand(self: Any, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, names)

    return _Member(expand)  # type: ignore[return-value]
