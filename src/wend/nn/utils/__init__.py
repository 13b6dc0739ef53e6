# ruff: noqa: F401, F403
"""Gradients clipped, parameters as vectors, sequences packed, weights reparametrized."""

from wend.frontend.nn.gradients import *
from wend.frontend.nn.renormalized import *
from wend.frontend.nn.vectors import *
from wend.nn.utils import parametrizations, parametrize, rnn, stateless
