"""torch.distributed.nn: collectives through which gradients flow."""

from wend.distributed.nn.functional import *  # noqa: F403
from wend.distributed.nn.functional import __all__ as __all__
