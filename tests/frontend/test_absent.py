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


def test_scripted_functions_are_the_functions():
    def double(x):
        return x * 2

    assert wend.jit.script(double) is double
    assert wend.jit.trace(double, wend.ones(1)) is double
    assert wend.jit.ignore(double) is double
    assert wend.jit.unused(drop=True)(double) is double
    assert wend.jit.annotate(list[int], 3) == 3
    assert not wend.jit.is_scripting()
    with pytest.raises(NotImplementedError, match="TorchScript"):
        wend.jit.save(double, "x.pt")
