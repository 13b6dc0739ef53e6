"""The launcher that this process uses, compiled or not, with what it needs of the layers above."""

from __future__ import annotations

from typing import Any

from wend.base import config
from wend.core.graph import PENDING
from wend.runtime import _launch_select
from wend.runtime.recent import RECENT
from wend.transforms.history import note_history

launcher: Any = _launch_select.select()
launcher.fill("note", note_history)
launcher.fill("pending", PENDING)
launcher.fill("recent", RECENT.append)


def follow_settings() -> None:
    """Where plans are verified, or machine code may not be used, the planner is asked."""
    launcher.fill("ready", not (config.settings.verify or config.settings.deterministic))


config.settings.on_change(follow_settings)
follow_settings()
