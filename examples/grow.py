"""A model that adds layers while it trains, exits early, and loops as often as the data asks.

The data is scikit-learn's digits. The model starts as one layer and an exit; after each stage of
training it grows by a block and another exit, which start as the identity and a copy, so that
nothing learnt is lost. A block repeats until its state settles. On held-out images, one at a time,
the model stops at the first exit that is sure of its answer: easy images leave early.

    python examples/grow.py        # PyTorch
    wend run examples/grow.py      # Wend
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import options, progress, report, same_start
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

WIDTH = 24


class Block(nn.Module):
    """h + f(h) + f(h)/2 + ..., until the change is small: (n, width) -> (n, width).

    Each turn's f sees the turn before's result. f starts as zero. Its first weights come from
    NumPy: the same with every framework.
    """

    def __init__(self, rng: np.random.Generator, tolerance: float = 0.05, most: int = 6) -> None:
        super().__init__()
        self.enter = nn.Linear(WIDTH, 2 * WIDTH)
        self.leave = nn.Linear(2 * WIDTH, WIDTH)
        self.tolerance, self.most = tolerance, most
        first = rng.normal(0, WIDTH**-0.5, size=(2 * WIDTH, WIDTH)).astype(np.float32)
        with torch.no_grad():
            self.enter.weight.copy_(torch.from_numpy(first))
            for zeroed in (self.enter.bias, self.leave.weight, self.leave.bias):
                zeroed.zero_()

    def forward(self, h: torch.Tensor) -> tuple[torch.Tensor, int]:
        """Return the settled state, and how many turns it took."""
        for turn in range(1, self.most + 1):
            change = self.leave(torch.relu(self.enter(h))) / 2 ** (turn - 1)
            h = h + change
            if change.detach().norm() < self.tolerance * h.detach().norm():
                break
        return h, turn


class Growing(nn.Module):
    """A stem, blocks that come one by one, and an exit behind each: (n, 64) -> (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(64, WIDTH)
        self.blocks = nn.ModuleList()
        self.exits = nn.ModuleList([nn.Linear(WIDTH, 10)])

    def grow(self, rng: np.random.Generator) -> list[nn.Parameter]:
        """Add a block and an exit that change nothing yet; return their parameters."""
        block, way_out = Block(rng), nn.Linear(WIDTH, 10)
        way_out.load_state_dict(self.exits[-1].state_dict())
        self.blocks.append(block)
        self.exits.append(way_out)
        return [*block.parameters(), *way_out.parameters()]

    def forward(self, x: torch.Tensor) -> tuple[list[torch.Tensor], list[int]]:
        """Return the scores at every exit, each (n, 10), and every block's turns."""
        h = torch.relu(self.stem(x))
        scores, turns = [self.exits[0](h)], []
        for block, way_out in zip(self.blocks, list(self.exits)[1:], strict=True):
            h, turn = block(h)
            scores.append(way_out(h))
            turns.append(turn)
        return scores, turns

    def answer(self, x: torch.Tensor, sure: float) -> tuple[int, int]:
        """Return (digit, exit taken) for one image (1, 64): the first exit that is sure."""
        h = torch.relu(self.stem(x))
        for depth, way_out in enumerate(self.exits):
            chances = F.softmax(way_out(h), dim=1)
            if chances.max() > sure or depth == len(self.blocks):
                break
            h, _ = self.blocks[depth](h)
        return chances.argmax().item(), depth


def deepest_loss(model: Growing, x: torch.Tensor, y: torch.Tensor) -> float:
    """Return the loss at the last exit, over all of the data."""
    with torch.no_grad():
        return F.cross_entropy(model(x)[0][-1], y).item()


def train_stage(
    model: Growing, optimizer: torch.optim.Optimizer, data: Any, args: Any, shuffler: random.Random
) -> Counter[int]:
    """Train every exit for a stage; return how often a block took how many turns."""
    x, y = data
    taken: Counter[int] = Counter()
    for _ in progress(range(args.epochs), "a stage"):
        order = list(range(len(x)))
        shuffler.shuffle(order)
        for start in range(0, len(order), args.batch_size):
            chosen = torch.tensor(order[start : start + args.batch_size])
            scores, turns = model(x[chosen])
            loss = sum(F.cross_entropy(score, y[chosen]) for score in scores) / len(scores)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            taken.update(turns)
    return taken


def load(seed: int, limit: int) -> tuple[Any, Any]:
    """Return ((x, y) for training, (x, y) held out): x (n, 64) in [0, 1], y (n,) of int64."""
    digits = load_digits()
    images = (digits.data[:limit] / 16).astype(np.float32)
    labels = digits.target[:limit].astype(np.int64)
    parts = train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=seed)
    x, x_test, y, y_test = map(torch.from_numpy, parts)
    return (x, y), (x_test, y_test)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Train and grow; return the loss after each stage, exit depths, turns and accuracy."""
    parser = options(__doc__)
    parser.add_argument("--stages", type=int, default=4, help="stages of training: growths + 1")
    parser.add_argument("--epochs", type=int, default=6, help="epochs a stage")
    parser.add_argument("--limit", type=int, default=1797, help="images")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3, help="halved at each growth")
    parser.add_argument("--sure", type=float, default=0.95, help="an exit's chance to stop at")
    args = parser.parse_args(argv)
    train, (x_test, y_test) = load(args.seed, args.limit)
    torch.manual_seed(args.seed)
    model = Growing()
    same_start(model, args)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    rng, shuffler = np.random.default_rng(args.seed), random.Random(args.seed)
    losses, turns = [], Counter()
    for stage in range(args.stages):
        if stage:
            optimizer.add_param_group({"params": model.grow(rng)})
            for group in optimizer.param_groups:  # smaller steps as there is less left to learn
                group["lr"] = args.lr / 2**stage
        turns += train_stage(model, optimizer, train, args, shuffler)
        losses.append(deepest_loss(model, *train))
        print(f"{stage} blocks: loss {losses[-1]:.4f}, turns so far {sorted(turns.items())}")
    with torch.no_grad():
        answers = [model.answer(image[None], args.sure) for image in x_test]
    right = sum(digit == y for (digit, _), y in zip(answers, y_test.tolist(), strict=True))
    depths = Counter(depth for _, depth in answers)
    print(f"held-out images: exits {sorted(depths.items())}, right {right / len(answers):.1%}")
    metrics = {
        "losses": losses,
        "depths": [depths[depth] for depth in range(args.stages)],
        "turns": dict(turns),
        "accuracy": right / len(answers),
    }
    return report(metrics, args)


if __name__ == "__main__":
    main()
