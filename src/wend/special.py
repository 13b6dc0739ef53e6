"""torch.special: special functions, as far as they are elementary or of few kinds."""

from wend.core.primitive import PUBLIC as _PUBLIC
from wend.core.primitive import ops as _ops

digamma = _ops.digamma
entr = _ops.entr
erf = _ops.erf
erfc = _ops.erfc
erfinv = _ops.erfinv
exp2 = _ops.exp2
expit = _ops.sigmoid
expm1 = _ops.expm1
gammaln = _ops.lgamma
i0 = _ops.i0
i0e = _ops.i0e
i1 = _ops.i1
i1e = _ops.i1e
log1p = _ops.log1p
log_softmax = _ops.log_softmax
logit = _ops.logit
logsumexp = _ops.logsumexp
modified_bessel_i0 = _ops.i0
modified_bessel_i1 = _ops.i1
multigammaln = _ops.mvlgamma
ndtr = _ops.ndtr
polygamma = _ops.polygamma
psi = _ops.digamma
sinc = _ops.sinc
softmax = _ops.softmax
xlog1py = _ops.xlog1py
xlogy = _ops.xlogy
round = _PUBLIC["round"]

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "multigammaln",
    "ndtr",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
]
