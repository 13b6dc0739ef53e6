"""A BiLSTM tagger, 16 sentences of 5 to 50 words; h 64, e 128, one cell call per word."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from written.held import Layers, State
from written.program import Program

HIDDEN, EMBEDDING, WORDS, TAGS, SENTENCES = 64, 128, 2000, 12, 16


class BilstmTagger(Program):
    """Words -> tag of each word."""

    RATE = 0.1
    LAYERS: ClassVar[Layers] = {
        "embedding": ("embedding", WORDS, EMBEDDING),
        "forwards": ("lstm", EMBEDDING, HIDDEN),
        "backwards": ("lstm", EMBEDDING, HIDDEN),
        "output": ("linear", 2 * HIDDEN, TAGS),
    }

    def batch(self, rng: np.random.Generator) -> Any:
        return [rng.integers(0, WORDS, n) for n in rng.integers(5, 51, SENTENCES)]

    def loss(self, batch: Any) -> torch.Tensor:
        tags = torch.cat([torch.from_numpy(words % TAGS) for words in batch])
        return F.cross_entropy(torch.cat(self.each(self.scores, batch)), tags)

    def scores(self, words: np.ndarray) -> torch.Tensor:
        inputs = self.vectors(words)
        left = self.states("forwards", inputs)
        right = self.states("backwards", inputs[::-1])[::-1]
        if self.hand.loops == "explicit":
            pairs = [torch.cat([a, b], dim=1) for a, b in zip(left, right)]
            return self.held.linear("output", torch.cat(pairs))
        return self.held.linear("output", torch.cat([torch.cat(left), torch.cat(right)], dim=1))

    def states(self, name: str, inputs: Any) -> list[torch.Tensor]:
        def cell(x: torch.Tensor, state: State | None) -> State:
            return self.held.lstm(name, x, state)

        return [h for h, _ in self.scan(cell, inputs, None)]
