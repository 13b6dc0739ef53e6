# ruff: noqa: F403
"""torch.masked: reductions and normalizations that leave out the elements where a mask is False.

Elements left out count as the op's identity: 0 in sums, 1 in products, -inf in maxima.
A `MaskedTensor` keeps its mask, and passes the mask on to results.
"""

import importlib
from typing import Any

from wend.masked import reductions, scans, tensor
from wend.masked import table as table  # ops on masked tensors
from wend.masked.reductions import *
from wend.masked.scans import *
from wend.masked.tensor import *

__all__: list[str] = []
__all__ += tensor.__all__
__all__ += reductions.__all__
__all__ += scans.__all__


def __getattr__(name: str) -> Any:
    if name == "maskedtensor":  # the package stands upon this package's modules
        return importlib.import_module("wend.masked.maskedtensor")
    raise AttributeError(f"module 'torch.masked' has no attribute {name!r}")
