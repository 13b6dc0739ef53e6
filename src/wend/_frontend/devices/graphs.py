"""Graphs of accelerators' work: not needed, as a path that comes back is a single launch anyway."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from wend._engine.base.errors import NotImplementedInWend
from wend._frontend.devices.places import kind_at_hand

__all__ = ["DeviceGraph", "GraphBlock", "make_graphed_callables"]


class DeviceGraph:
    """Work to be repeated. The block that would record it runs as ever; it is not recorded.

    Raises DeviceError if there is no device. `replay` raises NotImplementedInWend: call the
    function again instead, which is a launch of what is known.
    """

    kind: ClassVar[str | None] = None

    def __init__(self, keep_graph: bool = False) -> None:
        kind_at_hand(self.kind, type(self).__name__)

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Nothing is recorded."""

    def capture_end(self) -> None:
        """Nothing has been recorded."""

    def instantiate(self) -> None:
        """Nothing has been recorded."""

    def replay(self) -> NoReturn:
        """Raises NotImplementedInWend."""
        raise NotImplementedInWend(
            f"{self.kind}.{type(self).__name__}.replay: nothing is recorded; call the function "
            "again: what the program did before is a single launch"
        )

    def reset(self) -> None:
        """Nothing has been recorded."""

    def pool(self) -> tuple[int, int]:
        """The memory of the graph: the device's only pool."""
        return 0, 0


class GraphBlock:
    """The block that a graph would record: it runs as ever."""

    kind: ClassVar[str | None] = None
    default_capture_stream: Any = None

    def __init__(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
    ) -> None:
        kind_at_hand(self.kind, type(self).__name__)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """The functions or modules themselves: a path that comes back is a single launch anyway."""
    return callables


def graph_pool_handle() -> tuple[int, int]:
    """The memory of graphs: a device's only pool."""
    return 0, 0
