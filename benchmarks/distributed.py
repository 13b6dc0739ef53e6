"""Collectives of `wend.distributed` against mpi4py's on arrays, in the same run, by size.

    mpirun --oversubscribe -n 2 python benchmarks/distributed.py

Rounds of both take turns. Each round's time of a call is a mean over many calls in rank 0, in
microseconds. Shown are the medians of the rounds with their least and greatest, and the same of the
ratios of neighbouring rounds. `mpi4py` calls the same collective on an array that is there. Wend's
call takes a tensor, compares the calls of all ranks, and gives the tensor a new value.
"""

import argparse
import statistics
import time

import numpy as np

import wend as torch
from wend import distributed as dist

SIZES = (1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)


def pairs(count, comm):
    """{collective: (by Wend, by mpi4py)} on `count` float32 numbers in all."""
    ranks = comm.Get_size()
    x, out = np.ones(count, np.float32), np.empty(count, np.float32)
    part = np.ones(count // ranks, np.float32)
    t, small = torch.ones(count), torch.ones(count // ranks)
    wide = torch.empty(count)
    return {
        "all_reduce": (
            lambda: dist.all_reduce(t, dist.ReduceOp.MAX),
            lambda: comm.Allreduce(x, out, op=max_op()),
        ),
        "broadcast": (lambda: dist.broadcast(t, 0), lambda: comm.Bcast(x, 0)),
        "all_gather_into_tensor": (
            lambda: dist.all_gather_into_tensor(wide, small),
            lambda: comm.Allgather(part, out),
        ),
        "reduce_scatter_tensor": (
            lambda: dist.reduce_scatter_tensor(small, t, dist.ReduceOp.MAX),
            lambda: comm.Reduce_scatter_block(x, part, op=max_op()),
        ),
    }


def max_op():
    from mpi4py import MPI

    return MPI.MAX


def timed(call, comm, repeats):
    """Seconds of a call, on the mean of several."""
    comm.Barrier()
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begun) / repeats


def told(numbers, digits):
    """Median (least to greatest)."""
    shown = statistics.median(numbers), min(numbers), max(numbers)
    return "{:.{n}f} ({:.{n}f} to {:.{n}f})".format(*shown, n=digits)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=2000, help="calls of a round, at most")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="bytes of the largest size")
    options = parser.parse_args()
    dist.init_process_group("mpi")
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    first = comm.Get_rank() == 0
    if first:
        print(f"{comm.Get_size()} ranks; microseconds a call\n")
        print("| collective | bytes | wend | mpi4py | ratio |\n|---|---|---|---|---|")
    for size in SIZES:
        if size > options.most:
            break
        repeats = max(1, min(options.repeats, (16 << 20) // size))
        for name, (ours, theirs) in pairs(size // 4, comm).items():
            for call in (ours, theirs):
                timed(call, comm, 3)
            times = [
                (timed(ours, comm, repeats), timed(theirs, comm, repeats))
                for _ in range(options.rounds)
            ]
            if first:
                sides = [[1e6 * time for time in side] for side in zip(*times, strict=True)]
                ratios = [a / b for a, b in zip(*sides, strict=True)]
                cells = [told(side, 1) for side in sides] + [told(ratios, 2)]
                print(f"| {name} | {size} | {' | '.join(cells)} |", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
