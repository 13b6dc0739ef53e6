"""Channels of groups interleaved, as a module."""

from __future__ import annotations

from wend.frontend.nn import functional as F
from wend.frontend.nn._core import Tensor
from wend.frontend.nn.module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """(N, C, ...) with the channels of its groups interleaved."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
