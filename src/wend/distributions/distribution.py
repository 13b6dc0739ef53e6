"""torch.distributions.distribution."""

from wend.frontend.distributions.distribution import Distribution

__all__ = ["Distribution"]
