"""Is this a method of a class? A TreeLSTM reads the syntax tree of a function, by recursion.

The trees are functions of Python's own standard library, names left out. The model is a
child-sum TreeLSTM (Tai, Socher and Manning, 2015): a call for each node.
"""

import argparse
import ast
import random
import sysconfig
import time
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


def functions(folder):
    """Yield the functions of 10 to 80 nodes, each with 1 for a method, else 0."""
    for path in sorted(Path(folder).glob("[a-h]*.py")):
        module = ast.parse(path.read_bytes())
        for scope in (module, *module.body):
            if isinstance(scope, (ast.Module, ast.ClassDef)):
                for node in scope.body:
                    size = sum(1 for _ in ast.walk(node))
                    if isinstance(node, ast.FunctionDef) and 10 <= size <= 80:
                        yield node, int(isinstance(scope, ast.ClassDef))


KINDS = {name: number for number, name in enumerate(sorted(dir(ast)))}


class TreeLSTM(nn.Module):
    """tree -> scores of (function, method): (1, 2)"""

    def __init__(self, size=32):
        super().__init__()
        self.of_kind = nn.Embedding(len(KINDS), 4 * size)
        self.of_sum = nn.Linear(size, 3 * size)
        self.of_child = nn.Linear(size, size)
        self.scores = nn.Linear(size, 2)
        self.nothing = torch.zeros(1, size)

    def forward(self, tree):
        return self.scores(self.state(tree)[0])

    def state(self, node):
        """Return h and c of a node, each (1, size), from those of the children."""
        kind = self.of_kind(torch.tensor([KINDS[type(node).__name__]]))
        enter, out, new, forget = kind.chunk(4, dim=1)
        children = [self.state(child) for child in ast.iter_child_nodes(node)]
        kept = self.nothing
        if children:
            h, c = (torch.cat(states) for states in zip(*children))
            kept = (torch.sigmoid(forget + self.of_child(h)) * c).sum(0, keepdim=True)
            sums = self.of_sum(h.sum(0, keepdim=True)).chunk(3, dim=1)
            enter, out, new = enter + sums[0], out + sums[1], new + sums[2]
        c = torch.sigmoid(enter) * torch.tanh(new) + kept
        return torch.sigmoid(out) * torch.tanh(c), c


net = TreeLSTM()
source = random.Random(0)
for weights in net.parameters():  # the same start, whichever library runs this file
    numbers = [source.uniform(-0.2, 0.2) for _ in range(weights.numel())]
    weights.data = torch.tensor(numbers).reshape(weights.shape)
data = list(functions(args.library))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(args.steps):
    start = time.process_time()
    batch = source.sample(data, 16)
    scores = torch.cat([net(tree) for tree, _ in batch])
    loss = F.cross_entropy(scores, torch.tensor([method for _, method in batch]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss = loss.item()
    print(f"step {step}: loss {loss:.6f}, {1000 * (time.process_time() - start):.1f} ms")
print(f"{args.steps} steps, imports included: {time.process_time():.2f} s")
