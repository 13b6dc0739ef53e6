"""torch.autograd.variable."""

from wend.frontend.variable import Variable

__all__ = ["Variable"]
