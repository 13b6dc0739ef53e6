"""torch.distributions.bernoulli."""

from wend.frontend.distributions.discrete import Bernoulli

__all__ = ["Bernoulli"]
