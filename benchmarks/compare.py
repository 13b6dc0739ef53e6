"""Compare Wend with PyTorch on the workloads: equal weights, equal losses, passes in turns.

python benchmarks/compare.py              # all
python benchmarks/compare.py mlp char_transformer # these
python benchmarks/compare.py mlp --peers compiled jax               # others beside them
python benchmarks/compare.py mlp --steps 5 --passes 1 --warm-up 5    # a quick look
python benchmarks/compare.py --batching   # Wend with and without its batching, on all of them

Times are processor time, all threads of the process together, in milliseconds a step, once what is
compiled in the background has come to rest; ratios are the peer's time over Wend's, the median of
paired passes. Beside them: the first step, all of the warm-up with what was compiled until then,
and how much was compiled during the passes (which should be nothing).

Peers: torch (eager, always), compiled (torch.compile), jax and dynet (dyNET38, batching by itself),
which must be installed; hand (torch, tree_lstm and bilstm_tagger batched by hand: level by level,
padded). The programs of the last three are in peers/. off: Wend, its batching off, which
must not be quicker by more than a tenth: `--batching` names the workloads where it is.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
from pathlib import Path
from typing import Any

from bench import HERE, Side, publish, ratio

PACKAGES = {
    "torch": "torch", "compiled": "torch", "hand": "torch", "jax": "jax", "dynet": "dynet",
    "off": "numpy",
}  # fmt: skip
#: Programs in peers/.
PEERS = {
    "jax": "elementwise_chain mlp branching resnet_inference resnet_training".split()
    + ["char_transformer", "transformer_encoder"],
    "dynet": ["tree_lstm", "bilstm_tagger"],
    "hand": ["tree_lstm", "bilstm_tagger"],
}
SIDES = ("wend", *PACKAGES)
COLUMNS = [
    "workload", *(f"{side} ms" for side in SIDES), "torch / wend", "low", "high",
    *(f"{side} / wend" for side in SIDES[2:]), "losses agree to",
    *(f"{side} first" for side in SIDES), *(f"{side} warm-up s" for side in SIDES),
    "compiled in passes",
]  # fmt: skip


def started(name: str, peer: str) -> Side:
    """A process that runs a workload, or its like for a peer."""
    if peer in ("wend", "torch"):
        return Side(peer, "serve_workload.py", name)
    if peer == "off":
        return Side("wend", "serve_workload.py", name, "--off")
    options = ["--compile"] if peer == "compiled" else ["--peer", peer]
    return Side("torch", "serve_workload.py", name, *options)


def compare(
    name: str, peers: list[str], passes: int, steps: int, warm_up: int, checked: int
) -> dict[str, Any]:
    """Return one row of the table.

    passes: of each side; steps: of a pass, warm_up: before, 0 for the workload's own numbers;
    checked: how many of the first losses are compared
    """
    sides = {side: started(name, side) for side in ["wend", *peers]}
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "weights.npz")
            first, *others = reversed(sides.values())
            first.ask(do="save", path=path)
            for side in others:
                side.ask(do="load", path=path)
        asked = {"do": "warm up", "steps": warm_up, "checked": checked}
        began = {n: side.ask(**asked) for n, side in sides.items()}
        times: dict[str, list[float]] = {side: [] for side in sides}
        late = 0
        for _ in range(passes):
            for side, process in sides.items():
                found = process.ask(do="pass", steps=steps)
                times[side].append(1000 * found["seconds"])
                late += found["compiled"] if side == "wend" else 0
    finally:
        for process in sides.values():
            process.close()
    row: dict[str, Any] = {"workload": name, "warm-up": began, "times": times}
    row["compiled in passes"] = late
    mine, scale = began["wend"]["outcomes"], began["wend"]["scale"]
    for side, found in times.items():
        row[f"{side} ms"] = statistics.median(found)
        row[f"{side} first"] = 1000 * began[side]["first"]
        row[f"{side} warm-up s"] = began[side]["seconds"]
        spread = ratio(found, times["wend"])
        row[f"{side} / wend"] = spread["ratio"]
        if side == ("torch" if "torch" in peers else peers[0]):
            row |= {"low": spread["low"], "high": spread["high"]}
        errors = [distance(a, b, scale) for a, b in zip(mine, began[side]["outcomes"])]
        row["losses agree to"] = max(row.get("losses agree to", 0.0), *errors)
    return row


def distance(mine: list[float], theirs: list[float], scale: float) -> float:
    """How far apart two steps' losses are, and what else they left, each relative to its size.

    scale: what is smaller than this is taken for as large
    """
    if len(mine) != len(theirs):
        return float("inf")
    found = 0.0
    for a, b in ((mine[:1], theirs[:1]), (mine[1:], theirs[1:])):
        size = max([scale, 1e-12, *map(abs, b)])
        found = max([found, *(abs(x - y) / size for x, y in zip(a, b))])
    return found


def main() -> None:
    """Run the comparison from the command line."""
    files = {path.stem for path in (HERE / "workloads").glob("*.py")}
    names = sorted(files - {"common", "resnet"})
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", metavar="workload", help=", ".join(names))
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="of a pass (0: the workload's own)")
    parser.add_argument("--warm-up", type=int, default=0, help="steps before the passes")
    parser.add_argument("--checked", type=int, default=10, help="first losses to compare")
    parser.add_argument("--batching", action="store_true", help="only beside Wend with it off")
    parser.add_argument("--peers", nargs="*", default=[], choices=SIDES[2:], help="besides torch")
    args = parser.parse_args()
    unknown = set(args.workloads) - set(names)
    if unknown:
        parser.error(f"no such workload: {', '.join(sorted(unknown))}; there are {names}")
    wanted = ["off"] if args.batching else ["torch", *args.peers]
    absent = [peer for peer in wanted if not importlib.util.find_spec(PACKAGES[peer])]
    rows = []
    for name in args.workloads or names:
        peers = [p for p in wanted if p not in absent and (p not in PEERS or name in PEERS[p])]
        row = compare(name, peers, args.passes, args.steps, args.warm_up, args.checked)
        rows.append(row)
        print({key: row.get(key) for key in COLUMNS}, flush=True)
    publish("workloads", rows, [c for c in COLUMNS if any(c in row for row in rows)])
    if args.batching:
        slower = [row["workload"] for row in rows if row["off / wend"] < 0.9]
        print(f"\nslower with batching by more than a tenth: {', '.join(slower) or 'none'}")
    if absent:
        print(f"\nnot installed, and so not compared: {', '.join(absent)}")


if __name__ == "__main__":
    main()
