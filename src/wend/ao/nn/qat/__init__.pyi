# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend.ao.nn.qat import modules as modules
from wend.ao.nn.qat.modules import Conv1d as Conv1d
from wend.ao.nn.qat.modules import Conv2d as Conv2d
from wend.ao.nn.qat.modules import Linear as Linear
