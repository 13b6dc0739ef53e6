"""Training in several processes: not available."""

from __future__ import annotations

from typing import Any

from wend.base.errors import NotImplementedInWend
from wend.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """A name for programs to import: there are no process groups to train in."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedInWend(
            "DistributedDataParallel: training in several processes is not available; "
            "use the module itself"
        )
