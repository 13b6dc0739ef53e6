"""How much of the communication of a data-parallel step is seen, by counters of its thread.

    wend launch --nproc-per-node 2 benchmarks/overlap.py
    wend launch --nproc-per-node 2 benchmarks/overlap.py --caps 0.125 0.25 1 25

Each rank trains a workload of `workloads/` in `DistributedDataParallel`. The counters tell for each
step how long transfers took (`moved`), how long the program's thread waited in that time (`seen`),
and how long the communication thread waited for ranks that came late (`late`). Waiting for a late
rank is no communication; the time is shown beside. `alone` is what the transfers of a step take
while nothing is computed. The asked share is that of the sums over all steps: seen / moved.

Ranks and their communication threads want two cores a rank. Where there are fewer, the threads
share them, transfers take longer, and ranks are late more often: look at `seen / alone` too.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "workloads"))

import torch
import torch.distributed as dist
from common import come_to_rest, settle
from torch.nn.parallel import DistributedDataParallel

NAMES = ("busy", "visible", "late", "waited")


def begin(name, cap):
    """A workload whose model is trained by all ranks, on data of the rank's own."""
    words = [word.capitalize() for word in name.split("_")]
    workload = getattr(importlib.import_module(name), "".join(words) + "Workload")()
    if hasattr(workload, "rng"):
        import numpy as np

        workload.rng = np.random.default_rng(100 + dist.get_rank())
    workload.model = DistributedDataParallel(workload.model, bucket_cap_mb=cap)
    for _ in range(workload.warm_up):
        workload.step()
    for _ in range(3):  # all ranks have found the order, and run what is compiled
        settle(workload)
    return workload


def measure(workload, steps):
    """(seconds of each step, {counter: its growth in each step}, calls and bytes of a step)."""
    counters = workload.model.reducer.counters
    times, found = [], {name: [] for name in NAMES}
    first = counters.as_dict()
    for _ in range(steps):
        before = counters.as_dict()
        start = time.perf_counter()
        workload.step()
        times.append(time.perf_counter() - start)
        after = counters.as_dict()
        for name in NAMES:
            found[name].append(after[name] - before[name])
    whole = [(after[name] - first[name]) / steps for name in ("buckets", "early", "n_bytes")]
    return times, found, whole


def alone(workload, repeats):
    """Seconds that the transfers of a step take while nothing is computed."""
    reducer = workload.model.reducer
    channel = reducer.channel
    buckets = reducer.layout(reducer.expected)
    arrays = {}
    for bucket in buckets:
        for place in bucket.places:
            p = reducer.parameters[place.number]
            arrays[place.number] = p.grad.detach().numpy()
    from wend.distributed._replicas.counters import Round

    sums = []
    for _ in range(repeats):
        dist.barrier()
        clock = Round()
        works = [
            reducer.reduce(b, [arrays[p.number] for p in b.places], channel.line.size, clock)
            for b in buckets
        ]
        for work in works:
            work.wait()
        sums.append(clock.busy)
    return statistics.median(sums)


def row(name, cap, options):
    """The figures of this rank, in milliseconds."""
    workload = begin(name, cap)
    dist.barrier()
    times, found, (buckets, early, n_bytes) = measure(workload, options.steps)
    come_to_rest()
    sums = {k: 1000 * sum(v) / options.steps for k, v in found.items()}
    shares = [v / max(b, 1e-9) for v, b in zip(found["visible"], found["busy"], strict=True)]
    quiet = 1000 * alone(workload, 20)
    low, middle, high = statistics.quantiles(shares, n=4)
    return {
        "step": 1000 * statistics.median(times),
        "moved": sums["busy"],
        "seen": sums["visible"],
        "late": sums["late"],
        "waited": sums["waited"],
        "alone": quiet,
        "share": sums["visible"] / sums["busy"],
        "low": low,
        "middle": middle,
        "high": high,
        "buckets": buckets,
        "early": early,
        "MB": n_bytes / 2**20,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="char_transformer")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--caps", type=float, nargs="*", help="values of bucket_cap_mb")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("mpi")
    first = dist.get_rank() == 0
    if first:
        ranks = dist.get_world_size()
        print(f"{options.workload}, {ranks} ranks, {os.cpu_count()} cores; ms a step")
        print(
            "\n| cap, MB | rank | step | moved | seen | late | waited | alone | seen / moved "
            "(quartiles of steps) | seen / alone | buckets | early | MB |\n|" + "---|" * 13
        )
    for cap in options.caps or [None]:
        mine = row(options.workload, cap, options)
        rows = [None] * dist.get_world_size()
        dist.all_gather_object(rows, mine)
        for rank, r in enumerate(rows if first else ()):
            times = " | ".join(
                f"{r[k]:.2f}" for k in ("step", "moved", "seen", "late", "waited", "alone")
            )
            print(
                f"| {cap or 'default'} | {rank} | {times} | {r['share']:.1%} ({r['low']:.1%} "
                f"{r['middle']:.1%} {r['high']:.1%}) | {r['seen'] / r['alone']:.1%} | "
                f"{r['buckets']:.1f} | {r['early']:.1f} | {r['MB']:.2f} |",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
