"""Small networks: (module, function from a batch size to an input)."""

import wend as torch
import wend.nn.functional as F
from wend import nn


class Digits(nn.Module):
    """The CNN of examples/digits.py."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 12, 3, padding=1)
        self.second = nn.Conv2d(12, 24, 3, padding=1)
        self.drop = nn.Dropout(0.2)
        self.output = nn.Linear(24 * 2 * 2, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.output(self.drop(x.flatten(1)))


class Residual(nn.Module):
    """A ResNet of one block, for images of any size, with ops in place."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, 2, padding=1, bias=False), nn.BatchNorm2d(16)
        self.conv = nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.norm2, self.relu = nn.BatchNorm2d(16), nn.ReLU(inplace=True)
        self.output = nn.Linear(16, 4)

    def forward(self, x):
        y = self.relu(self.norm(self.stem(x)))
        z = self.norm2(self.conv(y))
        z += y
        return self.output(self.relu(z).mean(dim=(2, 3)))


class Words(nn.Module):
    """A transformer over words, of any number and length."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(20, 16), nn.Embedding(30, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, x):
        y = self.words(x) + self.places(torch.arange(x.shape[1]))
        return self.layer(y).mean(dim=1).softmax(dim=-1)


def net(name):
    """(module for evaluation, function from a batch size to an input)"""
    torch.manual_seed(3)
    if name == "mlp":
        layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        return layers.eval(), lambda n: torch.randn(n, 8)
    if name == "digits":
        return Digits().eval(), lambda n: torch.randn(n, 1, 8, 8)
    if name == "residual":
        return Residual().eval(), lambda n: torch.randn(n, 3, 20 + n, 17)
    return Words().eval(), lambda n: torch.randint(0, 20, (n, n + 2))


NETS = ("mlp", "digits", "residual", "words")
