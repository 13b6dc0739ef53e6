"""Batch norms without running statistics, for `vmap`; tensors behind a mapped function's."""

from __future__ import annotations

from typing import Any

from wend._engine.core._hot import Tensor
from wend._engine.transforms.levels import behind
from wend.nn.modules.batchnorm import _BatchNorm

__all__ = ["debug_unwrap", "replace_all_batch_norm_modules_"]


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Take the running statistics from each batch norm of a module, in place; the module.

    A batch norm then always uses the statistics of its input, and a mapped function writes nothing.
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The tensor that a mapped function's tensor stands for, with the mapped dim at the front.

    recurse: through all levels of `vmap`, not the innermost alone
    A tensor that is not mapped is returned as it is. This is for a look at values: a function
    that computes with the result mixes examples.
    """
    inner = behind(tensor)
    while recurse and inner is not tensor:
        tensor, inner = inner, behind(inner)
    return inner
