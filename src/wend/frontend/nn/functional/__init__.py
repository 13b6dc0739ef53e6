"""`torch.nn.functional`: layers as functions.

Most are the ops themselves: an op says in `functional` under which names it is known here. The
functions of this package's modules only sort arguments, or need more than one op.
"""

from wend.frontend.nn._core import REGISTRY as _REGISTRY
from wend.frontend.nn._core import ops as _ops
from wend.frontend.nn.functional.activation import *
from wend.frontend.nn.functional.attention import multi_head_attention_forward
from wend.frontend.nn.functional.ctc import ctc_loss
from wend.frontend.nn.functional.distance import pdist
from wend.frontend.nn.functional.dropout import *
from wend.frontend.nn.functional.embedding import embedding, embedding_bag
from wend.frontend.nn.functional.loss import triplet_margin_with_distance_loss
from wend.frontend.nn.functional.normalization import batch_norm, group_norm, instance_norm
from wend.frontend.nn.functional.padding import pad
from wend.frontend.nn.functional.pooling import *
from wend.frontend.nn.functional.vision import upsample, upsample_bilinear, upsample_nearest

one_hot = _ops.one_hot
scaled_dot_product_attention = _ops.scaled_dot_product_attention
sigmoid = _ops.sigmoid
tanh = _ops.tanh

for _op in list(_REGISTRY.values()):
    for _name in getattr(_op, "functional", ()):
        globals().setdefault(_name, _op.function)

__all__ = [name for name, value in globals().items() if callable(value) and name[0] != "_"]
