# ruff: noqa: F403
"""Weight norm, spectral norm and orthogonal matrices as parametrizations."""

from wend.frontend.nn.parametrizations import *
