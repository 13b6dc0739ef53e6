# ruff: noqa: F401, F403
"""Gradients clipped, parameters as vectors, sequences packed, weights reparametrized."""

from wend.frontend.nn.gradients import *
from wend.frontend.nn.renormalized import *
from wend.frontend.nn.vectors import *
from wend.nn.utils import parametrizations, parametrize, rnn, stateless
from wend.nn.utils.spectral_norm import spectral_norm
from wend.nn.utils.weight_norm import weight_norm
