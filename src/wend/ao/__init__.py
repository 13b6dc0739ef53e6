"""torch.ao: quantisation of models, and quantised modules."""

from wend._engine.base.lazy_modules import load_when_named

load_when_named(__name__, "nn quantization")
