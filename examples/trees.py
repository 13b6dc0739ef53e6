"""A TreeLSTM, by recursion, over the syntax trees of Python's own standard library.

Does a function return a value? The tree of each function in the library is read with the answer
taken out: its ``return`` statements are gone, and so is whatever that leaves empty; decorators,
annotations and documentation strings as well. One module in five is held out. The model is the
child-sum TreeLSTM of Tai, Socher and Manning (2015): one call a node, in plain recursion.

    python examples/trees.py       # PyTorch
    wend run examples/trees.py     # Wend
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from common import held_out, library_modules, options, progress, report, same_start
from torch import nn

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
UNKNOWN = 0


@dataclass
class Tree:
    """A labelled tree: a node's kind, or the name it carries, and its children."""

    label: str
    children: list[Tree] = field(default_factory=list)

    def size(self) -> int:
        """Return the number of nodes."""
        return 1 + sum(child.size() for child in self.children)

    def labels(self) -> list[str]:
        """Return all labels, parents first."""
        return [self.label, *(label for child in self.children for label in child.labels())]


def returns_value(function: ast.AST) -> bool:
    """Tell whether a ``return`` of the function itself (not of one inside it) has a value."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.Return) and node.value is not None:
            return True
        if not isinstance(node, SCOPES) and returns_value(node):
            return True
    return False


def is_generator(function: ast.AST) -> bool:
    """Tell whether the function yields: its ``return`` means another thing."""
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(function))


def without_answer(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements without ``return``, documentation, and what is empty without them."""
    kept = []
    for statement in statements:
        bodies = [name for name in ("body", "orelse", "finalbody") if hasattr(statement, name)]
        for name in bodies:
            setattr(statement, name, without_answer(getattr(statement, name)))
        for holder in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            holder.body = without_answer(holder.body)
        empty = bodies and not any(getattr(statement, name) for name in bodies)
        text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not (empty or text or isinstance(statement, (ast.Return, ast.Pass))):
            kept.append(statement)
    return kept


def tree_of(node: ast.AST) -> Tree:
    """Turn syntax into a tree: kinds of nodes inside, names and kinds of constants at leaves."""
    if isinstance(node, ast.Name):
        return Tree(node.id)
    if isinstance(node, ast.arg):
        return Tree("arg " + node.arg)
    if isinstance(node, ast.Attribute):
        return Tree("." + node.attr, [tree_of(node.value)])
    if isinstance(node, ast.Constant):
        return Tree("constant " + type(node.value).__name__)
    if isinstance(node, FUNCTIONS):
        return Tree("def", [tree_of(child) for child in [*node.args.args, *node.body]])
    children = [c for c in ast.iter_child_nodes(node) if not isinstance(c, ast.expr_context)]
    return Tree(type(node).__name__, [tree_of(child) for child in children])


def functions(limit: int, modules: int) -> tuple[list[Any], list[Any]]:
    """Return (tree, answer) of functions of 8 to ``limit`` nodes: (training, held-out)."""
    parts: tuple[list[Any], list[Any]] = ([], [])
    for name, module in library_modules(modules):
        found = [node for node in ast.walk(module) if isinstance(node, FUNCTIONS)]
        # All answers first: taking them out of a function takes them out of those inside it.
        answers = [(f, int(returns_value(f))) for f in found if not is_generator(f)]
        for function, answer in answers:
            function.body = without_answer(function.body)
            parameters = [tree_of(node) for node in function.args.args]
            tree = Tree("function", parameters + [tree_of(node) for node in function.body])
            if 8 <= tree.size() <= limit:
                parts[held_out(name)].append((tree, answer))
    return parts


class TreeLSTM(nn.Module):
    """Child-sum TreeLSTM: a node's state from its label and its children's states, recursively.

    tree   ->   scores: (1, 2)
    """

    def __init__(self, labels: dict[str, int], embedding: int = 32, hidden: int = 48) -> None:
        super().__init__()
        self.labels = labels
        self.sizes = [3 * hidden, hidden]
        self.embedding = nn.Embedding(len(labels) + 1, embedding)
        self.from_label = nn.Linear(embedding, 4 * hidden)
        self.from_sum = nn.Linear(hidden, 3 * hidden, bias=False)
        self.from_child = nn.Linear(hidden, hidden, bias=False)
        self.output = nn.Linear(hidden, 2)
        self.register_buffer("nothing", torch.zeros(1, hidden), persistent=False)

    def forward(self, tree: Tree) -> torch.Tensor:
        return self.output(self.state(tree)[0])

    def state(self, tree: Tree) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the node's (h, c), each (1, hidden)."""
        label = torch.tensor([self.labels.get(tree.label, UNKNOWN)])
        gates, forget_label = self.from_label(self.embedding(label)).split(self.sizes, dim=1)
        if tree.children:
            hs, cs = zip(*(self.state(child) for child in tree.children), strict=True)
            h, c = torch.cat(hs), torch.cat(cs)
            forget = torch.sigmoid(forget_label + self.from_child(h))
            gates = gates + self.from_sum(h.sum(dim=0, keepdim=True))
            kept = (forget * c).sum(dim=0, keepdim=True)
        else:
            kept = self.nothing
        enter, out, new = gates.chunk(3, dim=1)
        c = torch.sigmoid(enter) * torch.tanh(new) + kept
        return torch.sigmoid(out) * torch.tanh(c), c


def train_epoch(
    model: TreeLSTM, optimizer: torch.optim.Optimizer, train: list[Any], batch: int
) -> list[float]:
    """Go once through the training trees; return each batch's loss."""
    losses = []
    for start in progress(range(0, len(train), batch), "an epoch"):
        chosen = train[start : start + batch]
        scores = torch.cat([model(tree) for tree, _ in chosen])
        loss = F.cross_entropy(scores, torch.tensor([answer for _, answer in chosen]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def accuracy(model: TreeLSTM, examples: list[Any]) -> float:
    """Return the share of trees answered right."""
    with torch.no_grad():
        right = [model(tree).argmax().item() == answer for tree, answer in examples]
    return sum(right) / len(right)


def one_seed(seed: int, args: Any, train: list[Any], test: list[Any]) -> dict[str, Any]:
    """Train from one seed; return losses and accuracy on the held-out modules."""
    counts = Counter(label for tree, _ in train for label in tree.labels())
    common = [label for label, count in sorted(counts.items()) if count > 2]
    labels = {label: number for number, label in enumerate(common, start=UNKNOWN + 1)}
    torch.manual_seed(seed)
    model = TreeLSTM(labels)
    same_start(model, args)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    train = list(train)
    shuffler = random.Random(seed)
    losses, score = [], 0.0
    for epoch in range(args.epochs):
        shuffler.shuffle(train)
        losses += train_epoch(model, optimizer, train, args.batch_size)
        score = accuracy(model, test)
        print(f"seed {seed}, epoch {epoch}: loss {losses[-1]:.3f}, held-out {score:.1%}")
    return {"losses": losses, "accuracy": score}


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Train over the seeds; return losses, accuracies and the majority class's share."""
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="seeds to train from")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=500, help="training functions")
    parser.add_argument("--test-limit", type=int, default=200, help="held-out functions")
    parser.add_argument("--nodes", type=int, default=40, help="largest tree")
    parser.add_argument("--modules", type=int, default=0, help="modules to read (0: all)")
    parser.add_argument("--batch-size", type=int, default=16, help="trees a step")
    args = parser.parse_args(argv)
    train, test = functions(args.nodes, args.modules)
    shuffler = random.Random(0)  # every seed learns from the same functions
    shuffler.shuffle(train)
    shuffler.shuffle(test)
    train, test = train[: args.limit], test[: args.test_limit]
    share = sum(answer for _, answer in test) / len(test)
    majority = max(share, 1 - share)
    runs = [one_seed(args.seed + i, args, train, test) for i in range(args.seeds)]
    mean = sum(run["accuracy"] for run in runs) / len(runs)
    print(f"held-out accuracy {mean:.1%} over {len(runs)} seeds, majority class {majority:.1%}")
    return report({"runs": runs, "accuracy": mean, "majority": majority}, args)


if __name__ == "__main__":
    main()
