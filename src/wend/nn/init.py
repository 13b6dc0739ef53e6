# ruff: noqa: F401, F403
"""Ways to fill parameters before training."""

from wend.frontend.nn.init import *
from wend.frontend.nn.init import (
    _calculate_correct_fan,
    _calculate_fan_in_and_fan_out,
    constant,
    dirac,
    eye,
    kaiming_normal,
    kaiming_uniform,
    normal,
    orthogonal,
    sparse,
    uniform,
    xavier_normal,
    xavier_uniform,
)
