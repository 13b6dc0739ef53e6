# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend._engine.base.lazy_modules import load_when_named as load_when_named
from wend.distributed.algorithms import ddp_comm_hooks as ddp_comm_hooks
from wend.distributed.algorithms import join as join
