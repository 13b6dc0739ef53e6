"""Data-parallel training: a CNN on scikit-learn's digits, and the TreeLSTM of ``trees.py``.

    wend launch --nproc-per-node 2 examples/distributed.py           # Wend
    torchrun --nproc-per-node 2 examples/distributed.py              # PyTorch
    wend run examples/distributed.py                                 # one process

Each process takes its own part of every batch, and `DistributedDataParallel` averages gradients.
The trees of a batch are unlike, so that no two processes run the same path. The losses are those of
one process on whole batches, up to rounding: ``--seed`` decides weights and batches alone.
"""

from __future__ import annotations

import os
import random
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from common import options, report, same_start
from digits import CNN, load
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from trees import UNKNOWN, TreeLSTM, accuracy, functions


def begin() -> tuple[int, int]:
    """Begin the process group; return (number of this process, number of processes)."""
    alone = not any(name in os.environ for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"))
    rest = {"init_method": "tcp://127.0.0.1:29500", "world_size": 1, "rank": 0} if alone else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # under MPI, Wend says that MPI carries the data
        dist.init_process_group("gloo", **rest)
    return dist.get_rank(), dist.get_world_size()


def mean_over_all(loss: torch.Tensor) -> float:
    """Return the mean of a loss over the processes."""
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


class Digits:
    """Reads digits by the CNN."""

    def __init__(self, args: Any) -> None:
        self.data, test = load(args.seed, args.limit or 1797)
        self.images, self.labels = test.tensors
        self.model = CNN()
        self.model.drop = nn.Identity()  # processes would draw unlike masks
        self.module: nn.Module = self.model
        self.share = args.batch_size // dist.get_world_size()
        self.sampler = DistributedSampler(self.data, seed=args.seed, drop_last=True)
        self.rate = 3e-3

    def parts(self, epoch: int) -> Iterator[tuple[Any, torch.Tensor]]:
        """Yield this process's part (inputs, answers) of each batch."""
        self.sampler.set_epoch(epoch)
        yield from DataLoader(self.data, self.share, sampler=self.sampler, drop_last=True)

    def accuracy(self) -> float:
        """Return the share of held-out images that are read right."""
        self.model.eval()
        with torch.no_grad():
            return (self.model(self.images).argmax(dim=1) == self.labels).float().mean().item()


class Trees:
    """Tells by the TreeLSTM whether functions return a value: no two parts take the same path."""

    def __init__(self, args: Any) -> None:
        self.data, self.test = functions(40, args.modules)
        random.Random(0).shuffle(self.data)
        self.data, self.test = self.data[: args.limit or 400], self.test[:100]
        counts = Counter(label for tree, _ in self.data for label in tree.labels())
        known = [label for label, count in sorted(counts.items()) if count > 2]
        self.model = TreeLSTM({label: n for n, label in enumerate(known, start=UNKNOWN + 1)})
        self.module: nn.Module = AllTrees(self.model)
        self.size, self.seed = args.batch_size, args.seed
        self.rate = 4e-3

    def parts(self, epoch: int) -> Iterator[tuple[Any, torch.Tensor]]:
        """Yield this process's part (inputs, answers) of each batch."""
        order = list(self.data)
        random.Random(self.seed + epoch).shuffle(order)
        share = self.size // dist.get_world_size()
        for start in range(0, len(order) - self.size + 1, self.size):
            first = start + dist.get_rank() * share
            trees, answers = zip(*order[first : first + share], strict=True)
            yield trees, torch.tensor(answers)

    def accuracy(self) -> float:
        """Return the share of held-out functions that are answered right."""
        return accuracy(self.model, self.test)


class AllTrees(nn.Module):
    """The scores of many trees: a single call of the wrapped module for each batch."""

    def __init__(self, model: TreeLSTM) -> None:
        super().__init__()
        self.model = model

    def forward(self, trees: Sequence[Any]) -> torch.Tensor:
        return torch.cat([self.model(tree) for tree in trees])


def train(task: Digits | Trees, epochs: int) -> dict[str, Any]:
    """Train together with all processes; return the losses of all steps and the accuracy."""
    wrapped = DistributedDataParallel(task.module)
    optimizer = torch.optim.Adam(task.model.parameters(), lr=task.rate)
    losses = []
    for epoch in range(epochs):
        for inputs, answers in task.parts(epoch):
            optimizer.zero_grad()
            loss = F.cross_entropy(wrapped(inputs), answers)
            loss.backward()  # all processes now have the mean of their gradients
            optimizer.step()
            losses.append(mean_over_all(loss))
    return {"losses": losses, "accuracy": task.accuracy()}


TASKS = {"digits": Digits, "trees": Trees}


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Train by the tasks; return losses and accuracies by task."""
    parser = options(__doc__)
    parser.add_argument("--task", choices=[*TASKS, "both"], default="both")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, default=0, help="training examples (0: all)")
    parser.add_argument("--modules", type=int, default=40, help="modules to read trees from")
    parser.add_argument("--batch-size", type=int, default=48, help="examples of all processes")
    args = parser.parse_args(argv)
    rank, size = begin()
    if args.batch_size % size:
        parser.error(f"--batch-size {args.batch_size} cannot be shared out among {size} processes")
    torch.manual_seed(args.seed)
    names = list(TASKS) if args.task == "both" else [args.task]
    tasks = {name: TASKS[name](args) for name in names}
    same_start(nn.ModuleDict({name: task.model for name, task in tasks.items()}), args)
    found = {}
    for name, task in tasks.items():
        found[name] = train(task, args.epochs)
        if rank == 0:
            last, score = found[name]["losses"][-1], found[name]["accuracy"]
            print(f"{name}: {size} processes, loss {last:.4f}, accuracy {score:.1%}")
    dist.destroy_process_group()
    return report(found, args) if rank == 0 else found


if __name__ == "__main__":
    main()
