"""What the search for NaN and infinity costs: nothing before and after, and what a guard costs.

    python -m wend run benchmarks/nan_search.py [WORKLOAD ...]

Per workload of `workloads/` (and `digits`, see `profiling.py`): milliseconds of a step before
`wend.debug` is imported, inside `nan_guard()`, and afterwards, the rounds taking turns where they
can; the ratio after : before, and guarded : before. Ops, flushes and blocks of memory that a step
adds are counted before and after. The counts must be equal where steps repeat, or the program
ends with an error.
"""

from __future__ import annotations

import gc
import sys
import time
from typing import Any

from profiling import ROUNDS, WORKLOADS, workload_of

from wend._engine.core import _hot

COUNTED = 20


def counts(workload: Any) -> tuple[int, int, int]:
    """(ops, flushes, blocks of memory that stay allocated) of `COUNTED` steps."""
    gc.collect()
    trace = _hot.current_trace()
    before = trace.ops_before, _hot.count("flushes"), sys.getallocatedblocks()
    for _ in range(COUNTED):
        workload.step()
    gc.collect()
    after = trace.ops_before, _hot.count("flushes"), sys.getallocatedblocks()
    ops, flushes, blocks = (b - a for a, b in zip(before, after, strict=True))
    return ops, flushes, blocks // COUNTED


def seconds(workload: Any, steps: int) -> float:
    """Processor seconds of a step."""
    start = time.process_time()
    for _ in range(steps):
        workload.step()
    return (time.process_time() - start) / steps


def measure(name: str) -> bool:
    """Print the figures of a workload; return whether nothing was added."""
    workload = workload_of(name)
    steps = max(5, workload.steps)
    for _ in range(workload.warm_up + steps):
        workload.step()
    first = counts(workload)
    varies = counts(workload)[:2] != first[:2]  # of structure that never repeats
    before = [seconds(workload, steps) for _ in range(ROUNDS)]
    from wend import debug

    guarded = []
    for _ in range(ROUNDS):
        with debug.nan_guard():
            workload.step()
            guarded.append(seconds(workload, steps))
    workload.step()
    last = counts(workload)
    after = [seconds(workload, steps) for _ in range(ROUNDS)]
    before += [seconds(workload, steps) for _ in range(ROUNDS)]
    after += [seconds(workload, steps) for _ in range(ROUNDS)]
    least = [min(times) * 1e3 for times in (before, guarded, after)]
    print(
        f"{name:20} {least[0]:8.3f} {least[1]:8.3f} {least[2]:8.3f} ms   guarded x "
        f"{least[1] / least[0]:.2f}   after x {least[2] / least[0]:.2f}   "
        f"ops, flushes, blocks a step: {first} -> {last}"
    )
    return varies or (first[:2] == last[:2] and last[2] <= max(first[2], 0))


def main() -> None:
    """Measure the workloads that are named, or all."""
    fine = [measure(name) for name in sys.argv[1:] or WORKLOADS]
    if not all(fine):
        sys.exit("a step has more ops, flushes or memory than before")


if __name__ == "__main__":
    main()
