"""Train on scikit-learn's digits: an MLP and a small CNN, with checkpoints that resume bit for bit.

    python examples/digits.py      # PyTorch
    wend run examples/digits.py    # Wend

Both models are trained from five seeds on a stratified 80 % of the 1797 images, and reach 97 % and
more on the rest. With ``--checkpoint PATH`` the state of one run (``--seeds 1 --model cnn``) is
written every ``--every`` steps: weights, optimiser, schedule, random generators, and where in the
shuffled data the run is. It is written beside the old one and then moved into its place, so that a
crash leaves the one or the other. The same command with ``--resume`` goes on from there and ends
with the same bits as a run that was never stopped; ``--stop-after`` plays the interruption.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import options, progress, report, same_start
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset


class MLP(nn.Module):
    """Two hidden layers: (n, 1, 8, 8) -> (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 128),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class CNN(nn.Module):
    """Two convolutions and a linear layer: (n, 1, 8, 8) -> (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 12, 3, padding=1)
        self.second = nn.Conv2d(12, 24, 3, padding=1)
        self.drop = nn.Dropout(0.2)
        self.output = nn.Linear(24 * 2 * 2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.output(self.drop(x.flatten(1)))


MODELS = {"mlp": MLP, "cnn": CNN}


class ShuffledBatches(Sampler):
    """Batches of a fresh shuffle each epoch, which can stop and go on in the middle of one."""

    def __init__(self, count: int, batch_size: int, seed: int, shuffle: bool = True) -> None:
        self.count, self.batch_size, self.shuffle = count, batch_size, shuffle
        self.generator = torch.Generator().manual_seed(seed)
        self.position = 0  # batches of this epoch that were handed out
        self.epoch_start = self.generator.get_state()

    def __len__(self) -> int:
        return (self.count + self.batch_size - 1) // self.batch_size

    def __iter__(self) -> Iterator[list[int]]:
        if self.position in (0, len(self)):
            self.position, self.epoch_start = 0, self.generator.get_state()
        else:  # an epoch that was stopped: the same shuffle again
            self.generator.set_state(self.epoch_start)
        shuffled = torch.randperm(self.count, generator=self.generator).tolist()
        order = shuffled if self.shuffle else range(self.count)
        while self.position < len(self):
            start = self.position * self.batch_size
            self.position += 1
            yield list(order[start : start + self.batch_size])

    def state_dict(self) -> dict[str, Any]:
        """Return where in which shuffle the sampler is."""
        return {"position": self.position, "epoch_start": self.epoch_start}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where the state was taken."""
        self.position, self.epoch_start = state["position"], state["epoch_start"]
        self.generator.set_state(self.epoch_start)
        if self.position == len(self):  # the epoch was over: its shuffle is used up
            torch.randperm(self.count, generator=self.generator)


class Run:
    """One training run: model, optimiser, schedule, data order, and the losses so far."""

    def __init__(self, name: str, seed: int, args: Any) -> None:
        torch.manual_seed(seed)
        self.train, self.test = load(seed, args.limit)
        self.model = MODELS[name]()
        same_start(self.model, args)
        self.model.to(args.device)
        self.device = args.device
        if args.plain:
            for module in self.model.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.0
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.order = ShuffledBatches(len(self.train), args.batch_size, seed, not args.plain)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            self.optimizer, T_max=args.epochs * len(self.order)
        )
        self.losses: list[float] = []

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the rest of the run depends on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "order": self.order.state_dict(),
            "random": torch.get_rng_state(),
            "losses": self.losses,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the run whose state this is."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.order.load_state_dict(state["order"])
        torch.set_rng_state(state["random"])
        self.losses = list(state["losses"])

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """Train on one batch."""
        images, labels = images.to(self.device), labels.to(self.device)
        loss = F.cross_entropy(self.model(images), labels, label_smoothing=0.1)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.losses.append(loss.item())

    def accuracy(self) -> float:
        """Return the share of the held-out images that are read right."""
        self.model.eval()
        images, labels = (t.to(self.device) for t in self.test.tensors)
        with torch.no_grad():
            right = (self.model(images).argmax(dim=1) == labels).float().mean().item()
        self.model.train()
        return right

    def fingerprint(self) -> str:
        """Return a hash of every bit of the weights."""
        digest = hashlib.sha256()
        for value in self.model.state_dict().values():
            digest.update(value.cpu().numpy().tobytes())
        return digest.hexdigest()


def load(seed: int, limit: int) -> tuple[TensorDataset, TensorDataset]:
    """Return training and held-out images (n, 1, 8, 8) in [0, 1] with labels (n,) of int64."""
    digits = load_digits()
    images = (digits.images[:limit, None] / 16).astype(np.float32)
    labels = digits.target[:limit].astype(np.int64)
    parts = train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=seed)
    x, x_test, y, y_test = map(torch.from_numpy, parts)
    return TensorDataset(x, y), TensorDataset(x_test, y_test)


def save(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint so that a crash leaves the old one or the new one, never half of it."""
    temporary = path.with_name(path.name + ".new")
    try:
        with open(temporary, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def train(run: Run, title: str, args: Any) -> None:
    """Train to the end, or to ``--stop-after``; write checkpoints where asked."""
    path = Path(args.checkpoint) if args.checkpoint else None
    # A generator of its own: an iterator that draws from the global one would disturb dropout.
    loader = DataLoader(run.train, batch_sampler=run.order, generator=torch.Generator())
    total = args.epochs * len(run.order)
    with progress(title=title, total=total, begun=len(run.losses)) as bar:
        while len(run.losses) < total:
            for images, labels in loader:
                run.step(images, labels)
                done = len(run.losses)
                bar.set_postfix_str(f"loss {run.losses[-1]:.3f}", refresh=False)
                bar.update()
                if path and (done % args.every == 0 or done == total):
                    save(run.state_dict(), path)
                if done == args.stop_after:
                    return


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Train the models over the seeds; return losses, accuracies and the weights' hashes."""
    parser = options(__doc__)
    parser.add_argument("--model", choices=[*MODELS, "both"], default="both")
    parser.add_argument("--seeds", type=int, default=5, help="seeds to train from")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, xpu: where the nets train")
    parser.add_argument("--limit", type=int, default=1797, help="images")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument(
        "--plain", action="store_true", help="no dropout, no shuffle: nothing random but the start"
    )
    parser.add_argument("--checkpoint", metavar="PATH", help="write checkpoints here")
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--stop-after", type=int, default=0, help="stop after so many steps")
    args = parser.parse_args(argv)
    names = list(MODELS) if args.model == "both" else [args.model]
    if args.checkpoint and (len(names) > 1 or args.seeds > 1):
        parser.error("--checkpoint is for one run: add --seeds 1 and --model mlp or cnn")
    if args.resume and not args.checkpoint:
        parser.error("--resume needs --checkpoint")
    torch.use_deterministic_algorithms(True)
    metrics: dict[str, Any] = {}
    for name in names:
        runs = []
        for seed in range(args.seed, args.seed + args.seeds):
            run = Run(name, seed, args)
            if args.resume:
                run.load_state_dict(torch.load(args.checkpoint))
            train(run, f"{name}, seed {seed}", args)
            accuracy = run.accuracy()
            print(f"{name}, seed {seed}: loss {run.losses[-1]:.4f}, held-out {accuracy:.2%}")
            runs.append((run.losses, accuracy, run.fingerprint()))
        losses, accuracies, fingerprints = map(list, zip(*runs, strict=True))
        mean = sum(accuracies) / len(accuracies)
        print(f"{name}: mean of {len(runs)} seeds {mean:.2%}")
        metrics[name] = {"losses": losses, "accuracy": mean, "fingerprints": fingerprints}
    return report(metrics, args)


if __name__ == "__main__":
    main()
