"""Models whose graph follows the lengths and shapes of their examples."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from training.tasks import Batch, Task

WORDS = 7


def _sentence(rng: np.random.Generator, size: int) -> Batch:
    return {"words": rng.integers(0, WORDS, size + 1).tolist()}


def _cells(kind: str) -> Any:
    def make(t: Any) -> Any:
        nn, functional = t.nn, t.nn.functional

        class Words(nn.Module):  # type: ignore[misc]
            """Predicts each word of a sentence from those before it, one call a word."""

            def __init__(self) -> None:
                super().__init__()
                self.words, self.out = nn.Embedding(WORDS, 4), nn.Linear(4, WORDS)
                self.cell = getattr(nn, kind)(4, 4)

            def loss(self, words: Any) -> Any:
                h = t.zeros(1, 4, dtype=self.out.weight.dtype)
                state = (h, h) if kind == "LSTMCell" else h
                total = 0
                for a, b in pairwise(words):
                    state = self.cell(self.words(t.tensor([a])), state)
                    h = state[0] if kind == "LSTMCell" else state
                    total = total + functional.cross_entropy(self.out(h), t.tensor([b]))
                return total

        return Words()

    return make


def _series(rng: np.random.Generator, size: int) -> Batch:
    return {"x": rng.normal(size=(size, 2, 3)), "y": rng.normal(size=(size, 2, 4))}


def _lstm(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class Carried(nn.Module):  # type: ignore[misc]
        """An LSTM of two layers that goes on, in each step, from where it was in the last."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 4, num_layers=2)
            self.state: Any = None

        def loss(self, x: Any, y: Any) -> Any:
            h, state = self.lstm(x, self.state)
            self.state = tuple(s.detach() for s in state)
            return functional.mse_loss(h, y)

    return Carried()


def _sequences(rng: np.random.Generator, size: int) -> Batch:
    lengths = [size, 2, 1 + size // 2, size]
    return {"words": rng.integers(0, WORDS, (4, size)), "lengths": lengths, "y": rng.normal(size=4)}


def _packed(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional
    rnn = nn.utils.rnn

    class Packed(nn.Module):  # type: ignore[misc]
        """An LSTM in both directions over packed sequences of unlike lengths."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 3)
            self.lstm = nn.LSTM(3, 4, bidirectional=True, batch_first=True)
            self.out = nn.Linear(8, 1)

        def loss(self, words: Any, lengths: Any, y: Any) -> Any:
            rows = rnn.pack_padded_sequence(
                self.words(words), lengths, batch_first=True, enforce_sorted=False
            )
            packed, (last, _) = self.lstm(rows)
            padded, _ = rnn.pad_packed_sequence(packed, batch_first=True)
            found = self.out(t.cat([last[0], last[1]], 1) + padded.mean(1)).squeeze(1)
            return functional.mse_loss(found, y)

    return Packed()


def _shape(rng: np.random.Generator, leaves: int) -> Any:
    """A random binary tree: a word, or a pair of trees."""
    if leaves == 1:
        return int(rng.integers(0, WORDS))
    left = int(rng.integers(1, leaves))
    return _shape(rng, left), _shape(rng, leaves - left)


def _trees(rng: np.random.Generator, size: int) -> Batch:
    sizes = [size, max(1, size - 2)]
    # Trees of one size have one shape: only the words differ.
    shapes = [_shape(np.random.default_rng(n), n) for n in sizes]
    trees = [_renamed(shape, rng) for shape in shapes]
    return {"trees": trees, "labels": rng.integers(0, 3, len(trees)).tolist()}


def _renamed(tree: Any, rng: np.random.Generator) -> Any:
    if isinstance(tree, tuple):
        return tuple(_renamed(child, rng) for child in tree)
    return int(rng.integers(0, WORDS))


def _tree_lstm(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class TreeLSTM(nn.Module):  # type: ignore[misc]
        """Child-sum over binary trees, by recursion; a loss for each tree."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 4)
            self.gates, self.forget = nn.Linear(8, 12), nn.Linear(4, 4)
            self.leaf, self.out = nn.Linear(4, 12), nn.Linear(4, 3)

        def node(self, tree: Any) -> Any:
            if not isinstance(tree, tuple):
                i, o, u = self.leaf(self.words(t.tensor([tree]))).chunk(3, 1)
                c = i.sigmoid() * u.tanh()
                return o.sigmoid() * c.tanh(), c
            (h1, c1), (h2, c2) = (self.node(child) for child in tree)
            i, o, u = self.gates(t.cat([h1, h2], 1)).chunk(3, 1)
            c = i.sigmoid() * u.tanh()
            c = c + self.forget(h1).sigmoid() * c1 + self.forget(h2).sigmoid() * c2
            return o.sigmoid() * c.tanh(), c

        def loss(self, trees: Any, labels: Any) -> Any:
            found = t.cat([self.out(self.node(tree)[0]) for tree in trees])
            return functional.cross_entropy(found, t.tensor(labels))

    return TreeLSTM()


TASKS = {
    "rnn_cell": Task(_cells("RNNCell"), _sentence),
    "gru_cell": Task(_cells("GRUCell"), _sentence),
    "lstm_cell": Task(_cells("LSTMCell"), _sentence),
    "lstm": Task(_lstm, _series),
    "packed": Task(_packed, _sequences),
    "tree": Task(_tree_lstm, _trees),
}
