"""Nets trained on a device: losses and parameters are those of the CPU, from the same seed."""

import numpy as np
import pytest

import wend
from wend import nn
from wend.nn import functional as F

pytestmark = pytest.mark.usefixtures("accelerator")


class Recurrent(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell(5, 7, batch_first=True)
        self.out = nn.Linear(7, 4)

    def forward(self, x):
        return self.out(self.cell(x)[0][:, -1])


class Attending(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=p, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        return self.out(self.layer(x).mean(1))


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 8, padding_idx=0)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        return self.out(self.table(x).mean(1))


def conv():
    # A bias in front of batch normalization has a gradient of 0, of which rounding leaves a sign.
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(36, 4),
    )  # fmt: skip


NETS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4)), (8, 6)),
    "dropout": (
        lambda: nn.Sequential(
            nn.Linear(6, 16), nn.GELU(), nn.Dropout(0.3), nn.LayerNorm(16), nn.Linear(16, 4)
        ),
        (8, 6),
    ),
    "conv": (conv, (4, 1, 8, 8)),
    "gru": (lambda: Recurrent(nn.GRU), (3, 6, 5)),
    "lstm": (lambda: Recurrent(nn.LSTM), (3, 6, 5)),
    "transformer": (lambda: Attending(0.0), (3, 6, 8)),
    "transformer, dropout": (lambda: Attending(0.2), (3, 6, 8)),
    "embedding": (Embedded, None),
}
#: A large eps: gradients that are 0 but for rounding would else become steps of any sign.
OPTIMIZERS = {
    "SGD": lambda p: wend.optim.SGD(p, 0.1, momentum=0.9),
    "Adam": lambda p: wend.optim.Adam(p, 0.01, eps=1e-3),
    "AdamW": lambda p: wend.optim.AdamW(p, 0.01, eps=1e-3),
}


def trained(net, optimizer, place):
    wend.manual_seed(3)
    make, shape = NETS[net]
    model = make()
    x = wend.randint(0, 10, (5, 6)) if shape is None else wend.randn(shape)
    target = wend.randint(0, 4, (len(x),))
    model.to(place)
    x, target = x.to(place), target.to(place)
    steps = OPTIMIZERS[optimizer](model.parameters())
    losses = []
    for _ in range(5):
        steps.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        steps.step()
        losses.append(loss.item())
    assert {p.device.type for p in model.parameters()} == {place}
    return losses, [p.detach().cpu().numpy() for p in model.parameters()]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("net", NETS)
def test_training_is_that_of_the_cpu(net, optimizer):
    losses, parameters = trained(net, optimizer, "xpu")
    expected_losses, expected = trained(net, optimizer, "cpu")
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5, atol=1e-5)
    for mine, theirs in zip(parameters, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
    assert losses[-1] < losses[0]
