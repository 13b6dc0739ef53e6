"""torch.distributed.rpc: calls to remote processes, which are not available."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import NotImplementedInWend

__all__ = ["init_rpc", "is_available", "remote", "rpc_async", "rpc_sync", "shutdown"]


def is_available() -> bool:
    """False: calls to remote processes are not available."""
    return False


def _refuse(*args: object, **kwargs: object) -> Any:
    """Raises NotImplementedInWend: calls to remote processes are not available."""
    raise NotImplementedInWend(
        "torch.distributed.rpc: calls to remote processes are not available; exchange tensors by "
        "torch.distributed.send and recv, or objects by send_object_list"
    )


init_rpc = remote = rpc_async = rpc_sync = shutdown = _refuse
