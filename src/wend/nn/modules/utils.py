# ruff: noqa: F401, F403
"""Arguments that may be one number or one per dimension."""

from wend.frontend.nn.utils import *
from wend.frontend.nn.utils import (
    _ntuple,
    _pair,
    _quadruple,
    _reverse_repeat_tuple,
    _single,
    _triple,
)
