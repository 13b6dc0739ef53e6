"""torch.special: special functions."""

from wend._engine.core.primitive import PUBLIC as _PUBLIC
from wend._engine.core.primitive import ops as _ops

airy_ai = _ops.airy_ai
bessel_j0 = _ops.bessel_j0
bessel_j1 = _ops.bessel_j1
bessel_y0 = _ops.bessel_y0
bessel_y1 = _ops.bessel_y1
chebyshev_polynomial_t = _ops.chebyshev_polynomial_t
chebyshev_polynomial_u = _ops.chebyshev_polynomial_u
chebyshev_polynomial_v = _ops.chebyshev_polynomial_v
chebyshev_polynomial_w = _ops.chebyshev_polynomial_w
digamma = _ops.digamma
entr = _ops.entr
erf = _ops.erf
erfc = _ops.erfc
erfcx = _ops.erfcx
erfinv = _ops.erfinv
exp2 = _ops.exp2
expit = _ops.sigmoid
expm1 = _ops.expm1
gammainc = _ops.igamma
gammaincc = _ops.igammac
gammaln = _ops.lgamma
hermite_polynomial_h = _ops.hermite_polynomial_h
hermite_polynomial_he = _ops.hermite_polynomial_he
i0 = _ops.i0
i0e = _ops.i0e
i1 = _ops.i1
i1e = _ops.i1e
laguerre_polynomial_l = _ops.laguerre_polynomial_l
legendre_polynomial_p = _ops.legendre_polynomial_p
log1p = _ops.log1p
log_ndtr = _ops.log_ndtr
log_softmax = _ops.log_softmax
logit = _ops.logit
logsumexp = _ops.logsumexp
modified_bessel_i0 = _ops.i0
modified_bessel_i1 = _ops.i1
modified_bessel_k0 = _ops.modified_bessel_k0
modified_bessel_k1 = _ops.modified_bessel_k1
multigammaln = _ops.mvlgamma
ndtr = _ops.ndtr
ndtri = _ops.ndtri
polygamma = _ops.polygamma
psi = _ops.digamma
round = _PUBLIC["round"]
scaled_modified_bessel_k0 = _ops.scaled_modified_bessel_k0
scaled_modified_bessel_k1 = _ops.scaled_modified_bessel_k1
shifted_chebyshev_polynomial_t = _ops.shifted_chebyshev_polynomial_t
shifted_chebyshev_polynomial_u = _ops.shifted_chebyshev_polynomial_u
shifted_chebyshev_polynomial_v = _ops.shifted_chebyshev_polynomial_v
shifted_chebyshev_polynomial_w = _ops.shifted_chebyshev_polynomial_w
sinc = _ops.sinc
softmax = _ops.softmax
spherical_bessel_j0 = _ops.spherical_bessel_j0
xlog1py = _ops.xlog1py
xlogy = _ops.xlogy
zeta = _ops.zeta

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]
