"""A shift-reduce parser of the expressions in Python's own standard library, brackets left out.

From ``a + b * c`` the parser is to find that ``b * c`` belongs together; from ``(a + b) * c``, of
which it does not see the brackets, that it does not. It reads from left to right, keeps a stack,
and scores each time whether the three topmost entries (operand, operator, operand) become one.
The better-scored action is taken, so that what is computed next depends on a value. Training ends
an expression at its first mistake (early update: Collins and Roark, 2004). One module in five is
held out.

The parser is written for one expression. Wend runs it on all expressions of a batch as fibers
(``torch.batched``) and batches their work; PyTorch runs it on one after the other.

    python examples/parser.py       # PyTorch
    wend run examples/parser.py     # Wend
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from common import held_out, library_modules, options, progress, report, same_start
from torch import nn

SHIFT, REDUCE = 0, 1
UNKNOWN = 0

# An expression: a leaf is a token, any other node (left, operator, right).
Tree = Any


def tree_of(node: ast.expr) -> Tree:
    """Turn syntax into a tree of operators; what is no operator is a leaf."""
    if isinstance(node, ast.BinOp):
        return tree_of(node.left), type(node.op).__name__, tree_of(node.right)
    if isinstance(node, ast.BoolOp):
        tree = tree_of(node.values[0])
        for value in node.values[1:]:
            tree = (tree, type(node.op).__name__, tree_of(value))
        return tree
    if isinstance(node, ast.Compare):
        tree = tree_of(node.left)
        for op, value in zip(node.ops, node.comparators, strict=True):
            tree = (tree, type(op).__name__, tree_of(value))
        return tree
    if isinstance(node, ast.Constant):
        return "constant " + type(node.value).__name__
    return "name " + node.id if isinstance(node, ast.Name) else type(node).__name__


def tokens_of(tree: Tree) -> list[str]:
    """Return the tokens from left to right."""
    if isinstance(tree, str):
        return [tree]
    left, operator, right = tree
    return [*tokens_of(left), operator, *tokens_of(right)]


def actions_of(tree: Tree) -> list[int]:
    """Return the actions that build the tree."""
    if isinstance(tree, str):
        return [SHIFT]
    left, _, right = tree
    return [*actions_of(left), SHIFT, *actions_of(right), REDUCE]


def spans_of(actions: Sequence[int]) -> set[tuple[int, int]]:
    """Return the (first, last) tokens of what the actions join."""
    stack: list[tuple[int, int]] = []
    found = set()
    position = 0
    for action in actions:
        if action == SHIFT:
            stack.append((position, position))
            position += 1
        else:
            (_, last), _, (first, _) = stack.pop(), stack.pop(), stack.pop()
            stack.append((first, last))
            found.add((first, last))
    return found


def expressions(modules: int, longest: int) -> tuple[list[Any], list[Any]]:
    """Return (tokens, actions) of expressions of two operators or more: (training, held-out)."""
    parts: tuple[list[Any], list[Any]] = ([], [])
    seen: set[tuple[str, ...]] = set()
    for name, module in library_modules(modules):
        for node in ast.walk(module):
            if not isinstance(node, (ast.BinOp, ast.BoolOp, ast.Compare)):
                continue
            tree = tree_of(node)
            tokens = tokens_of(tree)
            if 5 <= len(tokens) <= longest and tuple(tokens) not in seen:
                seen.add(tuple(tokens))
                parts[held_out(name)].append((tokens, actions_of(tree)))
    return parts


class Parser(nn.Module):
    """Scores whether to join the top of the stack, from it and the next token."""

    def __init__(self, tokens: dict[str, int], width: int = 32) -> None:
        super().__init__()
        self.tokens = tokens
        self.embedding = nn.Embedding(len(tokens) + 1, width)
        self.join = nn.Linear(3 * width, width)
        self.hidden = nn.Linear(4 * width, width)
        self.score = nn.Linear(width, 2)

    def forward(
        self, tokens: list[str], answers: list[int] | None = None
    ) -> tuple[list[int], torch.Tensor | None]:
        """Return the actions taken, and their loss; with answers, end at the first mistake."""
        numbers = torch.tensor([self.tokens.get(token, UNKNOWN) for token in tokens])
        inputs = self.embedding(numbers).unbind(0)
        stack: list[torch.Tensor] = []
        actions: list[int] = []
        losses = []
        position = 0
        while position < len(inputs) or len(stack) > 1:
            action = SHIFT
            if len(stack) > 2 and len(stack) % 2 == 1:
                if position == len(inputs):
                    action = REDUCE
                else:
                    seen = torch.cat([*stack[-3:], inputs[position]])
                    scores = self.score(torch.tanh(self.hidden(seen)))
                    action = int(scores.argmax())
                    if answers is not None:
                        answer = answers[len(actions)]
                        losses.append(F.cross_entropy(scores, torch.tensor(answer)))
                        if action != answer:
                            break
            actions.append(action)
            if action == SHIFT:
                stack.append(inputs[position])
                position += 1
            else:
                joined = torch.tanh(self.join(torch.cat(stack[-3:])))
                stack[-3:] = [joined]
        return actions, torch.stack(losses).sum() if losses else None


def for_all(function: Callable[..., Any], *examples: Sequence[Any]) -> list[Any]:
    """Call a function for each example: Wend batches the calls, PyTorch makes them in turn."""
    batched = getattr(torch, "batched", None)
    return batched(function)(*examples) if batched else list(map(function, *examples))


def train_epoch(
    model: Parser, optimizer: torch.optim.Optimizer, train: list[Any], batch: int
) -> list[float]:
    """Go once through the training expressions; return each batch's loss."""
    losses = []
    for start in progress(range(0, len(train), batch), "an epoch"):
        tokens, actions = zip(*train[start : start + batch], strict=True)
        found = for_all(model, tokens, actions)
        loss = torch.stack([part for _, part in found if part is not None]).sum() / len(tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def exact(model: Parser, examples: list[Any]) -> tuple[float, float]:
    """Return the shares of expressions and of joined spans that the parser gets right."""
    with torch.no_grad():
        found = for_all(model, [tokens for tokens, _ in examples])
    whole = spans = total = 0
    for (_, actions), (taken, _) in zip(examples, found, strict=True):
        right = spans_of(actions)
        whole += taken == actions
        spans += len(right & spans_of(taken))
        total += len(right)
    return whole / len(examples), spans / total


def left_to_right(examples: list[Any]) -> float:
    """Return the share of expressions that are parsed right by joining as early as possible."""
    right = 0
    for tokens, actions in examples:
        early = [SHIFT]
        for _ in range(len(tokens) // 2):
            early += [SHIFT, SHIFT, REDUCE]
        right += early == actions
    return right / len(examples)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Train; return losses and shares right on the held-out modules."""
    parser = options(__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--limit", type=int, default=1000, help="training expressions")
    parser.add_argument("--test-limit", type=int, default=400, help="held-out expressions")
    parser.add_argument("--longest", type=int, default=15, help="tokens of the longest expression")
    parser.add_argument("--modules", type=int, default=0, help="modules to read (0: all)")
    parser.add_argument("--batch-size", type=int, default=25, help="expressions a step")
    args = parser.parse_args(argv)
    train, test = expressions(args.modules, args.longest)
    shuffler = random.Random(args.seed)
    shuffler.shuffle(train)
    shuffler.shuffle(test)
    train, test = train[: args.limit], test[: args.test_limit]
    counts = Counter(token for tokens, _ in train for token in tokens)
    common = [token for token, count in sorted(counts.items()) if count > 4]
    torch.manual_seed(args.seed)
    model = Parser({token: number for number, token in enumerate(common, start=UNKNOWN + 1)})
    same_start(model, args)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses: list[float] = []
    whole = spans = 0.0
    for epoch in range(args.epochs):
        shuffler.shuffle(train)
        losses += train_epoch(model, optimizer, train, args.batch_size)
        whole, spans = exact(model, test)
        print(f"epoch {epoch}: loss {losses[-1]:.3f}, held-out {whole:.1%}, spans {spans:.1%}")
    baseline = left_to_right(test)
    print(f"held-out expressions right: {whole:.1%}; from left to right: {baseline:.1%}")
    found = {"losses": losses, "exact": whole, "spans": spans, "left to right": baseline}
    return report(found, args)


if __name__ == "__main__":
    main()
