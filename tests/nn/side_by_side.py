"""One module in PyTorch and in Wend, with equal weights: results and gradients compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import wend

Make = Callable[[Any], Any]  # namespace (torch or wend) -> module


def to_wend(value: Any) -> Any:
    """A PyTorch or NumPy structure as Wend's."""
    if isinstance(value, torch.Tensor):
        made = wend.tensor(value.detach().numpy().copy())
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, np.ndarray):
        return wend.tensor(value.copy())
    if isinstance(value, (list, tuple)):
        return type(value)(to_wend(item) for item in value)
    return value


def to_torch(value: Any) -> Any:
    """A NumPy structure as PyTorch's; arrays of floats require gradients."""
    if isinstance(value, np.ndarray):
        made = torch.tensor(value.copy())
        return made.requires_grad_() if made.is_floating_point() else made
    if isinstance(value, (list, tuple)):
        return type(value)(to_torch(item) for item in value)
    return value


def array(x: Any) -> Any:
    """The values of a tensor of either kind."""
    return x.detach().numpy()


def leaves(value: Any) -> list[Any]:
    """All tensors of a structure, in order."""
    if isinstance(value, (torch.Tensor, wend.Tensor)):
        return [value]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return []


def load(theirs: Any, ours: Any) -> None:
    """Give Wend's module the state of PyTorch's."""
    state = {name: to_wend(value) for name, value in theirs.state_dict().items()}
    found = ours.load_state_dict(state)
    assert not found.missing_keys
    assert not found.unexpected_keys


def same(ours: Any, theirs: Any, what: str, tolerance: float = 2e-5) -> None:
    """Assert equal dtype, shape and (nearly) equal values."""
    a, b = array(ours), array(theirs)
    assert str(ours.dtype) == str(theirs.dtype), f"{what}: {ours.dtype} for {theirs.dtype}"
    assert a.shape == b.shape, f"{what}: {a.shape} for {b.shape}"
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)


def pair(make: Make) -> tuple[Any, Any]:
    """(PyTorch's module, Wend's module) with equal weights and equal printing."""
    torch.manual_seed(0)
    wend.manual_seed(0)
    theirs, ours = make(torch), make(wend)
    assert repr(ours) == repr(theirs)
    load(theirs, ours)
    return theirs, ours


def compare(
    make: Make, *inputs: Any, train: bool = True, gradients: bool = True, **keywords: Any
) -> Any:
    """Compare one call and its backward pass, then the state dicts; returns both modules."""
    theirs, ours = pair(make)
    theirs.train(train)
    ours.train(train)
    torch_inputs = to_torch(inputs)
    wend_inputs = to_wend(torch_inputs)
    torch_keywords = {k: to_torch(v) for k, v in keywords.items()}
    wend_keywords = {k: to_wend(v) for k, v in torch_keywords.items()}
    their_result = theirs(*torch_inputs, **torch_keywords)
    our_result = ours(*wend_inputs, **wend_keywords)
    their_leaves, our_leaves = leaves(their_result), leaves(our_result)
    assert len(our_leaves) == len(their_leaves)
    for i, (a, b) in enumerate(zip(our_leaves, their_leaves, strict=True)):
        same(a, b, f"result {i}")
        assert a.requires_grad == b.requires_grad, f"result {i}: requires_grad"
    if gradients:
        backward(their_leaves, our_leaves)
        pairs = zip(leaves(wend_inputs), leaves(torch_inputs), strict=True)
        same_gradients(((f"input {i}", a, b) for i, (a, b) in enumerate(pairs)))
        named = dict(ours.named_parameters())
        same_gradients((name, named[name], b) for name, b in theirs.named_parameters())
    same_states(ours, theirs)
    return theirs, ours


def backward(theirs: list[Any], ours: list[Any]) -> None:
    """Run both backward passes from the same fixed weights of all results."""
    rng = np.random.default_rng(1)
    total_theirs: Any = 0
    total_ours: Any = 0
    for a, b in zip(ours, theirs, strict=True):
        if not b.requires_grad:
            continue
        weights = rng.normal(size=tuple(b.shape)).astype(array(b).dtype)
        total_theirs = total_theirs + (b * torch.tensor(weights)).sum()
        total_ours = total_ours + (a * wend.tensor(weights)).sum()
    total_theirs.backward()
    total_ours.backward()


def same_gradients(triples: Any) -> None:
    """Assert equal gradients of (name, Wend's tensor, PyTorch's tensor)."""
    for name, a, b in triples:
        assert (a.grad is None) == (b.grad is None), f"gradient of {name}"
        if b.grad is not None:
            same(a.grad, b.grad, f"gradient of {name}", 1e-4)


def same_states(ours: Any, theirs: Any) -> None:
    """Assert equal state dicts, in the same order."""
    a, b = ours.state_dict(), theirs.state_dict()
    assert list(a) == list(b)
    for name, value in b.items():
        same(a[name], value, f"state {name}")
