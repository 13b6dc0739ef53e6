"""No call keeps its caller's variables alive until Python collects cycles."""

import gc
import weakref

import pytest

import wend
from wend.nn import functional as F


class Marker:
    """A variable of a caller."""


# fmt: off
CALLS = {
    "add with a factor": lambda x: wend.add(x, x, alpha=2),
    "rounded quotient": lambda x: wend.div(x, 2, rounding_mode="floor"),
    "general power": lambda x: x**2.5,
    "power": lambda x: wend.pow(2, x),
    "greatest along a dim": lambda x: wend.max(x, 1),
    "greater": lambda x: wend.maximum(x, x.T),
    "clamp by a tensor": lambda x: x.clamp(x, 3.0),
    "where of a condition": lambda x: wend.where(x > 0),
    "median along a dim": lambda x: x.median(0),
    "in place": lambda x: x.clone().add_(1, alpha=2),
    "batch norm": lambda x: F.batch_norm(x, wend.zeros(3), wend.ones(3), training=True),
    "module": lambda x: wend.nn.BatchNorm1d(3)(x),
    "recurrent": lambda x: wend.nn.LSTM(3, 2)(x),
    "attention": lambda x: wend.nn.MultiheadAttention(3, 1)(x, x, x),
    "loss": lambda x: F.cross_entropy(x, wend.tensor([0, 1, 2])),
    "index": lambda x: x[x > 0],
    "vmap": lambda x: wend.func.vmap(wend.sin)(x),
    "gradient": lambda x: wend.func.grad(lambda y: y.pow(3.5).sum())(x),
    "optimiser": lambda x: wend.optim.Adam([x.clone().requires_grad_()]).step(),
}
# fmt: on


@pytest.mark.parametrize("name", CALLS)
def test_the_callers_variables_are_freed(name):
    def caller():
        marker = Marker()
        alive = weakref.ref(marker)
        x = wend.arange(9.0).reshape(3, 3)
        result = CALLS[name](x)
        if isinstance(result, wend.Tensor) and result.dtype.is_floating_point:
            result.sum().item()
        return alive

    gc.collect()
    gc.disable()
    try:
        assert caller()() is None, "a cycle holds the frame of the caller"
    finally:
        gc.enable()


REFUSED = {
    "shapes": lambda x: x + wend.ones(4),
    "in a composite": lambda x: F.mse_loss(x, wend.ones(4)),
    "recurrent": lambda x: wend.nn.GRU(3, 2)(x[None], wend.ones(1, 7, 2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_keeps_no_frames_once_it_is_handled(name):
    def caller():
        marker = Marker()
        with pytest.raises(RuntimeError):
            REFUSED[name](wend.ones(3, 3))
        return weakref.ref(marker)

    gc.collect()
    gc.disable()
    try:
        assert caller()() is None, "a cycle holds the frame of the caller"
    finally:
        gc.enable()


def test_modules_end_with_their_last_reference():
    gc.collect()
    gc.disable()
    try:
        for make in (lambda: wend.nn.Linear(2, 2), lambda: wend.nn.BatchNorm1d(2)):
            module, ended = make(), []
            weakref.finalize(module, ended.append, 1)
            known = weakref.WeakKeyDictionary({module: "a"})
            loss = module(wend.ones(4, 2)).sum()
            loss.backward()
            loss.item()
            parameters = [weakref.ref(p) for p in module.parameters()]
            del module, loss
            assert ended == [1] and not known
            wend.ones(1).add_(1).item()
            assert [p() for p in parameters] == [None, None]
    finally:
        gc.enable()
