"""torch.func: functions of an example on many, derivatives as functions, modules as functions."""

from wend.func.derivatives import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)
from wend.func.functionalized import functionalize
from wend.func.mapping import vmap
from wend.func.rearranging import rearrange
from wend.func.replacing import debug_unwrap, replace_all_batch_norm_modules_
from wend.func.stacking import stack_module_state
from wend.nn.utils.stateless import functional_call

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
