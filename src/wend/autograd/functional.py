"""torch.autograd.functional: Jacobians, Hessians, and products with them."""

from wend.frontend.functional_gradients import hessian, hvp, jacobian, jvp, vhp, vjp

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
