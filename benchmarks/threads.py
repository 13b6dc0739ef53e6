"""Two threads against one, on products and workloads, and beside a busy neighbour: wall clock.

python benchmarks/threads.py                   # products, two workloads, beside a neighbour too
python benchmarks/threads.py products          # these

Each side is a process of its own, told how many threads to use; passes take turns. The neighbour
is a process that counts on one of the processors while the others work. A speed-up is that of the
best passes: on a machine with other work it is a lower bound. "apart" is what the machine has to
give: the speed-up of two processes that do the same on one thread each, side by side, which wait
for nothing but the machine. "load" is how many processes ran beside the benchmark when it began.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench import Side, publish

SHAPES = [
    "32x32x32", "64x64x64", "128x128x128", "16x256x1024", "256x256x256", "64x768x256",
    "384x384x384", "512x512x512", "1024x1024x1024", "4096x256x256", "128x2048x2048",
]  # fmt: skip
WORKLOADS = ["char_transformer", "resnet_training"]
COLUMNS = ["what", "one ms", "two ms", "speed-up", "apart", "two busy ms", "busy / quiet", "load"]


@contextlib.contextmanager
def neighbour(wanted: bool) -> Iterator[None]:
    """Keep one processor busy meanwhile."""
    if not wanted:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def side_by_side(sides: list[Side], request: dict[str, Any]) -> float:
    """The slower side's answer of sides that are asked at the same time."""
    with ThreadPoolExecutor(len(sides)) as pool:
        return max(pool.map(lambda side: side.ask(**request), sides))


def measure(what: str, passes: int, torch: bool) -> dict[str, Any]:
    """One row."""
    framework = "torch" if torch else "wend"
    sides = {n: Side(framework, "serve_threads.py", str(n)) for n in (1, 2)}
    pair = [sides[1], Side(framework, "serve_threads.py", "1")]
    busy = what in WORKLOADS
    best: dict[str, float] = {}
    try:
        for side in (*pair, sides[2]):
            side.ask(what=what, turns=0)
        for beside in (False, True) if busy else (False,):
            with neighbour(beside):
                for _ in range(passes):
                    for n, side in sides.items():
                        if beside and n == 1:
                            continue
                        name = f"{'two' if n == 2 else 'one'}{' busy' if beside else ''} ms"
                        found = side.ask(what=what, turns=5)
                        best[name] = min(found, best.get(name, found))
        both = min(side_by_side(pair, {"what": what, "turns": 5}) for _ in range(passes))
    finally:
        for side in (*pair, sides[2]):
            side.close()
    row: dict[str, Any] = {"what": what, "load": os.getloadavg()[0]} | best
    row["speed-up"] = best["one ms"] / best["two ms"]
    row["apart"] = 2 * best["one ms"] / both
    if busy:
        row["busy / quiet"] = best["two busy ms"] / best["two ms"]
    return row


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "what", nargs="*", help="products, a workload, or shapes such as 64x768x256"
    )
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--torch", action="store_true", help="PyTorch in place of Wend")
    given = parser.parse_args()
    wanted = given.what or ["products", *WORKLOADS]
    names = [name for what in wanted for name in (SHAPES if what == "products" else [what])]
    rows = []
    for name in names:
        rows.append(measure(name, given.passes, given.torch))
        print({key: rows[-1].get(key) for key in COLUMNS}, flush=True)
    publish("threads-torch" if given.torch else "threads", rows, COLUMNS)


if __name__ == "__main__":
    main()
