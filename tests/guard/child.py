"""Runs programs, each in a process of its own forked from this one, and prints the counts.

    python child.py < cases      one case a line: model, parameters, access, control, order

A line of output is a case's counts as a JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import counting
from written_models import MODELS, Case, batches_of

import wend as torch


def counts_of(case: Case) -> dict[str, float]:
    """Train; return the counts of the last epoch, and the modules and paths of all epochs."""
    counting.install()
    program = MODELS[case.model](torch, case.hand)
    optimizer = torch.optim.SGD(program.parameters, lr=0.01)
    torch.synchronize()
    start, built, loss = counting.snapshot(), counting.paths(), 0.0
    for counted, batch in batches_of(program, case.order):
        computed = program.loss(batch)
        optimizer.zero_grad()
        computed.backward()
        optimizer.step()
        loss = computed.item()
        counting.settle()
        if not counted:
            start = counting.snapshot()
    end = counting.snapshot()
    found = {name: end[name] - start[name] for name in end if name != "modules"}
    paths = counting.paths() - built
    return found | {"modules": end["modules"], "paths": paths, "loss": loss}


def main() -> None:
    """Run the cases on standard input."""
    for line in sys.stdin:
        case = Case.parse(line.strip())
        process = os.fork()
        if process == 0:
            status = 1
            try:
                print(json.dumps(counts_of(case)), flush=True)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        _, status = os.waitpid(process, 0)
        if status:
            raise SystemExit(f"{case}: ended with {status}")


if __name__ == "__main__":
    main()
