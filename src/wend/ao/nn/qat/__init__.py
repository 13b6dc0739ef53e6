"""torch.ao.nn.qat: modules to be trained for quantisation."""

from wend.ao.nn.qat.modules import Conv1d, Conv2d, Linear

__all__ = ["Conv1d", "Conv2d", "Linear"]
