"""einops, torchmetrics, torchdiffeq, skorch: libraries without a model of their own."""

import numpy as np
import pytest


@pytest.mark.library("einops")
def test_einops(library, torch, falls):
    """Functions and layers, training of `EinMix`."""
    einops = library("einops")
    from einops.layers.torch import EinMix, Rearrange, Reduce

    x = torch.randn(2, 3, 4, 6)
    y = einops.rearrange(x, "b c (h p) w -> b (h w) (p c)", p=2)
    assert y.shape == (2, 12, 6)
    assert torch.equal(einops.reduce(x, "b c h w -> b c", "max"), x.amax((2, 3)))
    assert einops.repeat(x, "b c h w -> b c (h r) w", r=2).shape == (2, 3, 8, 6)
    packed, shapes = einops.pack([x, x[:, :1]], "b * h w")
    assert torch.equal(einops.unpack(packed, shapes, "b * h w")[1], x[:, :1])
    assert torch.allclose(
        einops.einsum(x, x, "b c h w, b d h w -> b c d")[0, 1, 1], x[0, 1].pow(2).sum()
    )
    net = torch.nn.Sequential(
        Rearrange("b c h w -> b h w c"),
        EinMix("b h w c -> b h w d", weight_shape="c d", bias_shape="d", c=3, d=5),
        Reduce("b h w d -> b d", "mean"),
    )
    falls(net.parameters(), lambda: (net(x) - 1).square().mean())


@pytest.mark.library("torchmetrics")
def test_torchmetrics(library, torch):
    """Classification, regression, text, collections."""
    torchmetrics = library("torchmetrics")
    scores = torch.randn(50, 3).softmax(1)
    target = torch.randint(0, 3, (50,))
    metrics = torchmetrics.MetricCollection(
        [
            torchmetrics.Accuracy(task="multiclass", num_classes=3),
            torchmetrics.F1Score(task="multiclass", num_classes=3, average="macro"),
            torchmetrics.AUROC(task="multiclass", num_classes=3),
            torchmetrics.ConfusionMatrix(task="multiclass", num_classes=3),
        ]
    )
    for part in range(0, 50, 10):
        metrics.update(scores[part : part + 10], target[part : part + 10])
    found = metrics.compute()
    right = (scores.argmax(1) == target).float()
    assert torch.allclose(found["MulticlassAccuracy"], right.mean())
    assert found["MulticlassConfusionMatrix"].sum() == 50
    from sklearn.metrics import f1_score, roc_auc_score

    want = f1_score(target.numpy(), scores.argmax(1).numpy(), average="macro")
    assert found["MulticlassF1Score"].item() == pytest.approx(want, rel=1e-5)
    want = roc_auc_score(target.numpy(), scores.numpy(), multi_class="ovr")
    assert found["MulticlassAUROC"].item() == pytest.approx(want, rel=1e-5)
    x, y = torch.randn(40), torch.randn(40)
    pearson = torchmetrics.PearsonCorrCoef()
    pearson.update(x[:20], y[:20])
    pearson.update(x[20:], y[20:])
    want = np.corrcoef(x.numpy(), y.numpy())[0, 1]
    assert pearson.compute().item() == pytest.approx(want, abs=1e-5)
    text = torchmetrics.text.WordErrorRate()
    assert text(["this is it"], ["this was it"]).item() == pytest.approx(1 / 3)


@pytest.mark.library("torchdiffeq")
@pytest.mark.parametrize("adjoint", [False, True])
def test_torchdiffeq(library, torch, falls, adjoint):
    """Four solvers, plain and adjoint gradients."""
    torchdiffeq = library("torchdiffeq")
    solve = torchdiffeq.odeint_adjoint if adjoint else torchdiffeq.odeint
    times = torch.linspace(0.0, 1.0, 5)

    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Parameter(torch.tensor([[0.0, 0.5], [-0.5, 0.0]]))

        def forward(self, t, y):
            return y @ self.a

    field, start = Field(), torch.tensor([[1.0, 0.0]])
    for method in ("dopri5", "rk4", "euler", "implicit_adams"):
        path = solve(field, start, times, method=method)
        tolerance = 0.1 if method == "euler" else 1e-3
        want = torch.stack([torch.linalg.matrix_exp(field.a * t)[0] for t in times])
        assert torch.allclose(path[:, 0], want, atol=tolerance)
    target = torch.tensor([[0.0, 1.0]])
    falls(field.parameters(), lambda: (solve(field, start, times)[-1] - target).square().sum())


@pytest.mark.library("skorch")
def test_skorch(library, torch):
    """A classifier, grid search."""
    skorch = library("skorch")
    from sklearn.datasets import make_classification
    from sklearn.model_selection import GridSearchCV

    x, y = make_classification(200, 8, random_state=0)

    class Net(torch.nn.Module):
        def __init__(self, width=8):
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 2)
            )

        def forward(self, x):
            return self.layers(x)

    net = skorch.NeuralNetClassifier(
        Net, criterion=torch.nn.CrossEntropyLoss, max_epochs=10, lr=0.1, verbose=0
    )
    net.fit(x.astype("float32"), y.astype("int64"))
    losses = net.history[:, "train_loss"]
    assert losses[-1] < losses[0] and net.score(x.astype("float32"), y) > 0.7
    search = GridSearchCV(net, {"module__width": [4, 8]}, cv=2, scoring="accuracy")
    search.fit(x.astype("float32"), y.astype("int64"))
    assert search.best_score_ > 0.6
