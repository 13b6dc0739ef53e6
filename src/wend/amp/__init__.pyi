# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend.amp import autocast_mode as autocast_mode
from wend.amp import grad_scaler as grad_scaler
from wend.amp.autocast_mode import autocast as autocast
from wend.amp.autocast_mode import custom_bwd as custom_bwd
from wend.amp.autocast_mode import custom_fwd as custom_fwd
from wend.amp.autocast_mode import is_autocast_available as is_autocast_available
from wend.amp.grad_scaler import GradScaler as GradScaler
