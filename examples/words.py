"""A recurrent tagger over sentences of every length: one cell call a word, no padding.

The sentences are the documentation strings of Python's own standard library, every word in lower
case; the tagger says how each was written: lower case, Capitalised, or some OTHER way (``UPPER``,
``camelCase``). One module in five is held out. The score is balanced accuracy, the mean of the
three classes' recalls: a tagger that always says the commonest tag has 1/3.

    python examples/words.py       # PyTorch
    wend run examples/words.py     # Wend
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from typing import Any

import torch
import torch.nn.functional as F
from common import held_out, library_modules, options, progress, report, same_start
from torch import nn

LOWER, CAPITALISED, OTHER = range(3)
UNKNOWN = 0
WORD = re.compile(r"[A-Za-z]+|[0-9]+|[^\w\s]")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

Sentence = list[str]


def sentences(modules: int = 0) -> tuple[list[Sentence], list[Sentence]]:
    """Return the library's sentences of 4 to 40 words: (for training, of held-out modules).

    modules: how many modules to read; 0 for all.
    """
    parts: tuple[list[Sentence], list[Sentence]] = ([], [])
    seen = set()
    for name, tree in library_modules(modules):
        for node in ast.walk(tree):
            text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            for sentence in split(text or ""):
                if tuple(sentence) not in seen:  # inherited texts come many times
                    seen.add(tuple(sentence))
                    parts[held_out(name)].append(sentence)
    return parts


def split(text: str) -> list[Sentence]:
    """Split a documentation string into sentences of 4 to 40 words and signs."""
    found = []
    for paragraph in re.split(r"\n\s*\n|\n\s*[-*] ", text):
        if ">>>" in paragraph:  # a session at the prompt, not prose
            continue
        for piece in re.split(r"(?<=[.!?:])\s+", paragraph):
            words = WORD.findall(piece)
            if 4 <= len(words) <= 40 and sum(word.isalpha() for word in words) >= 3:
                found.append(words)
    return found


def tag(word: str) -> int:
    """Return how a word is written; -100 (no tag) for numbers and signs."""
    if not word.isalpha():
        return -100
    if word.islower():
        return LOWER
    return CAPITALISED if len(word) > 1 and word.istitle() else OTHER


class Tagger(nn.Module):
    """Two recurrent cells, one for each direction, over embedded words.

    words: (n,) of int64   ->   scores: (n, 3)
    """

    def __init__(self, vocabulary: int, embedding: int = 32, hidden: int = 48) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.forwards = nn.LSTMCell(embedding, hidden)
        self.backwards = nn.LSTMCell(embedding, hidden)
        self.output = nn.Linear(2 * hidden, 3)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        inputs = self.embedding(words).unsqueeze(1)
        left = self.read(self.forwards, inputs, range(len(words)))
        right = self.read(self.backwards, inputs, reversed(range(len(words))))
        return self.output(torch.cat([torch.cat(left), torch.cat(right[::-1])], dim=1))

    def read(self, cell: nn.LSTMCell, inputs: torch.Tensor, order: Any) -> list[torch.Tensor]:
        """Call the cell once a word, in the given order; return its states in that order."""
        state = None
        states = []
        for i in order:
            state = cell(inputs[i], state)
            states.append(state[0])
        return states


def balanced_accuracy(recalls: list[tuple[int, int]]) -> float:
    """Return the mean over classes of found / all; a class that does not occur counts as 0."""
    return sum(found / max(count, 1) for found, count in recalls) / len(recalls)


def evaluate(model: Tagger, examples: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Return the tagger's balanced accuracy on examples of (words, tags)."""
    found, count = Counter(), Counter()
    with torch.no_grad():
        for words, tags in examples:
            guesses = model(words).argmax(dim=1).tolist()
            for guess, answer in zip(guesses, tags.tolist(), strict=True):
                count[answer] += 1
                found[answer] += guess == answer
    return balanced_accuracy([(found[kind], count[kind]) for kind in range(3)])


def prepare(args: Any) -> tuple[int, list[Any], list[Any], torch.Tensor]:
    """Return the vocabulary's size, training and held-out examples, and the classes' weights."""
    train, test = sentences(args.modules)
    shuffler = random.Random(args.seed)
    shuffler.shuffle(train)
    shuffler.shuffle(test)
    train, test = train[: args.limit], test[: args.test_limit]
    counts = Counter(word.lower() for sentence in train for word in sentence)
    common = [word for word, count in sorted(counts.items()) if count > 1]
    numbers = {word: number for number, word in enumerate(common, start=UNKNOWN + 1)}

    def example(sentence: Sentence) -> tuple[torch.Tensor, torch.Tensor]:
        words = [numbers.get(word.lower(), UNKNOWN) for word in sentence]
        return torch.tensor(words), torch.tensor([tag(word) for word in sentence])

    tags = Counter(tag(word) for sentence in train for word in sentence)
    total = tags[LOWER] + tags[CAPITALISED] + tags[OTHER]
    weights = torch.tensor([total / (3 * max(tags[kind], 1)) for kind in range(3)])
    return len(numbers) + 1, [example(s) for s in train], [example(s) for s in test], weights


def train_epoch(
    model: Tagger, optimizer: torch.optim.Optimizer, train: list[Any], batch: int, weights: Any
) -> list[float]:
    """Go once through the training sentences; return each batch's loss."""
    losses = []
    for start in progress(range(0, len(train), batch), "an epoch"):
        chosen = train[start : start + batch]
        loss = sum(
            F.cross_entropy(model(words), tags, weight=weights, reduction="sum")
            for words, tags in chosen
        ) / sum(len(words) for words, _ in chosen)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Train and evaluate; return losses, balanced accuracy and that of the majority tag."""
    parser = options(__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=1200, help="training sentences")
    parser.add_argument("--test-limit", type=int, default=300, help="held-out sentences")
    parser.add_argument("--modules", type=int, default=0, help="modules to read (0: all)")
    parser.add_argument("--batch-size", type=int, default=8, help="sentences a step")
    args = parser.parse_args(argv)
    size, train, test, weights = prepare(args)
    torch.manual_seed(args.seed)
    model = Tagger(size)
    same_start(model, args)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    losses, score, majority = [], 0.0, 1 / 3
    shuffler = random.Random(args.seed)
    for epoch in range(args.epochs):
        shuffler.shuffle(train)
        losses += train_epoch(model, optimizer, train, args.batch_size, weights)
        score = evaluate(model, test)
        print(f"epoch {epoch}: loss {losses[-1]:.3f}, balanced accuracy {score:.1%}, ", end="")
        print(f"of the majority tag {majority:.1%}")
    metrics = {"losses": losses, "balanced_accuracy": score, "majority": majority}
    return report(metrics, args)


if __name__ == "__main__":
    main()
