"""One network, inputs of every size.

A network of convolutions takes an image of [1, 3, 150, 120], then one of [1, 3, 184, 100], in
training and in inference. With a linear layer behind it, sizes that fit go through, and for the
others the error names the layer and the shapes.

    python examples/sizes.py       # PyTorch
    wend run examples/sizes.py     # Wend
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import options, progress, report, same_start
from torch import nn

SIZES = [(150, 120), (184, 100)]


class Convolutions(nn.Module):
    """Three convolutions: (n, 3, height, width) -> (n, 16, height / 8, width / 8), rounded down."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.third = nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(torch.relu(self.first(x)), 2)
        x = F.max_pool2d(torch.relu(self.second(x)), 2)
        return F.max_pool2d(torch.relu(self.third(x)), 2)


class Classifier(nn.Module):
    """The convolutions, and a linear layer that fits images of 150 x 120 only."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Convolutions()
        self.head = nn.Linear(16 * 18 * 15, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).flatten(1))


def image(height: int, width: int, seed: int) -> torch.Tensor:
    """Return a picture of waves, [1, 3, height, width]; the seed shifts them."""
    rows = np.arange(height, dtype=np.float32).reshape(1, height, 1)
    columns = np.arange(width, dtype=np.float32).reshape(1, 1, width)
    channels = np.arange(1, 4, dtype=np.float32).reshape(3, 1, 1)
    picture = np.sin(rows * 0.11 * channels + seed) * np.cos(columns * 0.07 * channels)
    return torch.from_numpy(picture.astype(np.float32)[None])


def train(network: Convolutions, steps: int, seed: int) -> list[float]:
    """Train towards a mean activation of 1, image sizes taking turns; return the losses."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    losses = []
    for step in progress(range(steps), "training"):
        x = image(*SIZES[step % len(SIZES)], seed)
        loss = (network(x).mean(dim=(2, 3)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def infer(network: nn.Module, seed: int) -> dict[str, list[float]]:
    """Return shape, mean and largest value of the output for each size."""
    network.eval()
    results = {}
    with torch.no_grad():
        for height, width in SIZES:
            y = network(image(height, width, seed))
            print(f"inference [1, 3, {height}, {width}] -> {list(y.shape)}")
            results[f"{height}x{width}"] = [*y.shape, y.mean().item(), y.max().item()]
    return results


def with_linear(model: Classifier, seed: int) -> dict[str, str]:
    """Run every size, also through the linear layer; return 'ok' or the error's text for each."""
    results = {}
    for height, width in [*SIZES, (151, 127)]:
        try:
            y = model(image(height, width, seed))
            y.sum().backward()
            text = "ok"
        except RuntimeError as error:
            text = str(error)
        print(f"with a Linear behind it, [1, 3, {height}, {width}]: {text}")
        results[f"{height}x{width}"] = text
    return results


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run the three parts; return losses, inference numbers and the texts of the errors."""
    parser = options(__doc__)
    parser.add_argument("--steps", type=int, default=20, help="training steps")
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    model = Classifier()
    same_start(model, args)
    losses = train(model.body, args.steps, args.seed)
    print(f"training, sizes taking turns: loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    inference = infer(model.body, args.seed)
    linear = with_linear(model, args.seed)
    return report({"losses": losses, "inference": inference, "linear": linear}, args)


if __name__ == "__main__":
    main()
