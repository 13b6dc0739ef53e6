# ruff: noqa: F403
"""`torch.nn.functional`: layers as functions.

Most are the ops themselves: an op lists its names here in `functional`. The functions of this
package's modules only sort arguments, or need several ops.
"""

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from wend._frontend.toolkit import FUNCTIONAL as _FUNCTIONAL
from wend._frontend.toolkit import ops as _ops
from wend.nn.functional.activation import *
from wend.nn.functional.attention import *
from wend.nn.functional.ctc import *
from wend.nn.functional.distance import *
from wend.nn.functional.dropout import *
from wend.nn.functional.embedding import *
from wend.nn.functional.loss import *
from wend.nn.functional.normalization import *
from wend.nn.functional.padding import *
from wend.nn.functional.pooling import *
from wend.nn.functional.sampling import *
from wend.nn.functional.sequences import *
from wend.nn.functional.vision import *

if _TYPE_CHECKING:

    def __getattr__(name: str) -> _Any:
        """The function of an op, under a name that the op's class declares."""


torch = _sys.modules["wend"]  # as in PyTorch: programs use F.torch
one_hot = _ops.one_hot
scaled_dot_product_attention = _ops.scaled_dot_product_attention
sigmoid = _ops.sigmoid
tanh = _ops.tanh

for _name, _op in _FUNCTIONAL.items():
    globals().setdefault(_name, _op)

__all__ = [name for name, value in globals().items() if callable(value) and name[0] != "_"]
