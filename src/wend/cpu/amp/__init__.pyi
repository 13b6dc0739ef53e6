# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend.cpu.amp import autocast_mode as autocast_mode
from wend.cpu.amp import grad_scaler as grad_scaler
from wend.cpu.amp.autocast_mode import autocast as autocast
from wend.cpu.amp.grad_scaler import GradScaler as GradScaler
