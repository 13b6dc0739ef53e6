"""torch.distributed.constants: times that nobody has set, and how much is reported."""

from __future__ import annotations

import os
from enum import IntEnum

from wend._engine.base.errors import ArgumentError
from wend.distributed._group import DEFAULT_TIMEOUT as default_pg_timeout

__all__ = [
    "DebugLevel",
    "default_pg_nccl_timeout",
    "default_pg_timeout",
    "get_debug_level",
    "set_debug_level",
    "set_debug_level_from_env",
]

default_pg_nccl_timeout = default_pg_timeout


class DebugLevel(IntEnum):
    """How much PyTorch reports about collectives. Ranks compare all calls at any level here."""

    OFF = 0
    INFO = 1
    DETAIL = 2


def _level_of_environment() -> DebugLevel:
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise ArgumentError(
            "The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL, got " + repr(name)
        )
    return DebugLevel[name]


_chosen: list[DebugLevel] = []


def get_debug_level() -> DebugLevel:
    """The level; at first that of the variable TORCH_DISTRIBUTED_DEBUG.

    Raises ArgumentError (a ValueError) if the variable names no level.
    """
    if not _chosen:
        set_debug_level_from_env()
    return _chosen[-1]


def set_debug_level(level: DebugLevel) -> None:
    """Set the level, which programs may ask for; nothing else depends on the level."""
    _chosen[:] = [DebugLevel(level)]


def set_debug_level_from_env() -> None:
    """Set the level to that of the variable TORCH_DISTRIBUTED_DEBUG."""
    _chosen[:] = [_level_of_environment()]
