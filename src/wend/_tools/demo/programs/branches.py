"""Which module is this sentence from? A net reads until the answer is sure, and skips dull words.

The sentences are in the documentation strings of Python's own standard library. Two plain `if`
ask the net for numbers while the graph is made: is this word worth a step? Is the answer clear?
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
MODULES = ["argparse", "decimal", "difflib", "doctest", "inspect", "random", "socket", "turtle"]


def sentences(folder):
    """Yield the sentences of 5 to 40 words, each with a module's number."""
    for number, module in enumerate(MODULES):
        for node in ast.walk(ast.parse(Path(folder, f"{module}.py").read_bytes())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                for text in re.split(r"[.:;]\s|\n\n", ast.get_docstring(node) or ""):
                    words = re.findall(r"[a-z]+", text.lower())
                    if 5 <= len(words) <= 40:
                        yield words, number


class Reader(nn.Module):
    """numbers of words: (n,) -> scores of the modules, (1, 8), and how many words were read"""

    def __init__(self, words, size=48):
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.worth = nn.Linear(size, 1)
        self.cell = nn.GRUCell(size, size)
        self.scores = nn.Linear(size, len(MODULES))

    def forward(self, words):
        state, scores = torch.zeros(1, self.cell.hidden_size), torch.zeros(1, len(MODULES))
        for vector in self.embedding(words).split(1):
            worth = torch.sigmoid(self.worth(vector))
            if worth < 0.4:  # dull: no step for this word
                continue
            state = torch.lerp(state, self.cell(vector, state), worth)
            scores = self.scores(state)
            if scores.softmax(dim=1).max() > 0.8:  # sure: the rest is not read
                break
        return scores


data = list(sentences(args.library))
counts = Counter(word for words, _ in data for word in words)
numbers = {word: i for i, (word, _) in enumerate(counts.most_common(2000), start=1)}
net = Reader(len(numbers) + 1)
source = random.Random(0)
for weights in net.parameters():  # the same start, whichever library runs this file
    values = [source.uniform(-0.2, 0.2) for _ in range(weights.numel())]
    weights.data = torch.tensor(values).reshape(weights.shape)
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(args.steps):
    start = time.process_time()
    batch = source.sample(data, 16)
    scores = [net(torch.tensor([numbers.get(word, 0) for word in words])) for words, _ in batch]
    loss = F.cross_entropy(torch.cat(scores), torch.tensor([module for _, module in batch]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss = loss.item()
    print(f"step {step}: loss {loss:.6f}, {1000 * (time.process_time() - start):.1f} ms")
print(f"{args.steps} steps, imports included: {time.process_time():.2f} s")
