"""torch.distributions.kl."""

from wend.frontend.distributions.kl import kl_divergence, register_kl

__all__ = ["kl_divergence", "register_kl"]
