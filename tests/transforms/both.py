"""Runs one function with Wend and with PyTorch, where that is installed, and compares."""

import numpy as np
import pytest

import wend
import wend.func
from wend._engine.base import tree


def leaves(result):
    found, structure = tree.flatten(result)
    return found, structure


def plain(structure):
    return repr(structure).replace("immutable_", "")


def compare(function, *arrays, atol=1e-6):
    """function(framework, its func module, *tensors) gives the same in both."""
    torch = pytest.importorskip("torch")  # here: the smoke tests do without it
    got, shape = leaves(function(wend, wend.func, *[wend.tensor(a) for a in arrays]))
    want, wanted_shape = leaves(function(torch, torch.func, *[torch.tensor(a) for a in arrays]))
    assert plain(shape) == plain(wanted_shape)
    for a, b in zip(got, want, strict=True):
        assert isinstance(a, wend.Tensor)
        assert str(a.dtype) == str(b.dtype)
        assert tuple(a.shape) == tuple(b.shape)
        assert a.requires_grad == b.requires_grad
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=atol, rtol=1e-5)
