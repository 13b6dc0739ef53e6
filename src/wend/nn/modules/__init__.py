# ruff: noqa: F401, F403
"""Layers, by family."""

from wend.nn.modules import lazy, utils
from wend.nn.modules.activation import *
from wend.nn.modules.batchnorm import *
from wend.nn.modules.channelshuffle import *
from wend.nn.modules.container import *
from wend.nn.modules.conv import *
from wend.nn.modules.distance import *
from wend.nn.modules.dropout import *
from wend.nn.modules.flatten import *
from wend.nn.modules.fold import *
from wend.nn.modules.instancenorm import *
from wend.nn.modules.linear import *
from wend.nn.modules.loss import *
from wend.nn.modules.module import *
from wend.nn.modules.normalization import *
from wend.nn.modules.padding import *
from wend.nn.modules.pixelshuffle import *
from wend.nn.modules.pooling import *
from wend.nn.modules.rnn import *
from wend.nn.modules.sparse import *
from wend.nn.modules.transformer import *
from wend.nn.modules.upsampling import *

__all__ = [
    name
    for name, value in globals().items()
    if isinstance(value, type) and not name.endswith("Mixin")
]
