"""Wend on an accelerator: are the ops right, and how long does a step of each workload take?

python benchmarks/device.py --device cuda                # all, in eight minutes at most
WEND_XPU=all python benchmarks/device.py --device xpu --quick   # OpenCL, on the processor

Rows: the samples of all ops with their gradients; the workloads W1 to W8, among them a TreeLSTM; a
mixture of experts; decoding with a cache that grows. Sides: Wend on the device and on the
processor, whose losses must agree, and PyTorch on CUDA, eager and by torch.compile, where a PyTorch
with CUDA is installed. Each side of a row is a process with a time limit, and one that fails or
takes too long leaves a note in the table. Times are by the wall clock, in milliseconds a step.
Figures go to results/device-DEVICE.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import HERE, RESULTS, machine, python_path, table

#: Rows, and the numbers that notes and issues use for these.
ROWS = {
    "ops": "", "elementwise_chain": "W1", "mlp": "W2", "branching": "W3", "tree_lstm": "W4",
    "bilstm_tagger": "W5", "resnet_inference": "W6", "char_transformer": "W7",
    "transformer_encoder": "W8", "mixture_of_experts": "", "cached_decoding": "",
}  # fmt: skip
#: Sides: whether Wend, whether on the device, further arguments.
SIDES = {
    "wend": (True, True, []), "host": (True, False, []), "torch": (False, True, []),
    "compiled": (False, True, ["--compile"]),
}  # fmt: skip
#: Seconds of all, of the ops, and of a side of another row, at most.
ALL, OPS, ONE = 480.0, 150.0, 40.0
#: How the last line of a process ends in which Intel's driver has caught a crash.
CRASHED = "instructions to reproduce the bug."
COLUMNS = [
    "row", "wend ms", "host ms", "torch ms", "compiled ms", "torch / wend", "compiled / wend",
    "launches", "waits", "first s", "losses agree to", "note",
]  # fmt: skip


def has_torch_cuda() -> bool:
    """Whether PyTorch can use a card here, asked of a process of its own."""
    ask = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    try:
        run = subprocess.run([sys.executable, "-c", ask], capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:  # a card that does not answer
        return False
    return run.returncode == 0


def ask(side: str, row: str, device: str, weights: Path, quick: bool, seconds: float) -> Any:
    """Return what a side says of a row, or {"error": why it says nothing}."""
    is_wend, on_device, further = SIDES[side]
    command = [sys.executable, *(["-m", "wend", "run"] if is_wend else [])]
    command += [str(HERE / "serve_device.py"), row, device if on_device else "cpu"]
    command += ["--weights", str(weights), "--seconds", str(seconds), *further]
    command += ["--quick"] if quick else []
    # Ops without a kernel of the device are measured as they are: by the processor.
    environment = {**os.environ, "PYTHONPATH": python_path(), "WEND_HOST_STEPS": "1"}
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"more than {seconds:.0f} s"}
    last = run.stdout.strip().splitlines()[-1:] or [""]
    if run.returncode or not last[0].startswith("{"):
        return {"error": cause_of(run.stderr, run.returncode)}
    return json.loads(last[0])


def cause_of(log: str, status: int) -> str:
    """Return the last line of a log that names an exception; else how the process ended."""
    lines = [
        line for line in log.splitlines() if re.match(r"[\w.]*(Error|Exception|Warning)\b", line)
    ]
    if lines and not log.rstrip().endswith(CRASHED):
        return lines[-1][:160]
    return f"crashed, with status {status}"


def row_of(name: str, answers: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table from the answers of the sides."""
    mine = answers["wend"]
    row: dict[str, Any] = {"row": f"{ROWS[name]} {name}".strip(), "answers": answers}
    notes = [f"{side}: {a['error']}" for side, a in answers.items() if "error" in a]
    if name == "ops" and "error" not in mine:
        notes.append(f"{mine['right']} of {mine['ops']} ops right in {mine['samples']} samples")
        if mine["wrong"]:
            notes.append("not: " + ", ".join(list(mine["wrong"])[:8]))
    row["note"] = "; ".join(notes)
    row |= {f"{side} ms": a["ms"] for side, a in answers.items() if "ms" in a}
    row |= {key: mine.get(key) for key in ("launches", "waits", "first s")}
    for side in ("torch", "compiled"):
        if "ms" in mine and "ms" in answers.get(side, {}):
            row[f"{side} / wend"] = answers[side]["ms"] / mine["ms"]
    losses = [a["losses"] for a in answers.values() if "losses" in a]
    if "losses" in mine and len(losses) > 1:
        row["losses agree to"] = max(
            abs(a - b) / max(abs(b), 1e-6)
            for other in losses
            for a, b in zip(mine["losses"], other)
        )
    return row


def main() -> None:
    """Run all rows from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cuda", "xpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="few steps, and every twelfth op")
    parser.add_argument("--rows", nargs="*", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--seconds", type=float, default=ALL, help="of all rows together, at most")
    parser.add_argument("--each", type=float, default=ONE, help="of a side of a row, at most")
    args = parser.parse_args()
    end = time.perf_counter() + args.seconds
    sides = ["wend", "host"]
    if args.device == "cuda" and has_torch_cuda():
        sides += ["torch", "compiled"]
    answers: dict[str, dict[str, Any]] = {name: {} for name in args.rows}
    with tempfile.TemporaryDirectory() as folder:
        for side in sides:  # Wend's figures first, should the time run out
            for name in args.rows:
                if name == "ops" and side != "wend":
                    continue
                left = end - time.perf_counter()
                if left < 5:
                    answers[name][side] = {"error": "no time left"}
                    continue
                limit = min(left, OPS if name == "ops" else args.each)
                weights = Path(folder) / f"{name}.npz"
                answer = ask(side, name, args.device, weights, args.quick, limit)
                answers[name][side] = answer
                told = answer.get("error") or f"{answer.get('ms', 0):.4g} ms a step"
                print(f"{side} {name}: {told}", file=sys.stderr, flush=True)
    rows = [row_of(name, answers[name]) for name in args.rows]
    names = {
        a["name"] for by in answers.values() for s, a in by.items() if s != "host" and "name" in a
    }
    device = ", ".join(sorted(names)) or "no device answered"
    columns = [c for c in COLUMNS if any(row.get(c) is not None for row in rows)]
    print(f"\n{args.device}: {device}\n\n{table(rows, columns)}")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"device-{args.device}.json"
    facts = machine() | {"device": device, "quick": args.quick}
    path.write_text(json.dumps({"machine": facts, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(f"\nfigures: {path}")


if __name__ == "__main__":
    main()
