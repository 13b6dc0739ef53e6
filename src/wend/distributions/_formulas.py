"""Formulas of distributions, as a class states them: parameters, moments, densities, samples.

    class Exponential(Distribution):
        _formulas = Formulas(
            "rate",
            mean=lambda rate: 1 / rate,
            log_prob=lambda value, rate: ops.log(rate) - rate * value,
            rsample=lambda unit, rate: -ops.log1p(-unit) / rate,
        )

The parameters of a formula are attributes of the distribution: `rate` is `self.rate`. A parameter
`self` is the distribution, and `value` the argument of the method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from operator import attrgetter
from typing import Any, TypeVar

from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.autograd.backward import no_grad
from wend._frontend.random import rand, randn

__all__ = ["Formulas", "attribute", "in_support"]

Formula = Callable[..., Any]
Method = TypeVar("Method", bound=Callable[..., Tensor])


def _names(formula: Formula) -> tuple[str, ...]:
    code = formula.__code__
    return tuple(code.co_varnames[: code.co_argcount])


def _result(formula: Formula, names: tuple[str, ...], self: Any, value: Any = None) -> Any:
    own = {"self": self, "value": value}
    return formula(*[own[name] if name in own else getattr(self, name) for name in names])


def _of_parameters(formula: Formula) -> Callable[..., Any]:
    """A method without arguments, or the getter of a property."""
    names = _names(formula)

    def compute(self: Any) -> Tensor:
        return _result(formula, names, self)

    return compute


def _of_value(formula: Formula) -> Callable[..., Tensor]:
    """A method of a tensor."""
    names = _names(formula)

    def compute(self: Any, value: Tensor) -> Tensor:
        return _result(formula, names, self, value)

    return compute


def _of_checked_value(formula: Formula) -> Callable[..., Tensor]:
    """A method of a tensor that lies in the support, if the distribution checks arguments."""
    names = _names(formula)

    def compute(self: Any, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _result(formula, names, self, value)

    return compute


def _from_noise(formula: Formula) -> Callable[..., Tensor]:
    """Samples by numbers in [0, 1), `unit`, or normal numbers, `noise`: the first parameter.

    The numbers have the type of the second parameter.
    """
    first, *names = _names(formula)
    draw = {"unit": rand, "noise": randn}[first]

    def compute(self: Any, sample_shape: Sequence[int] = ()) -> Tensor:
        parameters = [getattr(self, name) for name in names]
        shape = tuple(self._extended_shape(sample_shape))
        return formula(
            draw(shape, dtype=parameters[0].dtype, device=parameters[0].device), *parameters
        )

    return compute


def _drawn(formula: Formula) -> Callable[..., Tensor]:
    """Samples without gradients, from parameters in the shape of the samples."""
    names = _names(formula)

    def compute(self: Any, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return formula(*[ops.expand(getattr(self, name), shape) for name in names])

    return compute


def _expanding(names: tuple[str, ...]) -> Callable[..., Any]:
    """`expand` of parameters and parts of these names, all else being as it was."""

    def expand(self: Any, batch_shape: Sequence[int], _instance: object = None) -> Any:
        return self._expanded(batch_shape, _instance, names)

    return expand


#: How a formula becomes a member, by the member's name; a property, if by no other name.
_KINDS: dict[str, Callable[[Formula], Any]] = {
    "cdf": _of_checked_value,
    "entropy": _of_parameters,
    "icdf": _of_value,
    "log_prob": _of_checked_value,
    "rsample": _from_noise,
    "sample": _drawn,
}


def _install(
    owner: type, name: str, function: Callable[..., Any], kind: type[property] | None = None
) -> None:
    """Make a function, or a property of it, a member of a class, as if defined there."""
    function.__name__, function.__qualname__ = name, f"{owner.__qualname__}.{name}"
    function.__module__ = owner.__module__
    function.__annotations__.pop("self", None)
    member: Any = function if kind is None else kind(function)
    if kind is not None:
        member.__set_name__(owner, name)
    setattr(owner, name, member)


class Formulas:
    """Members of a class of distributions: `expand` of the parameters, and formulas by name.

    mean, mode, variance, stddev: properties   entropy: a method
    log_prob, cdf: of a value that is checked to lie in the support   icdf: of any value
    rsample: of numbers `unit` in [0, 1) or normal numbers `noise`   sample: of the parameters
    """

    def __init__(self, parameters: str = "", **formulas: Formula) -> None:
        self.parameters, self.formulas = tuple(parameters.split()), formulas

    def __set_name__(self, owner: type, name: str) -> None:
        delattr(owner, name)
        if self.parameters:
            _install(owner, "expand", _expanding(self.parameters))
        for member, formula in self.formulas.items():
            if member == "_log_normalizer":
                setattr(owner, member, staticmethod(formula))
            elif member in _KINDS:
                _install(owner, member, _KINDS[member](formula))
            else:
                _install(owner, member, _of_parameters(formula), property)


class _Attribute:
    def __init__(self, path: str, doc: str | None) -> None:
        self.get, self.doc = attrgetter(path), doc

    def __set_name__(self, owner: type, name: str) -> None:
        get = self.get

        def compute(self: Any) -> Any:
            return get(self)

        compute.__doc__ = self.doc
        _install(owner, name, compute, property)


def attribute(path: str, doc: str | None = None) -> property:
    """A property with the value of an attribute of a part, as "base_dist.loc"."""
    return _Attribute(path, doc)  # type: ignore[return-value]


def in_support(method: Method) -> Method:
    """Decorate a method of a value, which is checked if the distribution checks arguments.

    The method raises ArgumentError (a ValueError) for a value outside of the support.
    """

    def compute(self: Any, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return method(self, value)

    return update_wrapper(compute, method)  # type: ignore[return-value]
