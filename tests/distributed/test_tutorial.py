"""Programs as PyTorch's documentation writes them: messages, a ring, and training by hand.

The programs are those of "Writing distributed applications", written anew: each rank calls its
function directly, because MPI has started the ranks.
"""

import os

import numpy as np
import pytest
from ranks import missing, run, start

import wend as torch
from wend import distributed as dist
from wend import nn, optim

needs_mpi = pytest.mark.skipif(bool(missing()), reason=missing() or "MPI is there")


def begin():
    """As in programs for torchrun: rank and size come from the environment."""
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    dist.init_process_group("gloo", init_method="env://")
    return dist.get_rank(), dist.get_world_size()


def ring_all_reduce(send, recv):
    """recv = the sum of all ranks' `send`, by messages to the right and from the left."""
    rank, size = dist.get_rank(), dist.get_world_size()
    outgoing, total = send.clone(), send.clone()
    incoming = torch.zeros_like(send)
    for _ in range(size - 1):
        request = dist.isend(outgoing, (rank + 1) % size)
        dist.recv(incoming, (rank - 1 + size) % size)
        total += incoming
        request.wait()
        outgoing[:] = incoming[:]
    recv[:] = total[:]


def data(rank, size):
    """A rank's part of a small regression."""
    rows = np.random.default_rng(3).normal(size=(24, 3)).astype(np.float32)
    x = torch.tensor(rows[rank::size])
    return x, (x @ torch.tensor([1.0, -2.0, 0.5])).unsqueeze(1)


def model_of(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def train(parts, average):
    """Losses and parameters of synchronous gradient descent."""
    model = model_of(1234)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    for _ in range(10):
        optimizer.zero_grad()
        for x, y in parts:
            (nn.functional.mse_loss(model(x), y) / len(parts)).backward()
        average(model)
        optimizer.step()
    return [p.detach().numpy() for p in model.parameters()]


def average_gradients(model):
    size = float(dist.get_world_size())
    for p in model.parameters():
        dist.all_reduce(p.grad.data, op=dist.ReduceOp.SUM)
        p.grad.data /= size


def applications():
    rank, size = begin()
    found = {}
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 1
        dist.send(tensor=tensor, dst=1)
    elif rank == 1:
        dist.recv(tensor=tensor, src=0)
    found["blocking"] = tensor.clone()
    tensor, req = torch.zeros(1), None
    if rank == 0:
        tensor += 1
        req = dist.isend(tensor=tensor, dst=1)
    elif rank == 1:
        req = dist.irecv(tensor=tensor, src=0)
    if req is not None:
        req.wait()
    found["immediate"] = tensor.clone()
    group = dist.new_group(list(range(size)))
    ones = torch.ones(1)
    dist.all_reduce(ones, op=dist.ReduceOp.SUM, group=group)
    found["sum"] = ones
    received = torch.zeros(2, 2)
    ring_all_reduce(torch.full((2, 2), rank + 1.0), received)
    found["ring"] = received
    found["trained"] = train([data(rank, size)], average_gradients)
    dist.destroy_process_group()
    return found


@needs_mpi
def test_applications():
    ranks = 2
    whole = train([data(rank, ranks) for rank in range(ranks)], lambda model: None)
    for rank, found in enumerate(run(__file__, "applications", ranks)):
        assert found["blocking"] == found["immediate"] == (1 if rank < 2 else 0)
        assert found["sum"] == ranks and set(found["ring"].ravel()) == {3.0}
        for have, want in zip(found["trained"], whole, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-6, atol=1e-6)


FAILING = """
import sys
import wend as torch
import wend.distributed as dist

dist.init_process_group("mpi")
if dist.get_rank() == 1:
    raise ValueError("rank 1 gives up")
dist.all_reduce(torch.ones(3))
"""


@needs_mpi
def test_an_error_in_a_rank_ends_the_run(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(FAILING)
    outcome = start(path, None, 2, timeout=60)
    assert outcome.code != 0 and "rank 1 gives up" in outcome.output
