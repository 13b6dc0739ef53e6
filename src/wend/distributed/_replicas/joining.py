"""The part of `DistributedDataParallel` in a process that has no data left."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend.distributed._engine import Channel
from wend.distributed._replicas.same_state import broadcast_all
from wend.distributed.algorithms.join import JoinHook

__all__ = ["ModuleJoinHook", "most"]


def most(channel: Channel, number: int) -> int:
    """The largest of a number over the ranks of a channel."""
    mine = np.array([number], np.int64)

    def call(line: Any) -> int:
        out = np.empty_like(mine)
        line.all_reduce(mine, out, "max")
        return int(out[0])

    maximum: int = channel.run(("join", "max"), call).found
    return maximum


class ModuleJoinHook(JoinHook):
    """Takes part in the collectives of a call and of a backward pass, with zeros.

    whole: whether gradients are averaged over all ranks, or over those with data left
    """

    def __init__(self, module: Any, whole: bool) -> None:
        self.module = module
        module._divides_by_all = whole

    def main_hook(self) -> None:
        """A call of the module, and the backward pass, in the same order as `_before_call`.

        The gradients are then those of the ranks with data, for optimizers that ranks share.
        """
        module = self.module
        reducer = module.reducer
        if module.will_sync_module_buffers():
            root = most(module._channel, -1)
            broadcast_all(module._channel, module._synced_buffers(), root)
        syncs = bool(most(module._channel, 0))
        module.require_forward_param_sync = syncs
        if syncs:
            for parameter in reducer.parameters:
                parameter._grad = None
            reducer.run_round(idle=True)

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take parameters and buffers over from a process that had data longest."""
        module = self.module
        channel = module._channel
        root = most(channel, channel.line.rank if is_last_joiner else -1)
        state = [*module.reducer.parameters, *module._synced_buffers()]
        broadcast_all(channel, state, root)
        module.reducer.divisor = channel.line.size
