"""torch.distributed.algorithms.ddp_comm_hooks: further ways to average gradients."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any

from wend._engine.core._modules import ModuleBase
from wend.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks

__all__ = ["DDPCommHookType", "debugging_hooks", "default_hooks", "register_ddp_comm_hook"]


def _register(module: Any, state: Any, hook: Any) -> None:
    module.register_comm_hook(state, hook)


class DDPCommHookType(Enum):
    """The hooks by name, to be registered by `register_ddp_comm_hook`."""

    ALLREDUCE = partial(_register, hook=default_hooks.allreduce_hook)
    FP16_COMPRESS = partial(_register, hook=default_hooks.fp16_compress_hook)
    BF16_COMPRESS = partial(_register, hook=default_hooks.bf16_compress_hook)
    NOOP = partial(_register, hook=debugging_hooks.noop_hook)


def register_ddp_comm_hook(
    comm_hook_type: DDPCommHookType, model: ModuleBase, state: Any = None
) -> None:
    """Register a hook by name on a `DistributedDataParallel`."""
    comm_hook_type.value(model, state)
