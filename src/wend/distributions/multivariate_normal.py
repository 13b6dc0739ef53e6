"""torch.distributions.multivariate_normal."""

from wend.frontend.distributions.gaussian import MultivariateNormal

__all__ = ["MultivariateNormal"]
