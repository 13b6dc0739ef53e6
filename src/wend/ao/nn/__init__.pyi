# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend._engine.base.lazy_modules import load_when_named as load_when_named
from wend.ao.nn import intrinsic as intrinsic
from wend.ao.nn import qat as qat
from wend.ao.nn import quantized as quantized
