"""Train on digits and on words, and put both programs where Python need not follow.

    wend run examples/deploy.py [DIRECTORY]

The digits' CNN and a word tagger are trained as usual. The tagger reads a sentence with a cell a
word, layer by layer, and stops at the first layer that is sure of all words: plain ``for`` and
``if`` on values, on sentences of every length. Each program is saved as a session, which a fresh
process opens without tracing or compiling, and as an ONNX model, which onnxruntime runs. At last
the tagger is loaded from its ONNX model, and trained on. This is Wend's own: PyTorch cannot run it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import words
from aot_digits import train as train_digits
from common import progress
from torch import nn

Example = tuple[torch.Tensor, torch.Tensor]

#: Run by a fresh process: opens a session, feeds it the arrays of a file, and tells the time.
OPEN = """
import json, sys, time
start = time.perf_counter()
import numpy, wend
path, data = sys.argv[1:]
fed = dict(numpy.load(data))
with wend.load_session(path) as session:
    found = session.run(fed)
    found = found.numpy().tolist()
    print(json.dumps([time.perf_counter() - start, found]))
"""


class Tagger(nn.Module):
    """Layers of a cell that reads word by word; the first layer that is sure of all words answers.

    words: (n,) of int64   ->   scores: (n, 3)
    """

    def __init__(self, vocabulary: int, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.cells = nn.ModuleList([nn.GRUCell(width, width) for _ in range(layers)])
        self.exits = nn.ModuleList([nn.Linear(width, 3) for _ in range(layers)])
        self.sure = 0.8

    def read(self, cell: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        """The cell's states over the words: (n, width) -> (n, width)."""
        h = inputs.new_zeros(1, inputs.size(1))
        states = []
        for x in inputs.split(1):
            h = cell(x, h)
            states.append(h)
        return torch.cat(states)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        h = self.embedding(words)
        for cell, way_out in zip(self.cells, self.exits, strict=True):
            h = h + self.read(cell, h)
            scores = way_out(h)
            if scores.softmax(1).amax(1).min() > self.sure:
                break
        return scores

    def loss(self, words: torch.Tensor, tags: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """The loss of all exits: each learns to answer."""
        h = self.embedding(words)
        total = h.new_zeros(())
        for cell, way_out in zip(self.cells, self.exits, strict=True):
            h = h + self.read(cell, h)
            total = total + F.cross_entropy(way_out(h), tags, weight=weights, reduction="sum")
        return total


def train_tagger(epochs: int, limit: int) -> tuple[Tagger, list[Example], torch.Tensor]:
    """Return a trained tagger, held-out sentences with their tags, and the weights of the tags."""
    settings = argparse.Namespace(modules=60, seed=0, limit=limit, test_limit=60)
    vocabulary, train, test, weights = words.prepare(settings)
    model = Tagger(vocabulary)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in progress(range(epochs), "training"):
        for start in range(0, len(train), 8):
            batch = train[start : start + 8]
            loss = sum(model.loss(*example, weights) for example in batch)
            optimizer.zero_grad()
            (loss / sum(len(x) for x, _ in batch)).backward()
            optimizer.step()
    return model.eval(), test, weights


def in_a_fresh_process(path: Path, name: str, x: torch.Tensor, folder: Path) -> tuple[float, Any]:
    """Return the seconds until the first result of a saved session, and the result."""
    data = folder / "fed.npz"
    np.savez(data, **{name: x.numpy()})
    command = [sys.executable, "-c", OPEN, str(path), str(data)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, found = json.loads(done.stdout)
    return seconds, torch.tensor(found)


def deploy(
    model: nn.Module, name: str, inputs: list[torch.Tensor], folder: Path
) -> dict[str, float]:
    """Save a program as a session and as an ONNX model; compare both with the program.

    inputs: tensors of several sizes, the first of which is the example
    """
    wanted = [model(x) for x in inputs]
    session = torch.session(model, inputs[0], input_names=[name])
    for x in inputs:
        session.run({name: x})
    session.save(folder / f"{name}.wend")
    seconds, found = in_a_fresh_process(folder / f"{name}.wend", name, inputs[-1], folder)
    assert torch.allclose(found, wanted[-1], atol=1e-5), "the opened session computes other scores"
    written = torch.onnx.export(model, (inputs[0],), folder / f"{name}.onnx", input_names=[name])
    nodes = [node.op_type for node in written.model_proto.graph.node]
    print(f"{name}: a saved session answers {seconds:.2f} s after its process asks for Wend")
    print(f"{name}: the ONNX model has {len(nodes)} nodes, {nodes.count('Loop')} of them loops")
    try:
        import onnxruntime
    except ImportError:
        print(f"{name}: onnxruntime is not installed, and has not run the model")
    else:
        runtime = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"))
        for x, y in zip(inputs, wanted, strict=True):
            (scores,) = runtime.run(None, {name: x.numpy()})
            assert np.allclose(scores, y.numpy(), atol=1e-4), "onnxruntime computes other scores"
        print(f"{name}: onnxruntime agrees at {len(inputs)} sizes")
    return {"seconds": seconds, "nodes": len(nodes)}


def train_on(path: Path, examples: list[Example]) -> list[float]:
    """Load the tagger's ONNX model, train it further, and return each epoch's loss."""
    model = torch.onnx.load(path)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        total = 0.0
        for x, tags in examples:
            loss = F.cross_entropy(model(x), tags)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(examples))
    return losses


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Train, deploy and train on; return what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", help="where the files go; else they are removed")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--limit", type=int, default=300, help="training sentences")
    args = parser.parse_args(argv)
    torch.manual_seed(0)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(args.directory or temporary).resolve()
        folder.mkdir(exist_ok=True)
        cnn, images, labels = train_digits(args.epochs)
        tagger, sentences, _ = train_tagger(args.epochs, args.limit)
        with torch.no_grad():
            share = (cnn(images).argmax(1) == labels).float().mean().item()
            found = {
                "image": deploy(cnn, "image", [images[:8], images[:1], images], folder),
                "words": deploy(tagger, "words", [x for x, _ in sentences[:6]], folder),
            }
        losses = train_on(folder / "words.onnx", sentences[:20])
    print(f"{share:.1%} of the digits are read right")
    print(f"the loaded tagger trains on: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    print(f"{time.perf_counter() - start:.0f} s in all")
    return {"accuracy": share, "losses": losses, **found}


if __name__ == "__main__":
    main()
