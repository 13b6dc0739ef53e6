"""torch.distributions.constraints."""

from wend.frontend.distributions.constraints import *  # noqa: F403
