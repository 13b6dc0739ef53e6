# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend._frontend.swapping import swap_tensors as swap_tensors
from wend.utils import checkpoint as checkpoint
from wend.utils import data as data
from wend.utils import dlpack as dlpack
from wend.utils import flop_counter as flop_counter
from wend.utils import hooks as hooks
from wend.utils import model_zoo as model_zoo
from wend.utils import tensorboard as tensorboard
