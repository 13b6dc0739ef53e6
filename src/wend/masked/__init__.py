"""torch.masked: reductions and normalizations that leave out the elements where a mask is False.

Elements left out count as the op's identity: 0 in sums, 1 in products, -inf in maxima. The tensor
class of `torch.masked`, a prototype, is not available.
"""

from wend.masked.reductions import (
    amax,
    amin,
    argmax,
    argmin,
    logsumexp,
    mean,
    median,
    norm,
    prod,
    std,
    sum,  # noqa: A004
    var,
)
from wend.masked.scans import (
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    normalize,
    softmax,
    softmin,
)

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
