"""Members of modules, nn's and Python's, that are found without a detour: each change is seen."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest

import wend as torch
from wend import nn
from wend._engine.core._modules import PublicModule


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.number = 0

    def forward(self):
        return self.number


def test_members_of_nn_modules_change():
    module = Counting()
    for n in range(3):
        module.number = n
        assert [module.number, module.number, module()] == [n, n, n]
    module.forward = lambda: "its own"
    assert module() == "its own" and module.forward() == "its own"
    del module.forward
    assert module() == 2
    del module.number
    for _ in range(2):
        with pytest.raises(AttributeError, match="number"):
            _ = module.number
    module.__dict__["number"] = 5
    assert module.number == 5


def test_equal_names_find_the_same():
    """A name put together at run time is another object; what lies there later is no member."""
    module = Counting()
    for n in range(2000):
        setattr(module, f"member_{n}", n)
    for _ in range(2):
        assert [getattr(module, f"member_{n}") for n in range(2000)] == list(range(2000))
        assert not any(hasattr(module, f"other_{n}") for n in range(2000))


def test_the_public_module():
    assert type(torch) is PublicModule and torch.sigmoid is torch.sigmoid
    before = torch.sigmoid
    try:
        for found in ("one", "two"):
            torch.sigmoid = found
            assert [torch.sigmoid, torch.sigmoid] == [found, found]
        del torch.sigmoid
        for _ in range(2):
            with pytest.raises(AttributeError, match="sigmoid"):
                _ = torch.sigmoid
    finally:
        torch.sigmoid = before
    assert torch.sigmoid is before
    assert torch.__name__ == "wend" and torch.__dict__ is vars(torch) and "Tensor" in dir(torch)
    assert torch.__class__ is PublicModule and torch.__doc__.startswith("Wend")


def test_a_public_module_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(torch)) is torch is copy.deepcopy(torch)


def test_a_public_module_with_a_getattr():
    space = PublicModule("wend_of_this_test")
    space.__getattr__ = lambda name: name.upper()
    assert [space.some, space.some] == ["SOME", "SOME"]
    space.some = 1
    assert space.some == 1
    del space.some
    assert space.some == "SOME"
    assert "wend_of_this_test" not in sys.modules
