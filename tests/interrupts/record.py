"""The recorded run: 1 000 interrupts at random moments, and 100 runs of Hogwild training.

    python tests/interrupts/record.py [SEED]

Prints, per kind of loop, how many steps were cut, and ends with 1 if any state was not whole.
"""

import random
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import wend as torch
from interrupting import Check, Course, Knife, timer
from training_loops import LOOPS
from wend import nn

CUTS, HOGWILD = 1000, 100


def interrupt(kind, cuts, moments):
    """Cut so many steps of one kind; returns (steps cut, their faults).

    Half of the interrupts come at random times, from a timer; half at random places of the code.
    """
    course = Course(kind, 60)
    faults, cut = [], 0
    check = Check(kind, course)
    while cut < cuts:
        if check.steps > 50:
            check = Check(kind, course)
            for _ in range(moments.randrange(6)):
                check.turn(nullcontext)
        if moments.random() < 0.5:
            seconds = 10 ** moments.uniform(-4.5, -2.3)
            around = lambda: timer(seconds, KeyboardInterrupt())  # noqa: B023, E731
            where = f"after {seconds:.6f} s"
        else:
            knife = Knife(int(10 ** moments.uniform(0, 3)))
            around, where = knife.drawn, f"at place {knife.left}"
        try:
            cut += check.turn(around)
        except Exception as error:
            faults.append(f"{where}: {type(error).__name__}: {error}")
            check = Check(kind, course)
            cut += 1
    return cut, faults


def hogwild(k):
    """Whether four threads that add gradients into one model lose none."""
    sys.setswitchinterval(10 ** (-2 - k % 4))
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    rows = [np.random.default_rng(n).normal(size=(3, 4)) for n in range(4)]
    errors = []

    def work(n):
        try:
            for _ in range(10):
                model(torch.tensor(rows[n])).sum().backward()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [p.grad.numpy().copy() for p in model.parameters()]
    model.zero_grad()
    for n in range(4):
        (model(torch.tensor(rows[n])).sum() * 10).backward()
    expected = [p.grad.numpy() for p in model.parameters()]
    return not errors and all(
        np.allclose(a, b, rtol=1e-9) for a, b in zip(found, expected, strict=True)
    )


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    moments = random.Random(seed)
    total, broken = 0, 0
    start = time.perf_counter()
    for kind in LOOPS:
        cut, faults = interrupt(kind, -(-CUTS // len(LOOPS)), moments)
        total += cut
        broken += len(faults)
        print(f"{kind.__name__:14} {cut:5} steps cut, {len(faults)} not whole", flush=True)
        for fault in faults[:5]:
            print(f"    {fault}")
    print(f"{total} interrupts, {broken} states not whole")
    lost = sum(not hogwild(k) for k in range(HOGWILD))
    print(f"{HOGWILD} runs of Hogwild training, {lost} not equal in sum")
    print(f"{time.perf_counter() - start:.0f} s, seed {seed}")
    return 1 if broken or lost else 0


if __name__ == "__main__":
    sys.exit(main())
