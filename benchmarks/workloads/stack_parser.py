"""A stack parser: 16 sentences of 5 to 30 words; the last action's score decides on the next one.

Hidden size 64, embedding 64, SGD. What a stack element stands for is composed by a binary LSTM.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from common import alone, for_all
from torch import nn

HIDDEN, WORDS, SENTENCES = 64, 2000, 16
SHIFT, REDUCE = 0, 1

State = tuple[torch.Tensor, torch.Tensor]


class Parser(nn.Module):
    """words (n,), answers (n,) -> loss: the sum over the actions taken, each the better-scored."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, HIDDEN)
        self.enter = nn.Linear(HIDDEN, 2 * HIDDEN)
        self.compose = nn.Linear(2 * HIDDEN, 5 * HIDDEN)
        self.score = nn.Linear(3 * HIDDEN, 2)
        self.register_buffer("nothing", torch.zeros(1, HIDDEN), persistent=False)

    def push(self, word: torch.Tensor) -> State:
        h, c = self.enter(word).chunk(2, dim=1)
        return torch.tanh(h), torch.tanh(c)

    def join(self, left: State, right: State) -> State:
        gates = self.compose(torch.cat([left[0], right[0]], dim=1)).chunk(5, dim=1)
        enter, first, second, out = (torch.sigmoid(g) for g in gates[:4])
        c = enter * torch.tanh(gates[4]) + first * left[1] + second * right[1]
        return out * torch.tanh(c), c

    def forward(self, words: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        inputs = self.embedding(words).unsqueeze(1)
        stack: list[State] = []
        position, losses = 0, []
        while position < len(inputs) or len(stack) > 1:
            tops = [h for h, _ in stack[-2:]]
            tops = [self.nothing] * (2 - len(tops)) + tops
            front = inputs[position] if position < len(inputs) else self.nothing
            scores = self.score(torch.cat([*tops, front], dim=1))
            losses.append(F.cross_entropy(scores, answers[len(losses)]))
            action = int(scores.argmax())
            if position == len(inputs) or (action == REDUCE and len(stack) > 1):
                right, left = stack.pop(), stack.pop()
                stack.append(self.join(left, right))
            else:
                stack.append(self.push(front))
                position += 1
        return torch.stack(losses).sum()


class StackParserWorkload:
    """A fresh batch of sentences each step."""

    steps = 2
    warm_up = 40  # `batched` tries both of its ways on the first; plans come until about here

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        torch.manual_seed(0)
        self.model = Parser()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def step(self) -> float:
        lengths = self.rng.integers(5, 31, SENTENCES)
        words = [torch.from_numpy(self.rng.integers(0, WORDS, n)) for n in lengths]
        answers = [torch.from_numpy(self.rng.integers(0, 2, (2 * n, 1))) for n in lengths]
        loss = torch.stack(for_all(self.model, words, answers)).sum() / sum(lengths)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    alone(StackParserWorkload())
