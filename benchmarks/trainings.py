"""Ten ordinary trainings from their first line, beside PyTorch: what a new user tries first.

python benchmarks/trainings.py [--seconds 5] [--warm] [TRAINING ...]

Each is an embedding, one layer of `torch.nn`, a linear layer, cross entropy and AdamW. PyTorch
trains until `--seconds` have passed since it was imported; Wend makes as many steps, with an empty
cache of machine code. The ratio is PyTorch's total over Wend's, all compilation included, but for
the import, which would speak for Wend. One thread is asked for as a program asks: by
`torch.set_num_threads`.

wall, cpu: the ratio by the wall clock, and by processor time of all threads
import: seconds of processor time
first: seconds from the import on until the first loss was read
last: milliseconds a step over the last tenth
worst: the longest step in milliseconds, the first ten left out
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

VOCABULARY, CLASSES = 500, 10


class Training(NamedTuple):
    """layer: of torch.nn, by name     lengths: 'fixed', 'varied', or 'repeated' in order"""

    layer: str
    words: int
    batch: int
    width: int
    lengths: str = "fixed"
    both: bool = False  # both directions
    packed: bool = False


TRAININGS = {
    "lstm": Training("LSTM", 24, 16, 48),
    "lstm_varied": Training("LSTM", 24, 16, 48, "varied"),
    "lstm_long": Training("LSTM", 100, 16, 48),
    "lstm_wide": Training("LSTM", 12, 64, 128),
    "gru_repeated": Training("GRU", 24, 16, 48, "repeated"),
    "packed": Training("LSTM", 24, 16, 48, "varied", both=True, packed=True),
    "transformer": Training("Transformer", 24, 16, 48, "varied"),
    "bidirectional_lstm": Training("LSTM", 24, 16, 48, both=True),
    "bidirectional_gru": Training("GRU", 20, 16, 48, both=True),
    "bidirectional_rnn": Training("RNN", 30, 16, 48, both=True),
}


def batches(torch: Any, what: Training) -> Iterator[tuple[Any, Any, list[int]]]:
    """Words of shape (batch, words), their classes, and how many words each sentence has."""
    draw = random.Random(0)

    def batch(longest: int) -> tuple[Any, Any, list[int]]:
        lengths = [longest] * what.batch
        if what.packed:
            lengths = [longest, *(draw.randint(2, longest) for _ in range(what.batch - 1))]
            lengths.sort(reverse=True)
        words = [[draw.randrange(VOCABULARY) for _ in range(longest)] for _ in range(what.batch)]
        classes = [row[0] % CLASSES for row in words]
        return torch.tensor(words), torch.tensor(classes), lengths

    def length() -> int:
        return what.words if what.lengths == "fixed" else draw.randint(5, what.words)

    kept = [batch(length()) for _ in range(8)] if what.lengths == "repeated" else []
    while True:
        yield from kept or [batch(length())]


def model_of(torch: Any, what: Training) -> tuple[Any, Callable[[Any, list[int]], Any]]:
    """(parameters, a function from words and lengths to scores of classes)."""
    nn = torch.nn
    table = nn.Embedding(VOCABULARY, what.width)
    if what.layer == "Transformer":
        layer = nn.TransformerEncoderLayer(what.width, 4, 4 * what.width, batch_first=True)
    else:
        layer = getattr(nn, what.layer)(
            what.width, what.width, batch_first=True, bidirectional=what.both
        )
    head = nn.Linear(what.width * (1 + what.both), CLASSES)

    def scores(words: Any, lengths: list[int]) -> Any:
        x = table(words)
        if what.layer == "Transformer":
            return head(layer(x).mean(1))
        if what.packed:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
            _, (h, _) = layer(packed)
            return head(torch.cat([h[0], h[1]], 1))
        return head(layer(x)[0].mean(1))

    return nn.ModuleList([table, layer, head]).parameters(), scores


def train(name: str, seconds: float, steps: int) -> dict[str, Any]:
    """Train for so many steps, or else until so many seconds have passed."""
    import torch

    began, started = time.perf_counter(), time.process_time()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    what = TRAININGS[name]
    parameters, scores = model_of(torch, what)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    totals: list[float] = []
    loss = 0.0
    for words, classes, lengths in batches(torch, what):
        over = time.perf_counter() - began > seconds
        if len(totals) == steps if steps else over:
            break
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(scores(words, lengths), classes)
        value.backward()
        optimizer.step()
        loss = value.item()
        totals.append(time.perf_counter() - began)
    used = time.process_time() - started
    return {"import": started, "totals": totals, "cpu": used, "loss": loss}


def run(framework: str, name: str, seconds: float, steps: int, **variables: str) -> dict[str, Any]:
    """Train in a process of its own, with further variables in its environment."""
    through = ["-m", "wend", "run"] if framework == "wend" else []
    command = [sys.executable, *through, __file__, "--train", name]
    numbers = [str(seconds), str(steps)]
    made = subprocess.run(
        [*command, *numbers],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    found: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
    return found


def compare(name: str, seconds: float, warm: bool) -> dict[str, Any]:
    """Return one row of the table."""
    theirs = run("torch", name, seconds, 0)
    steps = len(theirs["totals"])
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(1 + warm):
            mine = run("wend", name, seconds, steps, WEND_CACHE_DIR=folder)
    row = {"training": name, "steps": steps}
    row["wall"] = theirs["totals"][-1] / mine["totals"][-1]
    row["cpu"] = theirs["cpu"] / mine["cpu"]
    for framework, side in (("torch", theirs), ("wend", mine)):
        totals = side["totals"]
        few = max(1, steps // 10)
        parts = [1e3 * (b - a) for a, b in pairwise(totals)]
        row[f"{framework} import"] = side["import"]
        row[f"{framework} first"] = totals[0]
        row[f"{framework} last"] = 1e3 * (totals[-1] - totals[-1 - few]) / few
        row[f"{framework} worst"] = max(parts[10:], default=0.0)
    row["torch loss"], row["wend loss"] = theirs["loss"], mine["loss"]
    return row


def main() -> None:
    """Run the comparison from the command line."""
    if sys.argv[1:2] == ["--train"]:
        name, seconds, steps = sys.argv[2:]
        print(json.dumps(train(name, float(seconds), int(steps))))
        return
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from bench import publish

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trainings", nargs="*", metavar="training", help=", ".join(TRAININGS))
    parser.add_argument("--seconds", type=float, default=5.0, help="of PyTorch")
    parser.add_argument("--warm", action="store_true", help="with the cache of a run before")
    args = parser.parse_args()
    unknown = set(args.trainings) - set(TRAININGS)
    if unknown:
        parser.error(f"no such training: {', '.join(sorted(unknown))}; there are {[*TRAININGS]}")
    rows = []
    for name in args.trainings or TRAININGS:
        rows.append(compare(name, args.seconds, args.warm))
        print(
            {k: round(v, 3) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True
        )
    publish("trainings", rows, list(rows[0]))


if __name__ == "__main__":
    main()
