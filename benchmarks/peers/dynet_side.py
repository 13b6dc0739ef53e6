"""`tree_lstm` and `bilstm_tagger` as DyNet programs, batched by DyNet (autobatch)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dynet_config

dynet_config.set(mem=2048, autobatch=1)

import dynet as dy  # noqa: E402  (reads the configuration)
import numpy as np  # noqa: E402
from common import Peer  # noqa: E402


class Model(Peer):
    """The parameters by name, trained by plain SGD; the embedding is a table of its own kind."""

    rate = 0.1

    def load(self) -> None:
        self.all = dy.ParameterCollection()
        self.p: dict[str, Any] = {}
        for name, weight in self.workload.weights().items():
            array = weight.detach().numpy().astype(float)
            table = name == "embedding.weight"
            add = self.all.lookup_parameters_from_numpy if table else self.all.parameters_from_numpy
            self.p[name] = add(array)
        self.trainer = dy.SimpleSGDTrainer(self.all, self.rate)
        self.trainer.set_clip_threshold(0)

    def train(self, losses: list[Any]) -> float:
        """One step of the mean of the losses, which it returns."""
        loss = dy.esum(losses) * (1 / len(losses))
        value = float(loss.value())
        loss.backward()
        self.trainer.update()
        return value

    def linear(self, name: str, x: Any) -> Any:
        return dy.affine_transform([self.p[f"{name}.bias"], self.p[f"{name}.weight"], x])


def parts(gates: Any, count: int) -> list[Any]:
    """Equal parts of a vector."""
    width = gates.dim()[0][0] // count
    return [dy.pick_range(gates, i * width, (i + 1) * width) for i in range(count)]


class TreeLstmWorkload(Model):
    rate = 0.05

    def state(self, tree: Any, words: np.ndarray) -> tuple[Any, Any]:
        if isinstance(tree, int):
            word = dy.lookup(self.p["embedding.weight"], int(words[tree]))
            i, o, u = parts(self.linear("leaf", word), 3)
            c = dy.cmult(dy.logistic(i), dy.tanh(u))
        else:
            (h1, c1), (h2, c2) = (self.state(part, words) for part in tree)
            gates = self.linear("inner", dy.concatenate([h1, h2]))
            i, o, u, f1, f2 = parts(gates, 5)
            c = dy.cmult(dy.logistic(i), dy.tanh(u))
            c = c + dy.cmult(dy.logistic(f1), c1) + dy.cmult(dy.logistic(f2), c2)
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def run(self) -> float:
        trees, words, target = self.workload.batch()
        dy.renew_cg()
        return self.train(
            [
                dy.pickneglogsoftmax(self.linear("output", self.state(tree, w)[0]), int(t))
                for tree, w, t in zip(trees, words, target, strict=True)
            ]
        )


class BilstmTaggerWorkload(Model):
    def read(self, name: str, inputs: list[Any], order: Iterable[int]) -> list[Any]:
        inner, outer = self.p[f"{name}.weight_ih"], self.p[f"{name}.weight_hh"]
        bias = self.p[f"{name}.bias_ih"] + self.p[f"{name}.bias_hh"]
        h, c, states = None, None, []
        for t in order:
            given = [bias, inner, inputs[t]] + ([outer, h] if h is not None else [])
            i, f, g, o = parts(dy.affine_transform(given), 4)
            new = dy.cmult(dy.logistic(i), dy.tanh(g))
            c = new + dy.cmult(dy.logistic(f), c) if c is not None else new
            h = dy.cmult(dy.logistic(o), dy.tanh(c))
            states.append(h)
        return states

    def run(self) -> float:
        dy.renew_cg()
        losses = []
        for words, tags in self.workload.batch():
            inputs = [dy.lookup(self.p["embedding.weight"], int(w)) for w in words]
            left = self.read("forwards", inputs, range(len(words)))
            right = self.read("backwards", inputs, reversed(range(len(words))))[::-1]
            for before, after, tag in zip(left, right, tags, strict=True):
                scores = self.linear("output", dy.concatenate([before, after]))
                losses.append(dy.pickneglogsoftmax(scores, int(tag)))
        return self.train(losses)


PEERS = {"tree_lstm": TreeLstmWorkload, "bilstm_tagger": BilstmTaggerWorkload}
