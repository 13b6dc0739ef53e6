"""PyTorch programs in which the work of `tree_lstm` and `bilstm_tagger` is batched by hand."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from bilstm_tagger import EMBEDDING, HIDDEN
from common import Peer
from torch import nn
from tree_lstm import HIDDEN as TREE_HIDDEN
from tree_lstm import Tree


class ByHand(Peer):
    """A workload's data, weights and optimiser, with another step."""

    def load(self) -> None:
        self.model, self.optimizer = self.workload.model, self.workload.optimizer

    def train(self, loss: torch.Tensor) -> float:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Levels:
    """The nodes of many trees by height: words (height 0), and (number, number) of two children."""

    def __init__(self) -> None:
        self.heights: list[list[Any]] = [[]]

    def add(self, tree: Tree, first: int) -> tuple[int, int]:
        """Return (height, number there) of a tree whose words begin at `first` of all words."""
        if isinstance(tree, int):
            self.heights[0].append(first + tree)
            return 0, len(self.heights[0]) - 1
        children = self.add(tree[0], first), self.add(tree[1], first)
        height = 1 + max(children[0][0], children[1][0])
        while len(self.heights) <= height:
            self.heights.append([])
        self.heights[height].append(children)
        return height, len(self.heights[height]) - 1


class TreeLstmByHand(ByHand):
    """All nodes of one height in one product."""

    def run(self) -> float:
        trees, words, classes = self.workload.batch()
        levels, first, roots = Levels(), 0, []
        for tree, sentence in zip(trees, words, strict=True):
            roots.append(levels.add(tree, first))
            first += len(sentence)
        inputs = self.model.embedding(torch.cat([torch.from_numpy(w) for w in words]))
        i, o, u = self.model.leaf(inputs[levels.heights[0]]).chunk(3, dim=1)
        c = torch.sigmoid(i) * torch.tanh(u)
        h, starts = torch.sigmoid(o) * torch.tanh(c), [0]
        for level in levels.heights[1:]:
            left, right = (
                torch.tensor([starts[node[k][0]] + node[k][1] for node in level]) for k in (0, 1)
            )
            starts.append(len(h))
            gates = self.model.inner(torch.cat([h[left], h[right]], dim=1))
            i, o, u, f1, f2 = gates.split(TREE_HIDDEN, dim=1)
            new = torch.sigmoid(i) * torch.tanh(u)
            new = new + torch.sigmoid(f1) * c[left] + torch.sigmoid(f2) * c[right]
            h, c = torch.cat([h, torch.sigmoid(o) * torch.tanh(new)]), torch.cat([c, new])
        rows = torch.tensor([starts[height] + number for height, number in roots])
        return self.train(F.cross_entropy(self.model.output(h[rows]), torch.from_numpy(classes)))


class BilstmTaggerByHand(ByHand):
    """Padded sentences through nn.LSTM; for the second direction they are turned round first."""

    def load(self) -> None:
        super().load()
        self.directions = [nn.LSTM(EMBEDDING, HIDDEN) for _ in range(2)]
        for lstm, cell in zip(self.directions, (self.model.forwards, self.model.backwards)):
            for name, weight in cell.named_parameters():
                setattr(lstm, f"{name}_l0", weight)

    def run(self) -> float:
        words, tags = zip(*self.workload.batch())
        sentences = [torch.from_numpy(w) for w in words]
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        padded = nn.utils.rnn.pad_sequence(sentences)
        places = torch.arange(len(padded))[:, None]
        inside = places < lengths
        turned = torch.where(inside, lengths - 1 - places, places)
        left, _ = self.directions[0](self.model.embedding(padded))
        right, _ = self.directions[1](self.model.embedding(padded.gather(0, turned)))
        right = right.gather(0, turned[:, :, None].expand_as(right))
        states = torch.cat([left, right], dim=2).transpose(0, 1)[inside.T]
        target = torch.cat([torch.from_numpy(t) for t in tags])
        return self.train(F.cross_entropy(self.model.output(states), target))


PEERS = {"tree_lstm": TreeLstmByHand, "bilstm_tagger": BilstmTaggerByHand}
