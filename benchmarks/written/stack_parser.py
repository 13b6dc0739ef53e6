"""A stack parser: 16 sentences of 5 to 30 words; the last action's score decides on the next one.

Hidden size 64, embedding 64. What a stack element stands for is composed by a binary LSTM.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from common import for_all

from written.held import Layers, State, binary_lstm
from written.program import Program

HIDDEN, WORDS, SENTENCES = 64, 2000, 16
SHIFT, REDUCE = 0, 1


class StackParser(Program):
    """Words and answers -> the mean loss of the actions taken, each the better-scored."""

    RATE = 0.01
    LAYERS: ClassVar[Layers] = {
        "embedding": ("embedding", WORDS, HIDDEN),
        "enter": ("linear", HIDDEN, 2 * HIDDEN),
        "compose": ("linear", 2 * HIDDEN, 5 * HIDDEN),
        "score": ("linear", 3 * HIDDEN, 2),
    }

    def batch(self, rng: np.random.Generator) -> Any:
        lengths = rng.integers(5, 31, SENTENCES)
        words = [rng.integers(0, WORDS, n) for n in lengths]
        return words, [rng.integers(0, 2, 2 * n) for n in lengths]

    def loss(self, batch: Any) -> torch.Tensor:
        self.nothing = torch.zeros(1, HIDDEN)
        inputs = [self.vectors(words) for words in batch[0]]
        answers = [self.rows(numbers) for numbers in batch[1]]
        one = self.recursive if self.hand.loops == "recursion" else self.one
        return torch.stack(for_all(one, inputs, answers)).sum() / sum(map(len, batch[0]))

    def one(self, inputs: Any, answers: Any) -> torch.Tensor:
        stack: list[State] = []
        position, losses = 0, []
        while position < len(inputs) or len(stack) > 1:
            loss, position = self.act(inputs, answers[len(losses)], stack, position)
            losses.append(loss)
        return torch.stack(losses).sum()

    def recursive(
        self, inputs: Any, answers: Any, stack: Any = (), position: int = 0, done: int = 0
    ) -> torch.Tensor:
        """The same with the rest of the sentence by recursion."""
        stack = list(stack)
        loss, position = self.act(inputs, answers[done], stack, position)
        if position == len(inputs) and len(stack) < 2:
            return loss
        return loss + self.recursive(inputs, answers, stack, position, done + 1)

    def act(
        self, inputs: Any, answer: torch.Tensor, stack: list[State], position: int
    ) -> tuple[torch.Tensor, int]:
        """Take one action; return its loss, and how many words have been taken."""
        tops = [h for h, _ in stack[-2:]]
        tops = [self.nothing] * (2 - len(tops)) + tops
        front = inputs[position] if position < len(inputs) else self.nothing
        scores = self.held.linear("score", torch.cat([*tops, front], dim=1))
        loss = F.cross_entropy(scores, answer)
        action = int(scores.argmax())
        if position == len(inputs) or (action == REDUCE and len(stack) > 1):
            right, left = stack.pop(), stack.pop()
            stack.append(self.join(left, right))
            return loss, position
        h, c = self.held.parts(self.held.linear("enter", front), 2)
        stack.append((torch.tanh(h), torch.tanh(c)))
        return loss, position + 1

    def join(self, left: State, right: State) -> State:
        gates = self.held.linear("compose", torch.cat([left[0], right[0]], dim=1))
        i, f1, f2, o, u = self.held.parts(gates, 5)
        return binary_lstm(i, o, u, (f1, f2), (left[1], right[1]))
