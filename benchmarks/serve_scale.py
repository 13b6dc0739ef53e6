"""What the ranks of scale_model.py measure: `mpirun -n N python serve_scale.py WHAT ...`.

The first rank prints a line of JSON with the findings of all ranks.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import wend.distributed as dist
from wend._tools import alias

alias.install()

SIZES = [8 << 2 * k for k in range(10)]  # 8 bytes to 2 MB


def ping_pong():
    """[(bytes, seconds of a message one way)], by MPI, between two ranks."""
    from mpi4py import MPI

    comm, rows = MPI.COMM_WORLD.Dup(), []
    there = 1 - comm.Get_rank()
    for size in SIZES:
        x = np.zeros(size, np.uint8)
        times = []
        for _ in range(60):
            begun = time.perf_counter()
            if there:
                comm.Send(x, there)
                comm.Recv(x, there)
            else:
                comm.Recv(x, there)
                comm.Send(x, there)
            times.append((time.perf_counter() - begun) / 2)
        rows.append((size, statistics.median(times)))
    return rows


def sums():
    """[(bytes, seconds of an addition of two arrays)]."""
    rows = []
    for size in (1 << 18, 1 << 20, 1 << 22):
        x, y = np.ones(size // 4, np.float32), np.ones(size // 4, np.float32)
        times = []
        for _ in range(40):
            begun = time.perf_counter()
            np.add(x, y, out=y)
            times.append(time.perf_counter() - begun)
        rows.append((size, statistics.median(times)))
    return rows


def raw_sums():
    """[(bytes, seconds of MPI's Allreduce)], all ranks at the same time."""
    from mpi4py import MPI

    comm, rows = MPI.COMM_WORLD.Dup(), []
    for size in SIZES[3:]:
        x = np.ones(size // 4, np.float32)
        out, times = np.empty_like(x), []
        for _ in range(30):
            comm.Barrier()
            begun = time.perf_counter()
            comm.Allreduce(x, out)
            times.append(time.perf_counter() - begun)
        rows.append((size, statistics.median(times)))
    return rows


def transfers():
    """[(bytes, processor seconds of a sum by the channel of gradients)]; all ranks call."""
    from wend._engine.runtime.native.launcher import maker
    from wend.distributed._group import resolve
    from wend.distributed._replicas.reducer import own_channel

    channel, rows = own_channel(resolve(None), "scale"), []
    for size in SIZES[5:]:
        x = np.ones(size // 4, np.float32)

        def call(line, x=x):
            out = maker(x.shape, x.dtype)(x.shape, x.dtype)
            line.all_reduce(x, out, "sum")

        times = []
        for _ in range(7):
            begun = time.process_time()
            for work in [channel.run(("sum", str(size)), call, background=True) for _ in range(20)]:
                work.wait()
            times.append((time.process_time() - begun) / 20)
        rows.append((size, statistics.median(times)))
    return rows


def steps(name, count, wrapped):
    """Steps of a workload in each rank, with data of its own.

    Returns seconds and processor seconds of each step, the words of each, bytes of gradients.
    """
    import torch
    from common import settle
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    words = [word.capitalize() for word in name.split("_")]
    workload = getattr(importlib.import_module(name), "".join(words) + "Workload")()
    workload.rng = np.random.default_rng(100 + dist.get_rank())
    n_bytes = sum(p.numel() * 4 for p in workload.model.parameters())
    if wrapped == "wrapped":
        workload.model = DistributedDataParallel(workload.model)
    sizes = []
    if hasattr(workload, "batch"):
        batch = workload.batch

        def counted():
            made = batch()
            sizes.append(sum(len(x) for x in made[1]))
            return made

        workload.batch = counted
    for _ in range(workload.warm_up):
        workload.step()
    for _ in range(3):
        settle(workload)
    sizes.clear()
    walls, works = [], []
    dist.barrier()
    for _ in range(int(count)):
        wall, work = time.perf_counter(), time.process_time()
        workload.step()
        walls.append(time.perf_counter() - wall)
        works.append(time.process_time() - work)
    return {"wall": walls, "work": works, "words": sizes, "bytes": n_bytes}


def main():
    dist.init_process_group("mpi")
    what, *arguments = sys.argv[1:]
    found = globals()[what](*arguments)
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, json.dumps(found))
    if dist.get_rank() == 0:
        print("FOUND " + json.dumps([json.loads(text) for text in every]), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
