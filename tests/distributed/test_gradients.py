"""Gradients through collectives: equal to one process that does the work of all ranks."""

import numpy as np
import pytest
from ranks import missing, run

import wend as torch
from wend import distributed as dist
from wend.distributed import _functional_collectives as functional
from wend.distributed.nn import functional as nn

needs_mpi = pytest.mark.skipif(bool(missing()), reason=missing() or "MPI is there")


def leaf(rank, shape=(3, 2)):
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 10 * rank + 1
    return torch.tensor(values, requires_grad=True)


def weights(rank, shape=(3, 2)):
    """The factors of a rank's results before the sum: they differ from rank to rank."""
    values = np.cos(np.arange(np.prod(shape)) + 3 * rank).astype(np.float32)
    return torch.tensor(values.reshape(shape))


# Each case: a rank's result for all ranks' leaves, by a single process. The loss is the sum of all
# ranks' results times weights, and gradients are those of that loss.
def all_reduce(xs, rank):
    return sum(xs)


def mean(xs, rank):
    return sum(xs) / len(xs)


def broadcast(xs, rank):
    return xs[1]


def all_gather(xs, rank):
    return torch.stack(xs)


def reduce_scatter(xs, rank):
    return sum(x[rank] for x in xs)


def all_to_all(xs, rank):
    return torch.stack([x[rank] for x in xs])


def gather(xs, rank):
    return torch.stack(xs) if rank == 1 else torch.zeros(len(xs), 3, 2)


def scatter(xs, rank):
    return xs[0][rank]


def reduce(xs, rank):
    return sum(xs) if rank == 1 else torch.zeros(3, 2)


CASES = (
    all_reduce, mean, broadcast, all_gather, reduce_scatter, all_to_all, gather, scatter, reduce,
)  # fmt: skip


def by_ranks(name, x):
    """The rank's result, by collectives."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return {
        "all_reduce": lambda: nn.all_reduce(x),
        "mean": lambda: nn.all_reduce(x, dist.ReduceOp.AVG),
        "broadcast": lambda: nn.broadcast(x, 1),
        "all_gather": lambda: torch.stack(nn.all_gather(x)),
        "reduce_scatter": lambda: nn.reduce_scatter(torch.empty(2), list(x)),
        "all_to_all": lambda: torch.stack(nn.all_to_all([torch.empty(2)] * ranks, list(x))),
        "gather": lambda: torch.stack(nn.gather(x, 1)),
        "scatter": lambda: nn.scatter(list(x), 0),
        "reduce": lambda: nn.reduce(x, 1) * (1.0 if rank == 1 else 0.0),
    }[name]()


def gradients():
    dist.init_process_group("mpi")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = {}
    for case in CASES:
        x = leaf(rank)
        y = by_ranks(case.__name__, x)
        (y * weights(rank, tuple(y.shape)) * y).sum().backward()
        found[case.__name__] = [y, x.grad]
    x = leaf(rank, (6, 2))
    y = functional.all_gather_tensor(x, 1, dist.group.WORLD)
    z = functional.reduce_scatter_tensor(y.sin(), "sum", 1, "default")
    w = functional.all_to_all_single(z, None, None, list(range(ranks)))
    v = functional.all_reduce(w, "avg", dist.init_device_mesh("cpu", (ranks,)))
    u = functional.permute_tensor(v, [(k + 1) % ranks for k in range(ranks)], dist.group.WORLD)
    functional.wait_tensor(u).sum().backward()
    found["chain"] = [u, x.grad]
    found["greatest"] = functional.all_reduce(leaf(rank), "max", dist.group.WORLD)
    return found


def uneven():
    dist.init_process_group("mpi")
    rank = dist.get_rank()
    x = leaf(rank, (3, 2))
    received, sent = ([1, 1], [1, 2]) if rank == 0 else ([2, 2], [1, 2])
    y = nn.all_to_all_single(torch.empty(sum(received), 2), x, received, sent)
    (y * (rank + 1)).sum().backward()
    try:
        nn.all_reduce(x, dist.ReduceOp.MAX)
    except RuntimeError as error:
        text = str(error)
    return [y, x.grad, text]


@needs_mpi
def test_gradients_are_those_of_a_single_process():
    ranks = 3
    results = run(__file__, "gradients", ranks)
    for case in CASES:
        xs = [leaf(rank) for rank in range(ranks)]
        ys = [case(xs, rank) for rank in range(ranks)]
        total = sum((y * weights(r, tuple(y.shape)) * y).sum() for r, y in enumerate(ys))
        total.backward()
        for rank in range(ranks):
            y, grad = results[rank][case.__name__]
            np.testing.assert_allclose(y, ys[rank].detach().numpy(), rtol=1e-6)
            want = np.zeros((3, 2)) if xs[rank].grad is None else xs[rank].grad.numpy()
            np.testing.assert_allclose(grad, want, rtol=1e-5, atol=1e-5, err_msg=case.__name__)
    xs = [leaf(rank, (6, 2)) for rank in range(ranks)]
    joined = torch.cat(xs, 1)
    parts = [(ranks * joined.sin()).chunk(ranks, 1)[rank] for rank in range(ranks)]
    swapped = [torch.cat([p.chunk(ranks, 0)[rank] for p in parts]) for rank in range(ranks)]
    mean = sum(swapped) / ranks
    (mean.sum() * ranks).backward()
    for rank in range(ranks):
        u, grad = results[rank]["chain"]
        np.testing.assert_allclose(u, mean.detach().numpy(), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(grad, xs[rank].grad.numpy(), rtol=1e-5, atol=1e-5)
        assert np.array_equal(results[rank]["greatest"], leaf(ranks - 1).detach().numpy())


@needs_mpi
def test_uneven_parts():
    zero, one = run(__file__, "uneven", 2)
    a, b = leaf(0).detach().numpy(), leaf(1).detach().numpy()
    assert np.array_equal(zero[0], np.concatenate([a[:1], b[:1]]))
    assert np.array_equal(one[0], np.concatenate([a[1:], b[1:]]))
    want = np.array([[1, 1], [2, 2], [2, 2]])
    assert np.array_equal(zero[1], want) and np.array_equal(one[1], want)
    assert "SUM and AVG" in zero[2]
