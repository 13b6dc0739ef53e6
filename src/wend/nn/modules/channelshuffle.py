"""Channels of groups interleaved, as a module."""

from __future__ import annotations

from wend._frontend.toolkit import Tensor
from wend.nn import functional as F
from wend.nn.modules.module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """(N, C, ...) with the channels of all groups interleaved."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
