"""Pruned parameters, fused normalization, transferred parametrizations: as PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")
pytest.importorskip("torch.nn.utils.prune")  # PyTorch loads it only when asked to


def network(T: Any, seed: int = 0) -> Any:
    """A small convolutional network with weights from NumPy."""
    nn = T.nn
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 5)
    )
    rng = np.random.default_rng(seed)
    for value in net.state_dict().values():
        if value.dtype is T.float32:
            value.copy_(T.tensor(np.abs(rng.normal(size=tuple(value.shape))).astype("f") + 0.1))
            if value.dim() > 1:
                value.mul_(T.tensor(rng.choice([-1.0, 1.0], size=tuple(value.shape)).astype("f")))
    return net


def prunings(T: Any, net: Any) -> None:
    """Every way to prune that does not draw, one upon the other."""
    P = T.nn.utils.prune
    rng = np.random.default_rng(3)
    P.l1_unstructured(net[4], "weight", 0.3)
    P.ln_structured(net[4], "weight", 2, n=2, dim=1)
    P.l1_unstructured(net[4], "weight", 7)
    P.ln_structured(net[0], "weight", 0.25, n=float("inf"), dim=0)
    P.l1_unstructured(
        net[0], "weight", 5, importance_scores=T.tensor(rng.normal(size=(4, 2, 3, 3)))
    )
    P.custom_from_mask(net[4], "bias", T.tensor([1, 0, 1, 1, 0]))
    P.identity(net[0], "bias")
    P.global_unstructured(
        [(net[0], "weight"), (net[4], "weight")], pruning_method=P.L1Unstructured, amount=0.2
    )


def trained(T: Any) -> list[Any]:
    """State after each of a few steps of pruned training, after pruning is final, and after."""
    net, seen = network(T).double(), []  # else the last bits of a norm of few numbers differ
    prunings(T, net)
    seen.append([type(h).__name__ for m in net for h in m._forward_pre_hooks.values()])
    optimizer = T.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    rng = np.random.default_rng(1)
    for _ in range(4):
        x = T.tensor(rng.normal(size=(3, 2, 4, 4)))
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    seen.append({name: v.detach().numpy().copy() for name, v in net.state_dict().items()})
    seen.append(T.nn.utils.prune.is_pruned(net))
    for layer in (net[0], net[4]):
        for name in ("weight", "bias"):
            T.nn.utils.prune.remove(layer, name)
    seen.append({name: v.detach().numpy() for name, v in net.state_dict().items()})
    seen.append(T.nn.utils.prune.is_pruned(net))
    return seen


def equal(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert list(a) == list(b)
        for name in a:
            np.testing.assert_allclose(a[name], b[name], rtol=1e-5, atol=1e-6, err_msg=name)
    else:
        assert a == b


def test_pruned_training_is_that_of_torch():
    for a, b in zip(trained(wend), trained(torch), strict=True):
        equal(a, b)


def test_random_pruning_takes_as_many():
    P = wend.nn.utils.prune
    layer = wend.nn.Linear(10, 10)
    P.random_unstructured(layer, "weight", 0.3)
    assert int(layer.weight_mask.sum()) == 70
    P.random_structured(layer, "weight", 2, dim=0)
    assert int((layer.weight_mask.sum(1) == 0).sum()) == 2
    assert P.L1Unstructured(0.5).prune(wend.tensor([1.0, -2, 3, 0])).tolist() == [0, -2, 3, 0]


def test_amounts_and_names_that_do_not_fit():
    for T in (wend, torch):
        P, layer = T.nn.utils.prune, T.nn.Linear(3, 2)
        for amount in (1.5, -1):
            with pytest.raises(ValueError, match="either be a float"):
                P.l1_unstructured(layer, "weight", amount)
        with pytest.raises(TypeError, match="Invalid type for amount"):
            P.l1_unstructured(layer, "weight", "all")
        with pytest.raises(ValueError, match="smaller than the number of parameters"):
            P.l1_unstructured(T.nn.Linear(3, 2), "weight", 7)
        with pytest.raises(ValueError, match="multidimensional"):
            P.ln_structured(T.nn.Linear(3, 2), "bias", 1, 2, 0)
        with pytest.raises(ValueError, match="has to be pruned"):
            P.remove(layer, "weight")
        with pytest.raises(TypeError, match="not an Iterable"):
            P.global_unstructured(5, P.L1Unstructured, amount=0.2)


def fused(T: Any) -> list[Any]:
    U = T.nn.utils
    net = network(T).eval()
    x = T.tensor(np.random.default_rng(2).normal(size=(2, 2, 5, 5)).astype("f"))
    linear, norm = T.nn.Linear(5, 4, bias=False).eval(), net[1]
    linear.load_state_dict({"weight": T.tensor(np.linspace(-1, 1, 20).reshape(4, 5))})
    conv = U.fuse_conv_bn_eval(net[0], norm)
    dense = U.fuse_linear_bn_eval(linear, norm)
    with pytest.raises(AssertionError, match="eval"):
        U.fuse_conv_bn_eval(net[0].train(), norm)
    return [conv(x), net[1](net[0](x)), dense(x[0, 0]), conv.weight, dense.bias]


def test_fused_normalization():
    ours, theirs = fused(wend), fused(torch)
    np.testing.assert_allclose(ours[0].detach().numpy(), ours[1].detach().numpy(), rtol=1e-4)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
        assert a.is_leaf == b.is_leaf


def test_modules_without_first_values_and_other_formats():
    layer = wend.nn.utils.skip_init(wend.nn.Linear, 3, 4, dtype=wend.float64)
    assert layer.weight.shape == (4, 3)
    with pytest.raises(RuntimeError, match="device"):
        wend.nn.utils.skip_init(wend.nn.ReLU)
    net = network(wend)
    wend.nn.utils.convert_conv2d_weight_memory_format(net, wend.channels_last)
    assert net[0].weight.is_contiguous(memory_format=wend.channels_last)


def test_parametrizations_move_to_another_module():
    results = []
    for T in (wend, torch):

        class Twice(T.nn.Module):
            def forward(self, x):
                return 2 * x

        first, second = T.nn.Linear(2, 2), T.nn.Linear(2, 2)
        first.weight.data.fill_(3.0)
        P = T.nn.utils.parametrize
        P.register_parametrization(first, "weight", Twice())
        P.transfer_parametrizations_and_params(first, second)
        results.append([second.weight.tolist(), list(second.state_dict())])
        assert second.parametrizations.weight.original is first.parametrizations.weight.original
    assert results[0] == results[1]
