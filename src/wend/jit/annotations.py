"""torch.jit.annotations: names of types for signatures of scripted functions."""

from __future__ import annotations

# Programs import the names of typing from here, which PyTorch's module has too.
from typing import Any, Dict, List, Optional, Tuple, TypeVar, Union  # noqa: UP035

__all__ = [
    "Any",
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Dict",
    "List",
    "Optional",
    "Tuple",
    "Union",
]

_T = TypeVar("_T")


class BroadcastingList:
    """`BroadcastingList2[int]` is a list of ints, or an int for all places."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __getitem__(self, kind: type[_T]) -> Any:
        return list[kind] | kind  # type: ignore[valid-type]


BroadcastingList1: BroadcastingList = BroadcastingList(1)
BroadcastingList2: BroadcastingList = BroadcastingList(2)
BroadcastingList3: BroadcastingList = BroadcastingList(3)
