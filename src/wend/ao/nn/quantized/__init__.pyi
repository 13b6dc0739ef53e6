# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend._engine.base.lazy_modules import load_when_named as load_when_named
from wend.ao.nn.quantized import dynamic as dynamic
from wend.ao.nn.quantized import functional_modules as functional_modules
from wend.ao.nn.quantized import modules as modules
from wend.ao.nn.quantized.functional_modules import FloatFunctional as FloatFunctional
from wend.ao.nn.quantized.functional_modules import QFunctional as QFunctional
from wend.ao.nn.quantized.modules import BatchNorm2d as BatchNorm2d
from wend.ao.nn.quantized.modules import Conv1d as Conv1d
from wend.ao.nn.quantized.modules import Conv2d as Conv2d
from wend.ao.nn.quantized.modules import DeQuantize as DeQuantize
from wend.ao.nn.quantized.modules import Dropout as Dropout
from wend.ao.nn.quantized.modules import ELU as ELU
from wend.ao.nn.quantized.modules import GroupNorm as GroupNorm
from wend.ao.nn.quantized.modules import Hardswish as Hardswish
from wend.ao.nn.quantized.modules import LayerNorm as LayerNorm
from wend.ao.nn.quantized.modules import LeakyReLU as LeakyReLU
from wend.ao.nn.quantized.modules import Linear as Linear
from wend.ao.nn.quantized.modules import MaxPool2d as MaxPool2d
from wend.ao.nn.quantized.modules import Quantize as Quantize
from wend.ao.nn.quantized.modules import ReLU6 as ReLU6
from wend.ao.nn.quantized.modules import Sigmoid as Sigmoid
