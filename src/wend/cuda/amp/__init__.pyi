# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend.cuda.amp import autocast_mode as autocast_mode
from wend.cuda.amp import common as common
from wend.cuda.amp import grad_scaler as grad_scaler
from wend.cuda.amp.autocast_mode import autocast as autocast
from wend.cuda.amp.autocast_mode import custom_bwd as custom_bwd
from wend.cuda.amp.autocast_mode import custom_fwd as custom_fwd
from wend.cuda.amp.common import amp_definitely_not_available as amp_definitely_not_available
from wend.cuda.amp.grad_scaler import GradScaler as GradScaler
