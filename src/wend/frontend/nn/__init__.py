# ruff: noqa: F401, F403
"""`torch.nn`: modules, parameters, layers."""

from wend.frontend.nn.activation import *
from wend.frontend.nn.attention import *
from wend.frontend.nn.batchnorm import *
from wend.frontend.nn.channelshuffle import *
from wend.frontend.nn.container import *
from wend.frontend.nn.conv import *
from wend.frontend.nn.distance import *
from wend.frontend.nn.dropout import *
from wend.frontend.nn.flatten import *
from wend.frontend.nn.fold import *
from wend.frontend.nn.instancenorm import *
from wend.frontend.nn.linear import *
from wend.frontend.nn.loss import *
from wend.frontend.nn.module import *
from wend.frontend.nn.normalization import *
from wend.frontend.nn.padding import *
from wend.frontend.nn.parallel import DataParallel
from wend.frontend.nn.parameter import *
from wend.frontend.nn.pixelshuffle import *
from wend.frontend.nn.pooling import *
from wend.frontend.nn.rnn import *
from wend.frontend.nn.sparse import *
from wend.frontend.nn.transformer import *
from wend.frontend.nn.upsampling import *

__all__ = [
    name
    for name, value in globals().items()
    if isinstance(value, type) and not name.endswith("Mixin")
]
