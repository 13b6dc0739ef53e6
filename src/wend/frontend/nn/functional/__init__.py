"""`torch.nn.functional`: layers as functions.

Where an op's signature is PyTorch's the function is the op itself; the others only sort arguments.
"""

from wend.frontend.nn._core import ops as _ops
from wend.frontend.nn.functional.activation import *
from wend.frontend.nn.functional.attention import (
    multi_head_attention_forward,
    scaled_dot_product_attention,
)
from wend.frontend.nn.functional.ctc import ctc_loss
from wend.frontend.nn.functional.distance import (
    cosine_similarity,
    normalize,
    pairwise_distance,
    pdist,
)
from wend.frontend.nn.functional.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from wend.frontend.nn.functional.embedding import embedding, embedding_bag, one_hot
from wend.frontend.nn.functional.loss import *
from wend.frontend.nn.functional.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    rms_norm,
)
from wend.frontend.nn.functional.padding import pad
from wend.frontend.nn.functional.pooling import *
from wend.frontend.nn.functional.vision import *

bilinear = _ops.bilinear
conv1d = _ops.conv1d
conv2d = _ops.conv2d
conv_transpose1d = _ops.conv_transpose1d
conv_transpose2d = _ops.conv_transpose2d
linear = _ops.linear
