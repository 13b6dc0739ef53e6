"""Train a word tagger that reads hard sentences only, and let a C program tag others.

    wend run examples/aot_tagger.py [DIRECTORY]

The sentences and tags are those of ``words.py``. A first look at each word by itself is enough
where the tags are little in doubt. Else a recurrent layer reads the sentence. ``wend.aot.compile``
keeps this ``if`` and the loop over words: one library serves sentences of all lengths. This is
Wend's own: PyTorch cannot run it.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from common import options, progress
from torch import nn
from words import prepare

SOURCE = Path(__file__).with_suffix(".c")
SURE = 0.75


class Tagger(nn.Module):
    """Tags of a sentence, after one stage or two.

    words: (n,) of int64   ->   (scores: (n, 3), how many stages were needed)
    """

    def __init__(self, vocabulary: int, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.first = nn.Linear(width, 3)
        self.reader = nn.LSTM(width, width)
        self.second = nn.Linear(width, 3)

    def forward(self, words: torch.Tensor) -> tuple[torch.Tensor, int]:
        x = self.embedding(words)
        scores = self.first(x)
        if scores.softmax(dim=1).amax(dim=1).mean() > SURE:
            return scores, 1
        return self.second(self.read(x)), 2

    def read(self, x: torch.Tensor) -> torch.Tensor:
        """Return the words as the recurrent layer sees them, (n, width)."""
        return self.reader(x.unsqueeze(1))[0].squeeze(1)

    def loss(self, words: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        """Return the loss of both stages."""
        x = self.embedding(words)
        scores = torch.stack([self.first(x), self.second(self.read(x))])
        return F.cross_entropy(scores.flatten(0, 1), tags.repeat(2))


def train(args: Any) -> tuple[Tagger, list[Any]]:
    """Return a trained tagger, and held-out examples of (words, tags)."""
    torch.manual_seed(args.seed)
    size, train, test, _ = prepare(args)
    model = Tagger(size)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in progress(range(args.epochs), "training"):
        for start in range(0, len(train), 8):
            optimizer.zero_grad()
            sum(model.loss(*example) for example in train[start : start + 8]).backward()
            optimizer.step()
    return model.eval(), test


def tag_in_c(
    model: Tagger, sentences: list[torch.Tensor], folder: Path
) -> list[tuple[list[int], int]]:
    """Return, by sentence, the tags and the number of stages of the C program."""
    made = torch.aot.compile(model, sentences[0], directory=folder, name="tagger")
    program, data = folder / "aot_tagger", folder / "words"
    words = ["cc", "-O2", "-I", folder, SOURCE, made.library, f"-Wl,-rpath,{folder}", "-o", program]
    subprocess.run(words, check=True)
    data.write_bytes(
        b"".join(torch.cat([torch.tensor([len(s)]), s]).numpy().tobytes() for s in sentences)
    )
    done = subprocess.run([program, made.weights, data], check=True, capture_output=True, text=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return [([int(tag) for tag in tags], int(stages)) for tags, stages in rows]


def main(argv: list[str] | None = None) -> float:
    """Print, and return, the share of held-out words that the C program tags right."""
    parser = options(__doc__)
    parser.add_argument("directory", nargs="?", help="where the files go; else they are removed")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=400, help="training sentences")
    parser.add_argument("--test-limit", type=int, default=100, help="held-out sentences")
    parser.add_argument("--modules", type=int, default=60, help="modules to read (0: all)")
    args: argparse.Namespace = parser.parse_args(argv)
    model, test = train(args)
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad():
        folder = Path(args.directory or temporary).resolve()
        found = tag_in_c(model, [words for words, _ in test], folder)
        for (words, _), (tags, stages) in zip(test, found, strict=True):
            scores, needed = model(words)
            assert needed == stages, "C and Wend took other ways"
            assert scores.argmax(dim=1).tolist() == tags, "C and Wend read other tags"
    pairs = [
        (mine, tag)
        for (_, tags), (guesses, _) in zip(test, found, strict=True)
        for mine, tag in zip(guesses, tags.tolist(), strict=True)
        if tag >= 0
    ]
    share = sum(mine == tag for mine, tag in pairs) / len(pairs)
    early = sum(stages == 1 for _, stages in found)
    print(f"the C program tags {share:.1%} of {len(pairs)} held-out words right, ", end="")
    print(f"and {early} of {len(found)} sentences at first sight")
    return share


if __name__ == "__main__":
    main()
