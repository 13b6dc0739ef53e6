"""Normalization, attention, recurrent cells and optimizer steps against PyTorch."""

import math

import numpy as np
import pytest
from against import check, refuses, torch

import wend
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core.primitive import ops

RNG = np.random.default_rng(0)


def normal(*shapes):
    return [RNG.normal(size=shape) for shape in shapes]


# -- normalization --------------------------------------------------------------------------


def test_layer_norm():
    check(lambda ns, x: ns.F.layer_norm(x, (4,)), *normal((2, 3, 4)))
    check(
        lambda ns, x, w, b: ns.F.layer_norm(x, (3, 4), w, b, 1e-3),
        *normal((2, 3, 4), (3, 4), (3, 4)),
    )
    check(lambda ns, x, w: ns.F.layer_norm(x, [4], w), *normal((4,), (4,)))
    check(lambda ns, x, b: ns.F.layer_norm(x, (4,), None, b), *normal((5, 4), (4,)))
    check(lambda ns, x, w: ns.F.rms_norm(x, (4,), w), *normal((2, 4), (4,)))
    check(lambda ns, x: ns.F.rms_norm(x, (3, 4), eps=0.1), *normal((2, 3, 4)))


def test_group_norm():
    check(lambda ns, x, w, b: ns.F.group_norm(x, 3, w, b), *normal((2, 6, 4, 3), (6,), (6,)))
    check(lambda ns, x: ns.F.group_norm(x, 2, eps=0.1), *normal((2, 6)))


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (2, 3, 4, 5)])
def test_batch_norm(shape):
    x, w, b = normal(shape, (3,), (3,))
    mean, var = RNG.normal(size=3), RNG.uniform(0.5, 2, size=3)
    check(
        lambda ns, x, w, b, m, v: ns.F.batch_norm(x, m.detach(), v.detach(), w, b, eps=1e-3),
        x, w, b, mean, var,
    )  # fmt: skip
    x, w, b = (wend.tensor(a) for a in (x, w, b))
    y, m, v = ops.batch_norm_train(x, w, b, 1e-3)
    want = torch.nn.functional.batch_norm(
        *(torch.tensor(t.numpy()) for t in (x,)), None, None,
        torch.tensor(w.numpy()), torch.tensor(b.numpy()), True, eps=1e-3,
    )  # fmt: skip
    np.testing.assert_allclose(y.numpy(), want.numpy(), rtol=1e-9)
    axes = (0, *range(2, len(shape)))
    np.testing.assert_allclose(m.numpy(), x.numpy().mean(axes), rtol=1e-9)
    np.testing.assert_allclose(v.numpy(), x.numpy().var(axes), rtol=1e-9)


def test_instance_norm():
    x, w, b = normal((2, 3, 4, 5), (3,), (3,))
    y, mean, var = ops.instance_norm_train(*(wend.tensor(a) for a in (x, w, b)), 1e-5)
    want = torch.nn.functional.instance_norm(
        torch.tensor(x), None, None, torch.tensor(w), torch.tensor(b)
    )
    np.testing.assert_allclose(y.numpy(), want.numpy(), rtol=1e-9)
    np.testing.assert_allclose(mean.numpy(), x.mean((2, 3)), rtol=1e-9)
    np.testing.assert_allclose(var.numpy(), x.var((2, 3)), rtol=1e-9)


def test_local_response_norm():
    check(lambda ns, x: ns.F.local_response_norm(x, 3, 0.1, 0.6, 2.0), *normal((2, 5, 4)))
    check(lambda ns, x: ns.F.local_response_norm(x, 2), *normal((2, 5, 4, 3)))


def test_halves_are_normalized_in_float32():
    x = (RNG.normal(size=(4, 512)) * 200).astype(np.float16)
    check(lambda ns, x: ns.F.layer_norm(x, (512,)), x, rtol=2e-3, atol=2e-3, gradient=False)
    check(lambda ns, x: ns.F.group_norm(x, 2), x, rtol=2e-3, atol=2e-3, gradient=False)


def test_normalization_errors():
    t = lambda ns, *shape: ns.torch.zeros(shape)  # noqa: E731
    # fmt: off
    refuses(lambda ns: ns.F.layer_norm(t(ns, 2, 3, 4), (3,)), ShapeError,
            "layer_norm: given normalized_shape=\\(3,\\), expected input with shape \\(\\*, 3\\)")
    refuses(lambda ns: ns.F.layer_norm(t(ns, 2, 4), (4,), t(ns, 3)), ShapeError, "expected weight")
    refuses(lambda ns: ns.F.layer_norm(t(ns, 2, 4), ()), ShapeError, "at least 1-dimensional")
    refuses(lambda ns: ns.F.rms_norm(t(ns, 2, 4), (3,)), ShapeError, "rms_norm: ")
    refuses(lambda ns: ns.F.group_norm(t(ns, 2, 5, 4), 2), ShapeError, "divisible by num_groups")
    refuses(lambda ns: ns.F.layer_norm(t(ns, 2, 4).long(), (4,)), DTypeError, "layer_norm: not")
    # fmt: on
    with pytest.raises(ShapeError, match="running_mean should contain 3 elements"):
        ops.batch_norm_eval(wend.zeros(2, 3), wend.zeros(2), wend.ones(3))


# -- attention ------------------------------------------------------------------------------

Q, K, V = normal((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7))


def attend(ns, *args, **kwargs):
    return ns.F.scaled_dot_product_attention(*args, **kwargs)


def test_attention():
    check(attend, Q, K, V)
    check(lambda ns, q, k, v: attend(ns, q, k, v, is_causal=True), Q, K, V)
    check(lambda ns, q, k, v: attend(ns, q, k, v, scale=0.3), Q, K, V)
    check(lambda ns, q, k, v, m: attend(ns, q, k, v, m), Q, K, V, RNG.normal(size=(4, 6)))
    check(lambda ns, q, k, v, m: attend(ns, q, k, v, m), Q, K, V, RNG.normal(size=(2, 1, 4, 6)))
    check(lambda ns, q, k, v, m: attend(ns, q, k, v, m), Q, K, V, RNG.normal(size=(2, 1, 1, 6)) > 0)
    check(attend, Q[0], K[0], V[0])
    check(attend, Q[0, 0], K[0, 0], V[0, 0])
    check(attend, Q, K[:, :1], V[:, :1])


def test_grouped_queries():
    q, k, v = normal((2, 6, 4, 5), (2, 2, 6, 5), (2, 2, 6, 5))
    check(lambda ns, q, k, v: attend(ns, q, k, v, enable_gqa=True), q, k, v)


def test_rows_that_see_nothing_are_zero():
    mask = np.ones((4, 6), bool)
    mask[1] = False
    check(lambda ns, q, k, v, m: attend(ns, q, k, v, m), Q, K, V, mask)
    shift = np.where(mask, 0.0, -math.inf)
    check(lambda ns, q, k, v: attend(ns, q, k, v, ns.torch.tensor(shift)), Q, K, V, gradient=False)


def test_attention_dropout_keeps_the_mean():
    wend.manual_seed(0)
    q, k, v = (wend.tensor(a) for a in (Q, K, np.ones_like(V)))
    y = np.mean([attend_of(q, k, v).numpy() for _ in range(400)])
    assert abs(y - 1) < 0.03
    dropped = wend.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=1.0)
    assert not dropped.numpy().any()


def attend_of(q, k, v):
    return wend.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.4)


def test_attention_errors():
    t = lambda ns, *shape: ns.torch.zeros(shape)  # noqa: E731
    # fmt: off
    refuses(lambda ns: attend(ns, t(ns, 1, 2, 3), t(ns, 1, 4, 5), t(ns, 1, 4, 5)), ShapeError,
            "query \\(1, 2, 3\\), key \\(1, 4, 5\\)")
    refuses(lambda ns: attend(ns, t(ns, 1, 2, 3), t(ns, 1, 4, 3), t(ns, 1, 4, 3).double()),
            DTypeError, "same dtype")
    refuses(lambda ns: attend(ns, t(ns, 2, 3), t(ns, 2, 3), t(ns, 2, 3), t(ns, 2, 2),
            is_causal=True), ShapeError, "explicit attn_mask")
    refuses(lambda ns: attend(ns, t(ns, 2, 3), t(ns, 2, 3), t(ns, 2, 3), dropout_p=2.0),
            ShapeError, "between 0 and 1")
    # fmt: on


# -- recurrent cells ------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [0, 1, 4])
@pytest.mark.parametrize("bias", [True, False])
def test_cells(batch, bias):
    for name, gates in (
        ("rnn_tanh_cell", 1),
        ("rnn_relu_cell", 1),
        ("gru_cell", 3),
        ("lstm_cell", 4),
    ):
        x, h, c, w, u = normal((batch, 3), (batch, 2), (batch, 2), (gates * 2, 3), (gates * 2, 2))
        biases = normal((gates * 2,), (gates * 2,)) if bias else []
        if name == "lstm_cell":
            check(lambda ns, x, h, c, *p: ns.torch.lstm_cell(x, (h, c), *p), x, h, c, w, u, *biases)
        else:
            check(
                lambda ns, x, h, *p, name=name: getattr(ns.torch, name)(x, h, *p),
                x,
                h,
                w,
                u,
                *biases,
            )


def test_cell_errors():
    t = lambda ns, *shape: ns.torch.zeros(shape)  # noqa: E731
    # fmt: off
    refuses(lambda ns: ns.torch.gru_cell(t(ns, 2, 5), t(ns, 2, 4), t(ns, 12, 3), t(ns, 12, 4)),
            ShapeError, "inconsistent input_size: got 5 expected 3")
    refuses(lambda ns: ns.torch.lstm_cell(t(ns, 2, 3), (t(ns, 3, 4), t(ns, 2, 4)), t(ns, 16, 3),
            t(ns, 16, 4)), ShapeError, "input batch size 2 doesn't match hidden0 batch size 3")
    refuses(lambda ns: ns.torch.lstm_cell(t(ns, 2, 3), (t(ns, 2, 4),), t(ns, 16, 3), t(ns, 16, 4)),
            ShapeError, "expects two hidden states")
    # fmt: on


# -- optimizer steps ------------------------------------------------------------------------


def compare_optimizers(optimizer, options, step, steps=5):
    """Run both for a few steps from the same parameter; `step(p, g, state, count)` is ours."""
    start, gradients = RNG.normal(size=(2, 3)), RNG.normal(size=(steps, 2, 3))
    theirs = torch.tensor(start, requires_grad=True)
    run = optimizer([theirs], foreach=False, **options)
    ours, state = wend.tensor(start), {}
    for count, gradient in enumerate(gradients, 1):
        theirs.grad = torch.tensor(gradient)
        run.step()
        ours = step(ours, wend.tensor(gradient), state, count)
        np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-7, atol=1e-9)


def zeros(state, *names):
    return [state.setdefault(name, wend.zeros(2, 3, dtype=wend.float64)) for name in names]


@pytest.mark.parametrize(
    "options",
    [{}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01},
     {"momentum": 0.9, "nesterov": True, "maximize": True}],
)  # fmt: skip
def test_sgd_step(options):
    flags = {k: options[k] for k in ("nesterov", "maximize") if k in options}

    def step(p, g, state, count):
        p, *buffer = ops.sgd_step(
            p, g, state.get("buffer"), 0.1, options.get("momentum"),
            options.get("dampening", 0.0), options.get("weight_decay"), **flags,
        )  # fmt: skip
        state.update(buffer=buffer[0] if buffer else None)
        return p

    compare_optimizers(torch.optim.SGD, {"lr": 0.1, **options}, step)


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("decay", [None, 0.1])
@pytest.mark.parametrize("decoupled", [False, True])
def test_adam_step(amsgrad, decay, decoupled):
    def step(p, g, state, count):
        mean, square = zeros(state, "mean", "square")
        greatest = zeros(state, "greatest")[0] if amsgrad else None
        p, state["mean"], state["square"], *rest = ops.adam_step(
            p, g, mean, square, greatest, count, 0.01, 0.9, 0.99, 1e-8, decay,
            decoupled=decoupled,
        )  # fmt: skip
        if amsgrad:
            state["greatest"] = rest[0]
        return p

    optimizer = torch.optim.AdamW if decoupled else torch.optim.Adam
    options = {"lr": 0.01, "betas": (0.9, 0.99), "weight_decay": decay or 0.0, "amsgrad": amsgrad}
    compare_optimizers(optimizer, options, step)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rmsprop_step(centered, momentum):
    def step(p, g, state, count):
        square = zeros(state, "square")[0]
        buffer = zeros(state, "buffer")[0] if momentum else None
        mean = zeros(state, "mean")[0] if centered else None
        p, state["square"], *rest = ops.rmsprop_step(
            p, g, square, buffer, mean, 0.01, 0.99, 1e-8, 0.1, momentum
        )
        names = ["buffer"] * bool(momentum) + ["mean"] * centered
        state.update(zip(names, rest, strict=True))
        return p

    options = {"lr": 0.01, "centered": centered, "momentum": momentum, "weight_decay": 0.1}
    compare_optimizers(torch.optim.RMSprop, options, step)


def test_other_steps():
    def adagrad(p, g, state, count):
        p, state["sum"] = ops.adagrad_step(p, g, *zeros(state, "sum"), count, 0.01, 0.1, 1e-10, 0.1)
        return p

    compare_optimizers(
        torch.optim.Adagrad, {"lr": 0.01, "lr_decay": 0.1, "weight_decay": 0.1}, adagrad
    )

    def adadelta(p, g, state, count):
        p, state["square"], state["delta"] = ops.adadelta_step(
            p, g, *zeros(state, "square", "delta"), 0.5, 0.9, 1e-6, 0.1
        )
        return p

    compare_optimizers(torch.optim.Adadelta, {"lr": 0.5, "weight_decay": 0.1}, adadelta)

    def adamax(p, g, state, count):
        p, state["mean"], state["most"] = ops.adamax_step(
            p, g, *zeros(state, "mean", "most"), count, 0.01, 0.9, 0.999, 1e-8, 0.1
        )
        return p

    compare_optimizers(torch.optim.Adamax, {"lr": 0.01, "weight_decay": 0.1}, adamax)

    def nadam(p, g, state, count):
        mu, later = (0.9 * (1 - 0.5 * 0.96 ** (n * 4e-3)) for n in (count, count + 1))
        state["product"] = state.get("product", 1.0) * mu
        p, state["mean"], state["square"] = ops.nadam_step(
            p, g, *zeros(state, "mean", "square"), count, mu, later, state["product"],
            0.01, 0.9, 0.999, 1e-8, 0.1,
        )  # fmt: skip
        return p

    compare_optimizers(torch.optim.NAdam, {"lr": 0.01, "weight_decay": 0.1}, nadam)

    def radam(p, g, state, count):
        beta2 = 0.9
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * count * beta2**count / (1 - beta2**count)
        factor = None
        if length > 5:
            above = (length - 4) * (length - 2) * limit
            factor = math.sqrt(above / ((limit - 4) * (limit - 2) * length))
        p, state["mean"], state["square"] = ops.radam_step(
            p, g, *zeros(state, "mean", "square"), count, factor, 0.01, 0.9, beta2, 1e-8, 0.1
        )
        return p

    options = {"lr": 0.01, "betas": (0.9, 0.9), "weight_decay": 0.1}
    compare_optimizers(torch.optim.RAdam, options, radam, 12)
