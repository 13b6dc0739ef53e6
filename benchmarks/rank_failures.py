"""Kill a random rank at random points of runs under `wend launch`, and look at all that is left.

Each run trains a small model on several ranks, which average gradients and save a checkpoint after
each step. At a random moment, from the start of the processes on, a random rank gets SIGKILL.

    python benchmarks/rank_failures.py --points 200                # the run must end
    python benchmarks/rank_failures.py --points 200 --restarts 1   # must go on to the same result
    python benchmarks/rank_failures.py --points 200 --elastic      # living ranks must go on

Checked for each point: the exit status, the time from the kill to the end, that no process of the
run lives on, and that the checkpoint can be read and holds the parameters of its step. With
`--elastic` the ranks compare their parameters after each step, and the time is that from the kill
to the end of the first step of fewer ranks. The exit status is 1 if a point fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import wend as torch

PROGRAM = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Linear(64, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
first = 0
if os.path.exists("saved.pt"):
    saved = torch.load("saved.pt")
    first = saved["step"]
    model.load_state_dict(saved["model"])
for step in range(first, STEPS):
    generator = torch.Generator().manual_seed(100 * step + rank)
    x = torch.randn(16, 64, generator=generator)
    optimizer.zero_grad()
    (model(x) ** 2).mean().backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= size
    optimizer.step()
    if rank == 0:
        saved = {"step": step + 1, "model": model.state_dict(),
                 "sum": sum(p.double().sum().item() for p in model.parameters())}
        torch.save(saved, "saved.tmp")
        os.replace("saved.tmp", "saved.pt")
    dist.barrier()
    time.sleep(PAUSE)
"""

ELASTIC = """
import os, sys, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.Tanh(), torch.nn.Linear(96, 8))
model = DDP(net, bucket_cap_mb=0.01)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
generator = torch.Generator().manual_seed(int(os.environ["RANK"]))
for step in range(STEPS):
    optimizer.zero_grad()
    (model(torch.randn(16, 64, generator=generator)) ** 2).mean().backward()
    optimizer.step()
    total = sum(p.detach().double().abs().sum() for p in net.parameters()).reshape(1)
    low, high = total.clone(), total.clone()
    dist.all_reduce(low, op=dist.ReduceOp.MIN)
    dist.all_reduce(high, op=dist.ReduceOp.MAX)
    assert float(low) == float(high), f"step {step}: {float(low)} and {float(high)}"
    if dist.get_rank() == 0:
        saved = {"step": step + 1, "model": net.state_dict(),
                 "sum": sum(p.double().sum().item() for p in net.parameters())}
        torch.save(saved, "saved.tmp")
        os.replace("saved.tmp", "saved.pt")
        with open("steps.txt", "a") as file:
            print(time.monotonic(), dist.get_world_size(), file=file)
    time.sleep(PAUSE)
dist.destroy_process_group()
"""


def processes() -> dict[int, tuple[int, str]]:
    """All processes of the machine: number, parent and command line; no zombies."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if state != "Z":
            found[int(entry.name)] = int(parent), words
    return found


def below(root: int) -> dict[int, str]:
    """The processes below a process, with their command lines."""
    everything = processes()
    found: dict[int, str] = {}
    todo = {root}
    while todo:
        todo = {pid for pid, (parent, _) in everything.items() if parent in todo} - set(found)
        found |= {pid: everything[pid][1] for pid in todo}
    return found


def start(
    folder: Path, ranks: int, restarts: int, elastic: bool = False
) -> subprocess.Popen[bytes]:
    flags = ["--nproc-per-node", str(ranks), "--max-restarts", str(restarts), "--grace", "3"]
    flags += ["--elastic"] if elastic else []
    return subprocess.Popen(
        [sys.executable, "-m", "wend", "launch", *flags, "program.py"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def programs(pid: int) -> list[int]:
    return [
        p for p, words in below(pid).items() if "-m wend run" in words and "_guard" not in words
    ]


def fault_of_checkpoint(folder: Path, steps: int | None) -> str:
    """The fault of the checkpoint, or "": a whole file, with the parameters of its step."""
    path = folder / "saved.pt"
    if not path.exists():
        return "" if steps is None else "there is no checkpoint"
    saved = torch.load(path)
    total = sum(p.double().sum().item() for p in saved["model"].values())
    if total != saved["sum"]:
        return f"the parameters of step {saved['step']} are others"
    return "" if steps in (None, saved["step"]) else f"ended at step {saved['step']}"


def until_fewer(folder: Path, ranks: int, killed: float, otherwise: float) -> float:
    """Seconds from the kill to the end of the first step of fewer ranks.

    otherwise: where all steps had been done before the kill
    """
    for line in (folder / "steps.txt").read_text().splitlines():
        moment, size = line.split()
        if int(size) < ranks:
            return max(0.0, float(moment) - killed)
    return otherwise


def one_point(folder: Path, given: argparse.Namespace, delay: float, dice: random.Random) -> dict:
    """One run with a kill; {} if the kill found no rank: before the start, or after the end."""
    for name in ("saved.pt", "steps.txt"):
        (folder / name).unlink(missing_ok=True)
    run = start(folder, given.ranks, given.restarts, given.elastic)
    time.sleep(delay)
    family = below(run.pid)
    ranks = programs(run.pid)
    killed = 0.0
    dice.shuffle(ranks)
    for rank in ranks[: given.kills]:
        if killed:
            time.sleep(dice.uniform(0.05, 0.5))
        if run.poll() is None and rank in programs(run.pid):
            killed = killed or time.monotonic()
            os.kill(rank, signal.SIGKILL)
    _, told = run.communicate(timeout=given.limit)
    if not killed:
        return {}
    seconds = time.monotonic() - killed
    time.sleep(0.1)
    living = processes()
    orphans = [pid for pid, words in family.items() if living.get(pid, (0, ""))[1] == words]
    goes_on = given.restarts or given.elastic
    wanted = (0,) if goes_on else (137,)
    if given.elastic:
        seconds = until_fewer(folder, given.ranks, killed, seconds)
    faults = [f"status {run.returncode}"] if run.returncode not in wanted else []
    faults += [f"left: {orphans}"] if orphans else []
    fault = fault_of_checkpoint(folder, given.steps if goes_on else None)
    faults += [fault] if fault else []
    if not given.restarts and seconds > 10:
        faults.append(f"took {seconds:.1f} s")
    return {"delay": delay, "seconds": seconds, "faults": faults, "told": told.decode()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--restarts", type=int, default=0)
    parser.add_argument("--elastic", action="store_true", help="living ranks go on")
    parser.add_argument("--kills", type=int, default=1, help="ranks that are killed in each run")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--limit", type=float, default=120, help="seconds that a run may take")
    parser.add_argument("--most", type=float, default=7200, help="seconds for all points")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    dice = random.Random(given.seed)
    results: list[dict] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        program = ELASTIC if given.elastic else PROGRAM
        text = program.replace("STEPS", str(given.steps)).replace("PAUSE", "0.02")
        (folder / "program.py").write_text(text)
        begun = time.monotonic()
        assert start(folder, given.ranks, 0, given.elastic).wait(given.limit) == 0
        whole = time.monotonic() - begun
        reference = torch.load(folder / "saved.pt")["sum"]
        while len(results) < given.points:
            result = one_point(folder, given, dice.uniform(0, whole), dice)
            if not result:
                continue
            if given.restarts and not result["faults"]:
                found = torch.load(folder / "saved.pt")["sum"]
                if abs(found - reference) > 1e-6:
                    result["faults"].append(f"ended at {found}, not at {reference}")
            results.append(result)
            if time.monotonic() - begun > given.most:
                given.points = len(results)
            if result["faults"]:
                print(json.dumps(result), flush=True)
            print(f"{len(results)}: {result['seconds']:.2f} s", file=sys.stderr, flush=True)
    seconds = sorted(r["seconds"] for r in results)
    failed = sum(bool(r["faults"]) for r in results)
    way = "living ranks go on" if given.elastic else f"{given.restarts} restarts"
    until = "to the next step" if given.elastic else "to the end"
    print(
        f"{len(results)} points, {given.ranks} ranks, {way}: {failed} failed; "
        f"from the kill {until} {statistics.median(seconds):.2f} s (median), "
        f"{seconds[int(0.95 * len(seconds))]:.2f} s (95 %), {seconds[-1]:.2f} s (most)"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
