"""Random programs: ranks begin collectives of several groups in orders of their own."""

import random

import numpy as np
import pytest
from ranks import missing, run

import wend as torch
from wend import distributed as dist

needs_mpi = pytest.mark.skipif(bool(missing()), reason=missing() or "MPI is there")

MEMBERS = ([0, 1, 2], [0, 1], [1, 2], [0, 2], [0, 1, 2])
LENGTH = 12


def program(seed):
    """For each group, its collectives: (kind, elements, root's place)."""
    source = random.Random(seed)
    kinds = ("all_reduce", "broadcast", "all_gather", "reduce_scatter")
    return [
        [
            (source.choice(kinds), source.choice([1, 7, 300, 40_000]), source.randrange(len(ranks)))
            for _ in range(LENGTH)
        ]
        for ranks in MEMBERS
    ]


def operand(seed, group, k, rank, count):
    return np.full(count, float((seed * 7 + group * 31 + k * 3 + rank) % 17), np.float32)


def expected(seed, group, k, place):
    """The result of a collective for a member, by NumPy."""
    kind, count, root = program(seed)[group][k]
    ranks = MEMBERS[group]
    each = [operand(seed, group, k, rank, count) for rank in ranks]
    if kind == "all_reduce":
        return sum(each)
    if kind == "broadcast":
        return each[root]
    if kind == "all_gather":
        return np.concatenate(each)
    wide = [np.tile(x, len(ranks)) for x in each]
    return np.split(sum(wide), len(ranks))[place]


def programs(seeds):
    dist.init_process_group("mpi")
    rank = dist.get_rank()
    groups = [dist.new_group(ranks) for ranks in MEMBERS]
    wrong = []
    for seed in range(seeds):
        source = random.Random(f"{seed} {rank}")
        left = {g: list(enumerate(p)) for g, p in enumerate(program(seed)) if rank in MEMBERS[g]}
        works = []
        while left:
            g = source.choice(sorted(left))
            k, (kind, count, root) = left[g].pop(0)
            if not left[g]:
                del left[g]
            group, ranks = groups[g], MEMBERS[g]
            x = torch.tensor(operand(seed, g, k, rank, count))
            out = x
            if kind == "all_reduce":
                work = dist.all_reduce(x, group=group, async_op=True)
            elif kind == "broadcast":
                work = dist.broadcast(x, group=group, group_src=root, async_op=True)
            elif kind == "all_gather":
                out = torch.empty(count * len(ranks))
                work = dist.all_gather_into_tensor(out, x, group=group, async_op=True)
            else:
                out = torch.empty(count)
                wide = x.repeat(len(ranks))
                work = dist.reduce_scatter_tensor(out, wide, group=group, async_op=True)
            works.append((work, out, g, k))
        source.shuffle(works)
        for work, out, g, k in works:
            work.wait()
            place = MEMBERS[g].index(rank)
            if not np.array_equal(out.numpy(), expected(seed, g, k, place)):
                wrong.append([seed, g, k])
    dist.barrier()
    return wrong


@needs_mpi
def test_orders_may_differ_between_groups():
    assert run(__file__, "programs", 3, 20, timeout=120) == [[], [], []]
