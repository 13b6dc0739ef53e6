"""Functions around the gamma function and the normal distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wend._engine.core.kinds import Operand, Tensor
from wend._engine.core.op_facts import TorchCall
from wend._engine.core.primitive import ops
from wend._engine.ops.elementwise.family import is_number
from wend._engine.ops.functions import errorfunction, gamma
from wend._engine.ops.numeric import Array
from wend._engine.ops.special.family import HostFunction


def _none(name: str, operand: Any, g: Tensor) -> Any:
    """The gradient of an operand that has none in PyTorch either."""
    if is_number(operand):
        return None
    return ops.no_derivative(g, fault=f"the derivative for '{name}: input' is not implemented.")


class OfParameter(HostFunction, abstract=True):
    """A function of a parameter `input` and a place `other`; the gradient exists for `other`."""

    signature = "input, other"
    domain = ((0.3, 3.0), (0.3, 3.0))

    def draw(self, rng: np.random.Generator, i: int, shape: tuple[int, ...]) -> np.ndarray:
        """As in the family; whole numbers for the parameter, which no gradient is asked of."""
        drawn = super().draw(rng, i, shape)
        return np.ceil(drawn + 1).astype(np.int64) if i == 0 else drawn


class _IncompleteGamma(OfParameter, abstract=True):
    torch = TorchCall(inplace=True)

    def cases(self, a: Array, x: Array, values: Array, at_0: float, at_infinity: float) -> Array:
        """values, and the limits where a number is 0 or infinite; the first case to hold wins."""
        known = [
            ((x < 0) | (a < 0), np.nan),
            ((a == 0) & (x > 0), at_infinity),
            (a == 0, np.nan),
            (x == 0, at_0),
            (np.isinf(a) & np.isinf(x), np.nan),
            (np.isinf(a), at_0),
            (np.isinf(x), at_infinity),
        ]
        limits = np.asarray([limit for _, limit in known], values.dtype)
        return np.select([case for case, _ in known], list(limits), values)


class Igamma(_IncompleteGamma):
    """y = P(input, other), the regularised lower incomplete gamma function. NaN below 0.

    The gradient exists for `other` alone.
    """

    torch = TorchCall(names=("igamma",))

    def reference(self, a: Array, x: Array) -> Array:
        return self.cases(a, x, gamma.gammainc(a, x), 0.0, 1.0)

    def vjp(self, g: Tensor, y: Tensor, a: Tensor, x: Tensor) -> tuple[Any, ...]:
        return _none("igamma", a, g), g * _gamma_density(a, x)


class Igammac(_IncompleteGamma):
    """y = Q(input, other), the regularised upper incomplete gamma function. NaN below 0.

    The gradient exists for `other` alone.
    """

    torch = TorchCall(names=("igammac",))

    def reference(self, a: Array, x: Array) -> Array:
        return self.cases(a, x, gamma.gammaincc(a, x), 1.0, 0.0)

    def vjp(self, g: Tensor, y: Tensor, a: Tensor, x: Tensor) -> tuple[Any, ...]:
        return _none("igammac", a, g), -g * _gamma_density(a, x)


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    return ops.exp(ops.xlogy(a - 1, x) - x - ops.lgamma(a))


class Zeta(OfParameter):
    """y = the sum over k >= 0 of (other + k) ** -input, Hurwitz's zeta function.

    The gradient exists for `other` alone.
    """

    torch = TorchCall(grad_name="SpecialZetaBackward0")
    signature = "input: operand, other: operand"

    def reference(self, x: Array, q: Array) -> Array:
        endless = np.isinf(q) & (q > 0) & (x > 1)
        return np.where(endless, x.dtype.type(np.nan), gamma.zeta(x, q))

    def vjp(self, g: Tensor, y: Tensor, x: Operand, q: Operand) -> tuple[Any, ...]:
        slope = None if is_number(q) else -g * x * ops.zeta(x + 1, q)
        return _none("zeta", x, g), slope


class Ndtri(HostFunction):
    """y with ndtr(y) = input: the quantile of the standard normal distribution."""

    torch = TorchCall(grad_name="SpecialNdtriBackward0")
    domain = (0.05, 0.95)

    def reference(self, x: Array) -> Array:
        return errorfunction.ndtri(x)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (ops.exp(ops.square(y) * 0.5) * math.sqrt(2 * math.pi)),)


class LogNdtr(HostFunction):
    """y = log(ndtr(input)), exact in the lower tail too."""

    torch = TorchCall(grad_name="SpecialLogNdtrBackward0")

    def reference(self, x: Array) -> Array:
        return errorfunction.log_ndtr(x)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g / ops.erfcx(x * -math.sqrt(0.5)) * math.sqrt(2 / math.pi),)


class Erfcx(HostFunction):
    """y = exp(input^2) erfc(input), exact where erfc is near 0."""

    torch = TorchCall(grad_name="SpecialErfcxBackward0")

    def reference(self, x: Array) -> Array:
        return errorfunction.erfcx(x)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (2 * x * y - 2 / math.sqrt(math.pi)),)
