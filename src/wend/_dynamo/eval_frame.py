"""torch._dynamo.eval_frame: where programs import the class of compiled modules from."""

from wend._dynamo._compiled import OptimizedModule

__all__ = ["OptimizedModule"]
