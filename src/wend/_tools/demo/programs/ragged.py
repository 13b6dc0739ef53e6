"""Which words had a capital? A recurrent net reads sentences of every length, unpadded.

The sentences are in the documentation strings of Python's own standard library; the net sees lower
case alone. A sentence is a list, and the net calls a cell once a word, in a plain loop.
"""

import argparse
import ast
import random
import re
import sysconfig
import time
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--steps", type=int, default=60)
options.add_argument(
    "--library", default=sysconfig.get_path("stdlib"), help="a folder of .py files"
)
args = options.parse_args()


def sentences(folder):
    """Yield the sentences of 3 to 40 words, as lists of words."""
    for path in sorted(Path(folder).glob("[a-h]*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                for text in re.split(r"[.:;]\s|\n\n", ast.get_docstring(node) or ""):
                    words = re.findall(r"[A-Za-z]+", text)
                    if 3 <= len(words) <= 40:
                        yield words


class Tagger(nn.Module):
    """numbers of words: (n,) -> scores of (lower case, a capital): (n, 2)"""

    def __init__(self, words, size=48):
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.forwards = nn.LSTMCell(size, size)
        self.backwards = nn.LSTMCell(size, size)
        self.scores = nn.Linear(2 * size, 2)

    def forward(self, words):
        vectors = self.embedding(words).split(1)
        left = self.read(self.forwards, vectors)
        right = self.read(self.backwards, vectors[::-1])
        return self.scores(torch.cat([torch.cat(left), torch.cat(right[::-1])], dim=1))

    def read(self, cell, vectors):
        state, states = None, []
        for vector in vectors:
            state = cell(vector, state)
            states.append(state[0])
        return states


data = list(sentences(args.library))
counts = Counter(word.lower() for words in data for word in words)
numbers = {word: i for i, (word, _) in enumerate(counts.most_common(2000), start=1)}
net = Tagger(len(numbers) + 1)
source = random.Random(0)
for weights in net.parameters():  # the same start, whichever library runs this file
    values = [source.uniform(-0.2, 0.2) for _ in range(weights.numel())]
    weights.data = torch.tensor(values).reshape(weights.shape)
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(args.steps):
    start = time.process_time()
    batch = source.sample(data, 16)
    losses = [
        F.cross_entropy(
            net(torch.tensor([numbers.get(word.lower(), 0) for word in words])),
            torch.tensor([int(not word.islower()) for word in words]),
        )
        for words in batch
    ]
    loss = sum(losses) / len(losses)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss = loss.item()
    print(f"step {step}: loss {loss:.6f}, {1000 * (time.process_time() - start):.1f} ms")
print(f"{args.steps} steps, imports included: {time.process_time():.2f} s")
