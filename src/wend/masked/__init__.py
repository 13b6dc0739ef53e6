"""torch.masked: reductions and normalizations that leave out the elements where a mask is False.

Elements left out count as the op's identity: 0 in sums, 1 in products, -inf in maxima.
A `MaskedTensor` keeps its mask, and passes the mask on to results.
"""

import importlib
from typing import Any

from wend.masked import dispatch as _dispatch  # noqa: F401 (ops on masked tensors)
from wend.masked import reductions as _reductions
from wend.masked import scans as _scans
from wend.masked.filling import of_masked as _of_masked
from wend.masked.tensor import (
    MaskedTensor,
    as_masked_tensor,
    is_masked_tensor,
    masked_tensor,
)

amax = _of_masked(_reductions.amax)
amin = _of_masked(_reductions.amin)
argmax = _of_masked(_reductions.argmax)
argmin = _of_masked(_reductions.argmin)
logsumexp = _of_masked(_reductions.logsumexp)
mean = _of_masked(_reductions.mean)
median = _of_masked(_reductions.median)
norm = _of_masked(_reductions.norm)
prod = _of_masked(_reductions.prod)
std = _of_masked(_reductions.std)
sum = _of_masked(_reductions.sum)
var = _of_masked(_reductions.var)
cumprod = _of_masked(_scans.cumprod)
cumsum = _of_masked(_scans.cumsum)
log_softmax = _of_masked(_scans.log_softmax)
logaddexp = _scans.logaddexp
normalize = _of_masked(_scans.normalize)
softmax = _of_masked(_scans.softmax)
softmin = _of_masked(_scans.softmin)

__all__ = [
    "MaskedTensor",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "as_masked_tensor",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "masked_tensor",
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


def __getattr__(name: str) -> Any:
    if name == "maskedtensor":  # the package stands upon this package's modules
        return importlib.import_module("wend.masked.maskedtensor")
    raise AttributeError(f"module 'torch.masked' has no attribute {name!r}")
