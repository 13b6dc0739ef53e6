"""Every entry of PyTorch's table of modules: results, gradients, state, text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's table of modules imports expecttest")
from torch.testing._internal.common_modules import module_db  # noqa: E402

#: Modules whose results depend on random numbers.
DRAWN = ("Dropout", "RReLU", "FractionalMaxPool")


def twin(x: Any) -> Any:
    """An argument for Wend."""
    if isinstance(x, torch.nn.TransformerEncoderLayer):
        how = (x.self_attn.batch_first, x.norm_first, x.linear1.bias is not None)
        sizes = (x.linear1.in_features, x.self_attn.num_heads, x.linear1.out_features)
        layer = wend.nn.TransformerEncoderLayer(
            *sizes, x.dropout.p, twin(x.activation), x.norm1.eps, *how
        )
        return layer.to(twin(next(x.parameters()).dtype)).train(x.training)
    if isinstance(x, torch.Tensor):
        return wend.tensor(x.detach().numpy(), requires_grad=x.requires_grad)
    if isinstance(x, (list, tuple)):
        return tuple(map(twin, x)) if isinstance(x, torch.Size) else type(x)(map(twin, x))
    if isinstance(x, dict):
        return {name: twin(value) for name, value in x.items()}
    if isinstance(x, torch.dtype):
        return getattr(wend, str(x).split(".")[1])
    if isinstance(x, torch.device):
        return wend.device(x.type)
    name = getattr(x, "__name__", None)
    return getattr(wend.nn.functional, name) if callable(x) and name else x


def tensors(y: Any) -> list[Any]:
    """All tensors of a result."""
    if isinstance(y, (torch.Tensor, wend.Tensor)):
        return [y]
    values = y.values() if isinstance(y, dict) else y if isinstance(y, (list, tuple)) else ()
    return [t for value in values for t in tensors(value)]


def weighed(T: Any, ys: list[Any]) -> Any:
    """The sum of all elements that have a gradient, each with a weight of its own."""
    weights = [T.arange(1, y.numel() + 1, dtype=y.dtype).reshape(y.shape).cos() for y in ys]
    return sum((y * w).sum() for y, w in zip(ys, weights, strict=True))


def inputs_of(info: Any) -> Any:
    torch.manual_seed(0)
    inputs = info.module_inputs_func(
        info, device="cpu", dtype=torch.float64, requires_grad=True, training=True
    )
    return next(x for x in inputs if x.forward_input is not None)


def compared(info: Any) -> None:
    given = inputs_of(info)
    made, called = given.constructor_input, given.forward_input
    torch.manual_seed(1)
    theirs = info.module_cls(*made.args, **made.kwargs).double().train()
    ours = getattr(wend.nn, info.module_cls.__name__)(*twin(made.args), **twin(made.kwargs))
    ours = ours.double().train()
    assert repr(ours) == repr(theirs)
    if isinstance(theirs, torch.nn.modules.lazy.LazyModuleMixin):
        theirs(*called.args, **called.kwargs)
        ours(*twin(called.args), **twin(called.kwargs))
        assert repr(ours) == repr(theirs)
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(twin(dict(state)))
    args = twin(called.args)
    expected = tensors(theirs(*called.args, **called.kwargs))
    results = tensors(ours(*args, **twin(called.kwargs)))
    assert [str(y.dtype) for y in results] == [str(y.dtype) for y in expected]
    assert [tuple(y.shape) for y in results] == [tuple(y.shape) for y in expected]
    assert [y.requires_grad for y in results] == [y.requires_grad for y in expected]
    if any(name in str(theirs) for name in DRAWN):
        return
    pairs = list(zip(results, expected, strict=True))
    if any(y.requires_grad for y in results):
        for T, ys in ((torch, expected), (wend, results)):
            weighed(T, [y for y in ys if y.requires_grad]).backward()
        leaves = zip(ours.parameters(), theirs.parameters(), strict=True)
        given_leaves = zip(tensors(args), tensors(called.args), strict=True)
        for p, q in (*leaves, *(pair for pair in given_leaves if pair[1].is_leaf)):
            assert (p.grad is None) == (q.grad is None)
            pairs += [(p.grad, q.grad)] if q.grad is not None else []
    pairs += zip(ours.buffers(), theirs.buffers(), strict=True)
    for y, z in pairs:
        np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-7, atol=1e-7)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", sorted({i.module_cls.__module__ for i in module_db}))
def test_modules_are_those_of_torch(family):
    for info in module_db:
        if info.module_cls.__module__ == family:
            try:
                compared(info)
            except Exception as error:
                error.add_note(info.formatted_name)
                raise


def test_rare_classes_by_clusters():
    results = []
    for T in (torch, wend):
        rng = np.random.default_rng(0)
        loss = T.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10], head_bias=True)
        loss.load_state_dict(
            {n: T.tensor(rng.normal(size=tuple(p.shape))) for n, p in loss.state_dict().items()}
        )
        x = T.tensor(rng.normal(size=(5, 16)).astype("f"), requires_grad=True)
        found = loss(x, T.tensor([0, 5, 12, 19, 3]))
        found.loss.backward()
        values = [*found, x.grad, loss.tail[1][0].weight.grad, loss.log_prob(x)]
        results.append([v.detach().numpy() for v in values])
        results[-1].append(loss.predict(x).numpy())
        with pytest.raises(RuntimeError, match="Target values"):
            loss(x, T.tensor([0, 5, 12, 20, 3]))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_normalization_across_maps(size):
    x = np.random.default_rng(size).normal(size=(2, 7, 3, 3)).astype("f")
    ours, theirs = (T.nn.CrossMapLRN2d(size, alpha=0.5)(T.tensor(x)) for T in (wend, torch))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)
