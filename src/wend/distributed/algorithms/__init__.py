"""torch.distributed.algorithms: communication hooks, and processes with unequal amounts of data."""

from wend._engine.base.lazy_modules import load_when_named

load_when_named(__name__, "join")
