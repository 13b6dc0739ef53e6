"""The device `meta`: tensors with shape, dtype and strides, and without data.

Loaded when the first such tensor is made. Programs without them pay nothing.
"""

from wend._frontend.meta import table as table  # ops on such tensors
from wend._frontend.meta.classes import face, run_backward
from wend._frontend.meta.placing import moved, placed

__all__ = ["face", "moved", "placed", "run_backward"]
