"""torch.distributions.categorical."""

from wend.frontend.distributions.discrete import Categorical

__all__ = ["Categorical"]
