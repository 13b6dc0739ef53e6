"""torch.distributions.uniform."""

from wend.frontend.distributions.continuous import Uniform

__all__ = ["Uniform"]
