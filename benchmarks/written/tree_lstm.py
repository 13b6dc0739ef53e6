"""A binary TreeLSTM over 25 random trees of 5 to 40 words; h 150, e 300."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from tree_lstm import CLASSES, EMBEDDING, HIDDEN, TREES, WORDS, Tree, random_tree

from written.held import Layers, State, binary_lstm
from written.program import Program


class TreeLstm(Program):
    """Trees over words -> class of each tree."""

    LAYERS: ClassVar[Layers] = {
        "embedding": ("embedding", WORDS, EMBEDDING),
        "leaf": ("linear", EMBEDDING, 3 * HIDDEN),
        "inner": ("linear", 2 * HIDDEN, 5 * HIDDEN),
        "output": ("linear", HIDDEN, CLASSES),
    }

    def batch(self, rng: np.random.Generator) -> Any:
        lengths = rng.integers(5, 41, TREES)
        trees = [random_tree(rng, 0, int(n)) for n in lengths]
        return trees, [rng.integers(0, WORDS, n) for n in lengths], rng.integers(0, CLASSES, TREES)

    def loss(self, batch: Any) -> torch.Tensor:
        trees, words, classes = batch
        return F.cross_entropy(
            torch.cat(self.each(self.scores, trees, words)), torch.from_numpy(classes)
        )

    def scores(self, tree: Tree, words: np.ndarray) -> torch.Tensor:
        inputs = self.vectors(words)
        walk = self.by_stack if self.hand.loops == "explicit" else self.state
        return self.held.linear("output", walk(tree, inputs)[0])

    def state(self, tree: Tree, inputs: Any) -> State:
        """The state of a tree by recursion."""
        if isinstance(tree, int):
            return self.leaf(inputs[tree])
        if self.hand.loops == "comprehension":
            return self.inner(*[self.state(child, inputs) for child in tree])
        left = self.state(tree[0], inputs)
        return self.inner(left, self.state(tree[1], inputs))

    def by_stack(self, tree: Tree, inputs: Any) -> State:
        """The same by a loop, children first."""
        order, todo = [], [tree]
        while todo:
            node = todo.pop()
            order.append(node)
            if not isinstance(node, int):
                todo.extend(node)
        stack: list[State] = []
        for node in reversed(order):
            if isinstance(node, int):
                stack.append(self.leaf(inputs[node]))
            else:
                left, right = stack.pop(), stack.pop()
                stack.append(self.inner(left, right))
        return stack[0]

    def leaf(self, x: torch.Tensor) -> State:
        i, o, u = self.held.parts(self.held.linear("leaf", x), 3)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c

    def inner(self, left: State, right: State) -> State:
        gates = self.held.linear("inner", torch.cat([left[0], right[0]], dim=1))
        i, o, u, *forget = self.held.parts(gates, 5)
        return binary_lstm(i, o, u, (forget[0], forget[1]), (left[1], right[1]))
