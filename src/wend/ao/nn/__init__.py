"""torch.ao.nn: quantised modules, modules that are trained for that, and fused ones."""

from wend._engine.base.lazy_modules import load_when_named

load_when_named(__name__, "intrinsic qat quantized")
