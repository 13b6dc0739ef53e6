# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend.func import derivatives as derivatives
from wend.func import functionalized as functionalized
from wend.func import mapping as mapping
from wend.func import rearranging as rearranging
from wend.func import replacing as replacing
from wend.func import stacking as stacking
from wend.func.derivatives import grad as grad
from wend.func.derivatives import grad_and_value as grad_and_value
from wend.func.derivatives import hessian as hessian
from wend.func.derivatives import jacfwd as jacfwd
from wend.func.derivatives import jacrev as jacrev
from wend.func.derivatives import jvp as jvp
from wend.func.derivatives import linearize as linearize
from wend.func.derivatives import vjp as vjp
from wend.func.functionalized import functionalize as functionalize
from wend.func.mapping import vmap as vmap
from wend.func.rearranging import rearrange as rearrange
from wend.func.replacing import debug_unwrap as debug_unwrap
from wend.func.replacing import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from wend.func.stacking import stack_module_state as stack_module_state
from wend.nn.utils.stateless import functional_call as functional_call
