# ruff: noqa: F401, F403
"""Gradients clipped, parameters as vectors, sequences packed, weights reparametrized."""

from wend.nn.utils import parametrizations, parametrize, prune, rnn, stateless
from wend.nn.utils._renormalized import *
from wend.nn.utils.clip_grad import *
from wend.nn.utils.convert_parameters import *
from wend.nn.utils.fusion import *
from wend.nn.utils.init import *
from wend.nn.utils.memory_format import *
from wend.nn.utils.spectral_norm import spectral_norm
from wend.nn.utils.weight_norm import weight_norm
