"""Random training programs whose ranks take different paths, beside one process on all data.

    python tests/distributed/random_paths.py --programs 1000 --ranks 3

A seed draws the blocks of a module, and for each step and rank the blocks that are called, in their
order and number, which weights are frozen, how gradients are set back, micro-batches, whether the
loss is read first, and how the loss is made. No run may hang, and each must equal the reference.
"""

import argparse

import numpy as np
import ranks

import wend as torch
import wend.nn.functional as F
from wend import nn

WIDTH = 5
STEPS = 3


class Block(nn.Module):
    """A layer of some kind: (n, 5) -> (n, 5)."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        if self.kind == 0:
            return self.linear(x).tanh()
        if self.kind == 1:
            return x * self.scale + 0.1 * self.linear(x).relu()
        if self.kind == 2:
            return F.layer_norm(x, (WIDTH,), self.scale) + x
        return x + F.gelu(self.linear(x)) * self.scale.sigmoid()


class Router(nn.Module):
    """Calls the blocks that it is told to, in that order."""

    def __init__(self, rng):
        super().__init__()
        self.blocks = nn.ModuleList(
            [Block(int(rng.integers(4))) for _ in range(rng.integers(2, 7))]
        )
        self.leave = nn.Linear(WIDTH, 3)

    def forward(self, x, path):
        for k in path:
            x = self.blocks[k](x)
        return self.leave(x) if len(path) % 2 == 0 else x[:, :3]


def part(rng, blocks):
    """(data, labels, path, kind of loss, whether the loss is read first) of a rank."""
    rows = 3
    x = torch.tensor(rng.normal(size=(rows, WIDTH)).astype("f"))
    labels = torch.tensor(rng.integers(0, 3, rows))
    path = [int(k) for k in rng.integers(0, blocks, rng.integers(0, 6))]
    return x, labels, path, int(rng.integers(3)), bool(rng.integers(2))


def loss_of(net, x, labels, path, kind, read):
    y = net(x, path)
    if kind == 0:
        loss = F.cross_entropy(y, labels)
    elif kind == 1:
        loss = y.pow(2).mean()
    else:
        loss = (y.softmax(1) * torch.arange(3.0)).sum(1).mean()
    if not loss.requires_grad:  # no block was called: nothing is used on this rank
        loss = loss + torch.zeros((), requires_grad=True)
    if read:
        assert np.isfinite(loss.item())
    return loss


def train(seed, n, rank=None, wrap=None):
    """Parameters and gradients behind the last step; rank None: one process on all data."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    model = Router(rng)
    net = model if wrap is None else wrap(model)
    blocks = len(model.blocks)
    optimizer = (torch.optim.SGD, torch.optim.Adam)[int(rng.integers(2))](
        model.parameters(), lr=0.02
    )
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=bool(rng.integers(2)))
        for block in model.blocks:
            block.requires_grad_(bool(rng.integers(4)))
        micro = int(rng.integers(1, 3))
        for m in range(micro):
            parts = [part(rng, blocks) for _ in range(n)]

            def go(parts=parts):
                if rank is None:
                    (sum(loss_of(net, *one) for one in parts) / n).backward()
                else:
                    loss_of(net, *parts[rank]).backward()

            if rank is not None and m < micro - 1:
                with net.no_sync():
                    go()
            else:
                go()
        optimizer.step()
    rows = list(model.named_parameters())
    grads = {k: None if p.grad is None else p.grad.numpy().copy() for k, p in rows}
    return {"parameters": {k: p.detach().numpy().copy() for k, p in rows}, "gradients": grads}


def in_ranks(first, count):
    """Run programs in this rank."""
    import wend.distributed as dist
    from wend.nn.parallel import DistributedDataParallel

    dist.init_process_group("mpi")
    rank, n = dist.get_rank(), dist.get_world_size()

    def wrap(model):
        return DistributedDataParallel(model, bucket_cap_mb=0.0003)

    return [train(seed, n, rank, wrap) for seed in range(first, first + count)]


def check(first, count, n, timeout):
    """Run programs in n ranks; return the seeds whose results are not the reference's."""
    results = ranks.run(__file__, "in_ranks", n, first, count, timeout=timeout)
    return [first + k for k in range(count) if differs(first + k, n, [row[k] for row in results])]


def differs(seed, n, found):
    """Whether any rank's parameters or gradients are not those of one process."""
    expected = train(seed, n)
    for row in found:
        for kind in ("parameters", "gradients"):
            for name, value in expected[kind].items():
                there = row[kind][name]
                if (value is None) is not (there is None):
                    return True
                if value is not None and not np.allclose(there, value, 2e-5, 2e-6):
                    return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    wrong = []
    for first in range(given.seed, given.seed + given.programs, 50):
        count = min(50, given.seed + given.programs - first)
        wrong += check(first, count, given.ranks, 540.0)
        print(f"{first + count - given.seed} programs, wrong: {wrong}", flush=True)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
