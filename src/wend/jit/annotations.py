"""torch.jit.annotations: types of parameters that are a number or a list of numbers."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3"]

_T = TypeVar("_T")


class BroadcastingList:
    """`BroadcastingList2[int]` is a list of ints, or an int for all places."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __getitem__(self, kind: type[_T]) -> Any:
        return list[kind] | kind  # type: ignore[valid-type]


BroadcastingList1 = BroadcastingList(1)
BroadcastingList2 = BroadcastingList(2)
BroadcastingList3 = BroadcastingList(3)
