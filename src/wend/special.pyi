# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"

import builtins as _builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, SupportsIndex, TypeAlias, TypeVar
from typing import overload

from wend._engine.base.devices import device as _device
from wend._engine.base.dtypes import DType
from wend._engine.core._hot import Tensor as Tensor

_bool: TypeAlias = _builtins.bool
_int: TypeAlias = _builtins.int
_float: TypeAlias = _builtins.float
_complex: TypeAlias = _builtins.complex
_str: TypeAlias = _builtins.str
_bytes: TypeAlias = _builtins.bytes
_dtype: TypeAlias = DType
_Number: TypeAlias = _builtins.bool | _builtins.int | _builtins.float | _builtins.complex

import numpy as _numpy
from wend._frontend.autograd.nodes import Node as _Node
from wend._frontend.linalg.named_results import CholeskyInfo as _CholeskyInfo
from wend._frontend.linalg.named_results import LuFactors as _LuFactors
from wend._frontend.linalg.named_results import LuFactorsInfo as _LuFactorsInfo
from wend._frontend.linalg.named_results import LuParts as _LuParts
from wend._frontend.linalg.named_results import LdlFactors as _LdlFactors
from wend._frontend.linalg.named_results import LdlFactorsInfo as _LdlFactorsInfo
from wend._frontend.linalg.named_results import QrParts as _QrParts
from wend._frontend.linalg.named_results import Eigensystem as _Eigensystem
from wend._frontend.linalg.named_results import SvdParts as _SvdParts
from wend._frontend.linalg.named_results import FormerSvdParts as _FormerSvdParts
from wend._frontend.linalg.named_results import SignAndLog as _SignAndLog
from wend._frontend.linalg.named_results import InverseInfo as _InverseInfo
from wend._frontend.linalg.named_results import SolveInfo as _SolveInfo
from wend._frontend.linalg.named_results import TriangularSolution as _TriangularSolution
from wend._frontend.linalg.named_results import LeastSquares as _LeastSquares
from wend._frontend.formats import layout as _layout, memory_format as _memory_format
from wend._frontend.random import Generator as _Generator
from wend._frontend.removable import RemovableHandle as _RemovableHandle
from wend._frontend.storage import TypedStorage as _TypedStorage
from wend._frontend.storage import UntypedStorage as _UntypedStorage

_Array: TypeAlias = _numpy.ndarray[Any, Any]
_Index: TypeAlias = (
    None | SupportsIndex | slice | EllipsisType | Tensor | _builtins.list[Any] | range
)

def airy_ai(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = Ai(input), the solution of y'' = x y that falls for positive x; NaN of infinity."""
def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = J0(input), the Bessel function of the first kind of order 0."""
def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = J1(input), the Bessel function of the first kind of order 1."""
def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = Y0(input), the Bessel function of the second kind of order 0."""
def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = Y1(input), the Bessel function of the second kind of order 1."""
def chebyshev_polynomial_t(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = T_n(input), Chebyshev's polynomial of the first kind: cos(n t) at cos t."""
def chebyshev_polynomial_u(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = U_n(input), Chebyshev's polynomial of the second kind: sin((n + 1) t) / sin t."""
def chebyshev_polynomial_v(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = V_n(input), Chebyshev's polynomial of the third kind: cos((n + 1/2) t) / cos(t / 2)."""
def chebyshev_polynomial_w(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = W_n(input), Chebyshev's polynomial of the fourth kind: sin((n + 1/2) t) / sin(t / 2)."""
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the derivative of lgamma at input."""
def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = -input log(input); 0 at 0, -inf below."""
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 2 / sqrt(pi) * the integral of exp(-t^2) from 0 to input."""
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1 - erf(input), exact where erf is near 1."""
def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = exp(input^2) erfc(input), exact where erfc is near 0."""
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y with erf(y) = input; NaN outside [-1, 1]."""
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 2 ** input."""
def expit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = 1 / (1 + exp(-input))."""
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = e ** input - 1, exact near 0."""
def gammainc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = P(input, other), the regularised lower incomplete gamma function. NaN below 0."""
def gammaincc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = Q(input, other), the regularised upper incomplete gamma function. NaN below 0."""
def gammaln(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = log |gamma(input)|."""
def hermite_polynomial_h(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = H_n(input), Hermite's polynomial of the physicists."""
def hermite_polynomial_he(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = He_n(input), Hermite's polynomial of probability theory."""
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = I0(input), the modified Bessel function of order 0."""
def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = exp(-|input|) I0(input), I0 the modified Bessel function of order 0."""
def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = I1(input), the modified Bessel function of order 1."""
def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = exp(-|input|) I1(input), I1 the modified Bessel function of order 1."""
def laguerre_polynomial_l(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = L_n(input), Laguerre's polynomial."""
def legendre_polynomial_p(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = P_n(input), Legendre's polynomial."""
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = log(1 + input), exact near 0."""
def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = log(ndtr(input)), exact in the lower tail too."""
def log_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = x - log of the sum of exp(x) along dim: log(softmax(x)), without overflow."""
def logit(input: Tensor, eps: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = log(input / (1 - input)); input is clamped to [eps, 1 - eps] first if eps is given."""
def logsumexp(input: Tensor, dim: Sequence[_int] | _int | None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """y = log(sum of exp(x) over `dim`), without overflow; -inf over nothing."""
def modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = I0(input), the modified Bessel function of order 0."""
def modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = I1(input), the modified Bessel function of order 1."""
def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = K0(input), the modified Bessel function of the second kind of order 0."""
def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = K1(input), the modified Bessel function of the second kind of order 1."""
def multigammaln(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """y = the logarithm of the multivariate gamma function of dimension p >= 1."""
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the normal distribution's function: (1 + erf(input / sqrt(2))) / 2."""
def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y with ndtr(y) = input: the quantile of the standard normal distribution."""
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the n-th derivative of digamma at input, n >= 0."""
def psi(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the derivative of lgamma at input."""
@overload
def round(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = the nearest integer, halves to the even integer."""
@overload
def round(input: Tensor, *, decimals: _int, out: Tensor | None = None) -> Tensor:
    """y = the nearest integer, halves to the even integer."""
def scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = exp(input) K0(input)."""
def scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = exp(input) K1(input)."""
def shifted_chebyshev_polynomial_t(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = T_n(2 input - 1)."""
def shifted_chebyshev_polynomial_u(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = U_n(2 input - 1)."""
def shifted_chebyshev_polynomial_v(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = V_n(2 input - 1)."""
def shifted_chebyshev_polynomial_w(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = W_n(2 input - 1)."""
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sin(pi input) / (pi input), 1 at 0."""
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """y = exp(x) / sum of exp(x) along dim."""
def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = sin(input) / input; 1 at 0, 0 at infinity."""
def xlog1py(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input * log1p(other); 0 where input is 0, unless other is NaN."""
def xlogy(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = input * log(other); 0 where input is 0, unless other is NaN."""
def zeta(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """y = the sum over k >= 0 of (other + k) ** -input, Hurwitz's zeta function."""
