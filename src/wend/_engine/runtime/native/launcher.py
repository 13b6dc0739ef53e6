"""The launcher that this process uses, compiled or not, with its hooks to the layers above."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base import config
from wend._engine.base.interrupts import is_interrupt
from wend._engine.core._select import is_compiled
from wend._engine.core.graph import PENDING
from wend._engine.core.step_log import ROWS
from wend._engine.ops import philox
from wend._engine.runtime.native import _launch_select
from wend._engine.transforms.history import note_history

if TYPE_CHECKING:
    from numpy.typing import NDArray

launcher: ModuleType = _launch_select.select()
launcher.fill("empty", np.empty)
launcher.fill("interrupts", is_interrupt)
launcher.fill("note", note_history)
launcher.fill("pending", PENDING)
launcher.fill("recent", ROWS.append)
if is_compiled(launcher):
    philox.NATIVE.append(launcher.draw_blocks)


#: Bytes from which on an array's memory is kept, once freed, for another array.
LARGE = 1 << 18


def maker(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[..., NDArray[Any]]:
    """Return the function that makes an array of this shape and NumPy dtype, called with both."""
    return maker_of(math.prod(shape) * dtype.itemsize)


def maker_of(n_bytes: int) -> Callable[..., NDArray[Any]]:
    """Return the function that makes an array of this many bytes.

    The function is called with the shape and the NumPy dtype of the array.
    """
    return launcher.large if n_bytes >= LARGE else np.empty


def follow_settings() -> None:
    """Have the launcher ask the planner for each flush where machine code may not be used."""
    launcher.fill("ready", not config.settings.deterministic)


config.settings.on_change(follow_settings)
follow_settings()
