"""Out of memory: the error says where, and who holds what, by the user's line."""

import pytest

import wend as torch
from wend._engine.base.errors import ArgumentTypeError

HUGE = 1 << 45  # elements: more than any address space


def test_the_error_names_holders_by_line():
    weight = torch.ones(300, 400, requires_grad=True)
    kept = torch.exp(weight) * 2
    torch.synchronize()
    with pytest.raises(MemoryError) as caught:
        torch.zeros(HUGE).sum().item()
    text = str(caught.value)
    assert "out of memory" in text and "test_out_of_memory.py" in text
    assert "MB: kept for backward, exp at " in text
    assert "parameters and other leaves that require grad" in text
    assert isinstance(caught.value, RuntimeError)
    assert kept.shape == (300, 400)


def test_the_budget_is_a_number_of_bytes_or_none():
    torch.set_memory_budget(1 << 30)
    assert torch.get_memory_budget() == 1 << 30
    torch.set_memory_budget(None)
    assert torch.get_memory_budget() is None
    for wrong in (0, -5, 1.5, "1G", True):
        with pytest.raises(ArgumentTypeError, match="set_memory_budget"):
            torch.set_memory_budget(wrong)
