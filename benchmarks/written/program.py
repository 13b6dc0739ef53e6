"""What all programs share: ways to get at rows, ways to loop, and a step of training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from written.hand import Hand
from written.held import HELD, Layers, drawn

#: Rows of a tensor, each with a dim of size 1 in front.
OF_TENSOR: dict[str, Callable[[torch.Tensor], Sequence[torch.Tensor]]] = {
    "slice": lambda x: [x[k : k + 1] for k in range(len(x))],
    "int": lambda x: [x[k][None] for k in range(len(x))],
    "unbind": lambda x: x.unsqueeze(1).unbind(0),
    "iterate": lambda x: [row.unsqueeze(0) for row in x],
    "split": lambda x: x.split(1),
}
#: The same from an array.
OF_ARRAY: dict[str, Callable[[np.ndarray], Sequence[torch.Tensor]]] = {
    "tensor": lambda a: [torch.tensor([x] if a.ndim == 1 else x[None]) for x in a],
    "views": lambda a: [torch.from_numpy(a[k : k + 1]) for k in range(len(a))],
    "tolist": lambda a: [torch.tensor([x]) for x in torch.from_numpy(a).tolist()],
}


class Program:
    """A model in one hand. `batch` draws data, `loss` computes; `step` trains once."""

    LAYERS: ClassVar[Layers]
    RATE = 0.05

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.held = HELD[hand.parameters](self.LAYERS, drawn(self.LAYERS, 1), self.RATE)

    def batch(self, rng: np.random.Generator) -> Any:
        """Return the arrays of a step."""
        raise NotImplementedError

    def loss(self, batch: Any) -> torch.Tensor:
        raise NotImplementedError

    def step(self, batch: Any) -> float:
        """Train once; return the loss."""
        loss = self.loss(batch)
        self.held.train(loss)
        return loss.item()

    def rows(self, array: np.ndarray) -> Sequence[torch.Tensor]:
        """Return the rows of an array, got at as the hand does."""
        if self.hand.reach in OF_ARRAY:
            return OF_ARRAY[self.hand.reach](array)
        return OF_TENSOR[self.hand.reach](torch.from_numpy(array))

    def vectors(self, words: np.ndarray) -> Sequence[torch.Tensor]:
        """Return the vectors (1, e) of the words of a sentence."""
        reach, look_up = self.hand.reach, self.held.look_up
        if self.hand.embed == "sentence" and reach in OF_TENSOR:
            return OF_TENSOR[reach](look_up("embedding", torch.from_numpy(words)))
        if reach == "int":
            return [look_up("embedding", int(word)).unsqueeze(0) for word in words]
        return [look_up("embedding", word) for word in self.rows(words)]

    def each(self, function: Callable[..., Any], *examples: Sequence[Any]) -> list[Any]:
        """Call a function for each example."""
        if self.hand.loops == "explicit":
            found = []
            for k in range(len(examples[0])):
                found.append(function(*(column[k] for column in examples)))
            return found
        if self.hand.loops == "recursion":
            return list(map(function, *examples))
        return [function(*example) for example in zip(*examples)]

    def scan(self, cell: Callable[[Any, Any], Any], items: Sequence[Any], state: Any) -> list[Any]:
        """Return the states after each item: cell(item, state) is the next one."""
        if self.hand.loops == "recursion":
            return [] if not items else self.go_on(cell, items, 0, state)
        if self.hand.loops == "comprehension":
            return [state := cell(item, state) for item in items]
        states = []
        for item in items:
            state = cell(item, state)
            states.append(state)
        return states

    def go_on(
        self, cell: Callable[[Any, Any], Any], items: Sequence[Any], k: int, state: Any
    ) -> list[Any]:
        """The states from item k on, by recursion."""
        state = cell(items[k], state)
        return [state, *(self.go_on(cell, items, k + 1, state) if k + 1 < len(items) else ())]
