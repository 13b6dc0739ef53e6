"""wend.functional: functions of `wend` at the second address that PyTorch has for them."""

from typing import Any

import wend

_NAMES = (
    "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors "
    "cartesian_prod cdist chain_matmul einsum istft lu meshgrid norm pca_lowrank split "
    "stft svd_lowrank tensordot unique unique_consecutive unravel_index"
).split()
__all__ = [name for name in _NAMES if hasattr(wend, name)]
#: Names that are found there when they are first used.
_ELSEWHERE = dict.fromkeys(__all__, "wend")


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(wend, name)
    raise AttributeError(f"module 'wend.functional' has no attribute {name!r}")
