"""torch.special: special functions; of Bessel's and the polynomials, none so far."""

from wend.core.primitive import PUBLIC as _PUBLIC
from wend.core.primitive import ops as _ops

digamma = _ops.digamma
erf = _ops.erf
erfc = _ops.erfc
erfinv = _ops.erfinv
exp2 = _ops.exp2
expit = _ops.sigmoid
expm1 = _ops.expm1
gammaln = _ops.lgamma
log1p = _ops.log1p
log_softmax = _ops.log_softmax
logit = _ops.logit
logsumexp = _ops.logsumexp
polygamma = _ops.polygamma
psi = _ops.digamma
sinc = _ops.sinc
softmax = _ops.softmax
xlogy = _ops.xlogy
round = _PUBLIC["round"]

__all__ = [
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "log1p",
    "log_softmax",
    "logit",
    "logsumexp",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlogy",
]
