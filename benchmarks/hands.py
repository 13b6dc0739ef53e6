"""One model written in several ways, on new data and on data that comes back.

python benchmarks/hands.py [HAND ...]       # all by default: slice tensor int unbind

A TreeLSTM over 25 trees a batch, as in workloads/tree_lstm.py. A hand is a way to get at the number
of a word. Data is new in each step, or eight batches are repeated in order. Times are milliseconds
of processor time a step after the first third of the steps: mean, and the longest. The total counts
from the start of the process. Peak memory is in MB. Each row is a process per framework.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from typing import Any

from bench import HERE, Side, frameworks, publish, serve

HANDS = ("slice", "tensor", "int", "unbind")
DATA = ("new", "repeated")
STEPS = {"wend": 40, "torch": 16}
BATCHES = 8


def measured(hand: str, data: str, steps: int) -> dict[str, float]:
    """Train in one hand; return the numbers of one side of a row."""
    import numpy as np
    import torch
    import torch.nn.functional as F

    sys.path.insert(0, str(HERE / "workloads"))
    from tree_lstm import TreeLSTM, TreeLstmWorkload

    torch.set_num_threads(1)

    class Model(TreeLSTM):
        def forward(self, tree: Any, words: Any) -> Any:
            return self.output(self.state(tree, words)[0])

        def state(self, tree: Any, inputs: Any) -> Any:
            if not isinstance(tree, int):
                return super().state(tree, inputs)
            return super().state(0, row(self, inputs, tree))

    def row(model: Any, words: Any, k: int) -> Any:
        """The embedding of word k of a sentence, (1, 300)."""
        if hand == "slice":
            return words[k : k + 1]
        if hand == "tensor":
            return model.embedding(torch.tensor([int(words[k])]))
        if hand == "int":
            return model.embedding.weight[int(words[k])][None]
        return model.embedding(words[k])

    def sentence(model: Any, words: Any) -> Any:
        if hand == "slice":
            return model.embedding(torch.from_numpy(words))
        return torch.from_numpy(words)[:, None].unbind(0) if hand == "unbind" else words

    workload = TreeLstmWorkload()
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    kept = [workload.batch() for _ in range(BATCHES)]
    times = []
    for k in range(steps):
        trees, arrays, classes = kept[k % BATCHES] if data == "repeated" else workload.batch()
        start = time.process_time()
        words = [sentence(model, w) for w in arrays]
        target = torch.from_numpy(np.asarray(classes))
        loss = F.cross_entropy(torch.cat(list(map(model, trees, words))), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        times.append(1000 * (time.process_time() - start))
    late = times[steps // 3 :]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "ms": statistics.mean(late),
        "longest": max(late),
        "total s": time.process_time(),
        "MB": peak,
    }


def main() -> None:
    """Measure all hands, or those named on the command line."""
    wanted = sys.argv[1:] or list(HANDS)
    unknown = set(wanted) - set(HANDS)
    if unknown:
        raise SystemExit(f"no such hand: {', '.join(sorted(unknown))}; there are {HANDS}")
    rows: list[dict[str, Any]] = []
    for hand in wanted:
        for data in DATA:
            row: dict[str, Any] = {"hand": hand, "data": data}
            for side in frameworks():
                process = Side(side, "hands.py", "--serve")
                try:
                    found = process.ask(hand=hand, data=data, steps=STEPS[side])
                finally:
                    process.close()
                row |= {f"{side} {key}": value for key, value in found.items()}
            if "torch ms" in row:
                row["torch / wend"] = row["torch ms"] / row["wend ms"]
            rows.append(row)
            print(row, flush=True)
    publish("hands", rows, list(rows[0]))


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(measured)
    else:
        main()
