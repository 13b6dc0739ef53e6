"""Parts of PyTorch that Wend lacks: importable where programs only import them, clear if used."""

from __future__ import annotations

import pytest

import wend


def test_no_process_groups():
    assert not wend.distributed.is_available() and not wend.distributed.is_initialized()
    for name in ("init_process_group", "destroy_process_group", "all_reduce", "get_rank"):
        with pytest.raises(NotImplementedError, match="process groups"):
            getattr(wend.distributed, name)()
    assert not hasattr(wend.distributed, "rpc")
