"""Parts of PyTorch that Wend lacks: importable where programs only import them, clear if used."""

from __future__ import annotations

import pytest

import wend.distributed.rpc
import wend.distributed.tensor


def test_no_calls_in_other_processes():
    assert not wend.distributed.rpc.is_available()
    for name in ("init_rpc", "rpc_sync", "rpc_async", "remote", "shutdown"):
        with pytest.raises(NotImplementedError, match="send and recv"):
            getattr(wend.distributed.rpc, name)()


def test_no_tensors_in_many_processes():
    tensor = wend.distributed.tensor
    for call in (tensor.DTensor, tensor.DTensor.from_local, tensor.distribute_tensor):
        with pytest.raises(NotImplementedError, match="collectives"):
            call()
    assert tensor.Shard(1).dim == 1
