# ruff: noqa: F401, F403
"""The transformer."""

from wend.frontend.nn.transformer import *
from wend.frontend.nn.transformer import (
    _generate_square_subsequent_mask,
    _get_activation_fn,
    _get_clones,
)
