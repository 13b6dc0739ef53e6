"""Losses as modules against PyTorch's, gradients included."""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from side_by_side import compare  # noqa: E402

RNG = np.random.default_rng(0)


def x(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def chance(*shape):
    return RNG.uniform(0.05, 0.95, size=shape).astype(np.float32)


def signs(*shape):
    return (RNG.integers(0, 2, size=shape) * 2 - 1).astype(np.float32)


ONE = x(5, 3)


def weights(t, *values):
    return t.tensor(values)


LOSSES = {
    "L1Loss": (lambda t, **k: t.nn.L1Loss(**k), x(3, 4), x(3, 4)),
    "MSELoss": (lambda t, **k: t.nn.MSELoss(**k), x(3, 4), x(3, 4)),
    "SmoothL1Loss": (lambda t, **k: t.nn.SmoothL1Loss(beta=0.5, **k), x(3, 4), x(3, 4)),
    "HuberLoss": (lambda t, **k: t.nn.HuberLoss(delta=0.7, **k), x(3, 4), x(3, 4)),
    "NLLLoss": (lambda t, **k: t.nn.NLLLoss(**k), x(3, 4), np.array([0, 3, 1])),
    "NLLLoss of images": (
        lambda t, **k: t.nn.NLLLoss(weights(t, 0.5, 1.0, 2.0), ignore_index=1, **k),
        x(2, 3, 2, 2),
        RNG.integers(0, 3, size=(2, 2, 2)),
    ),
    "CrossEntropyLoss": (
        lambda t, **k: t.nn.CrossEntropyLoss(**k),
        x(3, 4),
        np.array([0, 3, 1]),
    ),
    "CrossEntropyLoss, smoothed": (
        lambda t, **k: t.nn.CrossEntropyLoss(
            weights(t, 0.5, 1.0, 2.0, 1.0), ignore_index=3, label_smoothing=0.1, **k
        ),
        x(3, 4),
        np.array([0, 3, 1]),
    ),
    "CrossEntropyLoss of chances": (
        lambda t, **k: t.nn.CrossEntropyLoss(label_smoothing=0.2, **k),
        x(3, 4),
        chance(3, 4),
    ),
    "BCELoss": (lambda t, **k: t.nn.BCELoss(**k), chance(3, 4), chance(3, 4)),
    "BCEWithLogitsLoss": (
        lambda t, **k: t.nn.BCEWithLogitsLoss(pos_weight=weights(t, 1.0, 2.0, 0.5, 3.0), **k),
        x(3, 4),
        chance(3, 4),
    ),
    "KLDivLoss": (lambda t, **k: t.nn.KLDivLoss(**k), x(3, 4), chance(3, 4)),
    "KLDivLoss of logs": (lambda t, **k: t.nn.KLDivLoss(log_target=True, **k), x(3, 4), x(3, 4)),
    "PoissonNLLLoss": (lambda t, **k: t.nn.PoissonNLLLoss(full=True, **k), x(3, 4), chance(3, 4)),
    "GaussianNLLLoss": (
        lambda t, **k: t.nn.GaussianNLLLoss(full=True, **k),
        x(3, 4),
        x(3, 4),
        chance(3, 4),
    ),
    "HingeEmbeddingLoss": (lambda t, **k: t.nn.HingeEmbeddingLoss(**k), x(3, 4), signs(3, 4)),
    "SoftMarginLoss": (lambda t, **k: t.nn.SoftMarginLoss(**k), x(3, 4), signs(3, 4).astype(int)),
    "MultiLabelMarginLoss": (
        lambda t, **k: t.nn.MultiLabelMarginLoss(**k),
        x(2, 4),
        np.array([[3, 0, -1, 1], [1, -1, 0, 0]]),
    ),
    "MultiLabelSoftMarginLoss": (
        lambda t, **k: t.nn.MultiLabelSoftMarginLoss(**k),
        x(3, 4),
        chance(3, 4),
    ),
    "MultiMarginLoss": (
        lambda t, **k: t.nn.MultiMarginLoss(p=2, weight=weights(t, 1.0, 2.0, 0.5, 3.0), **k),
        x(3, 4),
        np.array([0, 3, 1]),
    ),
    "CosineEmbeddingLoss": (
        lambda t, **k: t.nn.CosineEmbeddingLoss(margin=0.1, **k),
        x(3, 4),
        x(3, 4),
        signs(3),
    ),
    "MarginRankingLoss": (
        lambda t, **k: t.nn.MarginRankingLoss(margin=0.1, **k),
        x(5),
        x(5),
        signs(5),
    ),
    "TripletMarginLoss": (
        lambda t, **k: t.nn.TripletMarginLoss(swap=True, **k),
        x(3, 4),
        x(3, 4),
        x(3, 4),
    ),
    "TripletMarginWithDistanceLoss": (
        lambda t, **k: t.nn.TripletMarginWithDistanceLoss(margin=2.0, swap=True, **k),
        x(3, 4),
        x(3, 4),
        x(3, 4),
    ),
}


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_equals_torchs(name, reduction):
    make, *inputs = LOSSES[name]
    compare(lambda t: make(t, reduction=reduction), *inputs)


def test_batch_mean_equals_torchs():
    compare(lambda t: t.nn.KLDivLoss(reduction="batchmean"), x(3, 4), chance(3, 4))


def test_former_flags_mean_reductions():
    import wend

    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert wend.nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert wend.nn.CrossEntropyLoss(reduce=False).reduction == "none"


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_loss_equals_torchs(reduction, zero_infinity):
    scores = torch.tensor(x(6, 3, 4)).log_softmax(-1).numpy()
    targets = np.array([[1, 1, 2], [3, 0, 0], [1, 2, 3]])
    lengths, sizes = np.array([6, 5, 2]), np.array([3, 1, 3])
    results = []
    import wend

    for t in (torch, wend):
        given = t.tensor(scores).requires_grad_()
        loss = t.nn.CTCLoss(reduction=reduction, zero_infinity=zero_infinity)(
            given, t.tensor(targets), t.tensor(lengths), t.tensor(sizes)
        )
        results.append(loss.detach().numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)


def test_ctc_loss_of_one_sequence_equals_torchs():
    import wend

    values = []
    for t in (torch, wend):
        scores = t.tensor(ONE)
        values.append(
            float(
                t.nn.CTCLoss()(scores.log_softmax(-1), t.tensor([1, 2]), t.tensor(5), t.tensor(2))
            )
        )
    assert values[0] == pytest.approx(values[1], rel=1e-5)


def test_ctc_gradients_through_a_softmax_equal_torchs():
    import wend

    grads = []
    for t in (torch, wend):
        logits = t.tensor(ONE).requires_grad_()
        loss = t.nn.functional.ctc_loss(
            logits.log_softmax(-1).unsqueeze(1), t.tensor([[1, 1]]), [5], [2], reduction="sum"
        )
        loss.backward()
        grads.append(logits.grad.numpy())
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_ctc_losses_of_drawn_lengths_equal_torchs(seed):
    """Lengths of 0, blanks at either end, labels in rows or all in a row."""
    import wend

    draw = random.Random(seed)
    longest, batch, classes, most = (
        draw.randint(*ends) for ends in [(1, 9), (1, 5), (2, 6), (0, 4)]
    )
    steps = [longest] * batch if seed % 3 == 0 else [draw.randint(0, longest) for _ in range(batch)]
    sizes = [draw.randint(0, most) for _ in range(batch)]
    blank = draw.choice([0, classes - 1])
    others = [c for c in range(classes) if c != blank]
    rows = [[draw.choice(others) for _ in range(most)] for _ in range(batch)]
    if seed % 2:
        labels = np.array([c for row, size in zip(rows, sizes, strict=True) for c in row[:size]])
    else:  # behind a row's own labels there may be anything
        labels = np.array(
            [[*r[:n], *[-100] * (most - n)] for r, n in zip(rows, sizes, strict=True)]
        ).reshape(batch, most)
    scores = np.random.default_rng(seed).normal(size=(longest, batch, classes))
    reduction = draw.choice(["mean", "sum", "none"])
    results = []
    for t in (torch, wend):
        x = t.tensor(scores, requires_grad=True)
        lengths = t.tensor(labels.astype(np.int64)), t.tensor(steps), t.tensor(sizes)
        loss = t.nn.functional.ctc_loss(x.log_softmax(2), *lengths, blank, reduction, True)
        loss.sum().backward()
        results.append((loss.detach().numpy(), x.grad.numpy()))
    for mine, expected in zip(*reversed(results), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-12)
