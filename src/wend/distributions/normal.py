"""torch.distributions.normal."""

from wend.frontend.distributions.continuous import Normal

__all__ = ["Normal"]
