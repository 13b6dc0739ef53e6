"""Small models, each written in many hands.

A hand says how parameters are kept, how the program gets at one word or one row, and how it goes
through a sequence.  All hands of a model compute the same numbers from the same weights and data.
Nothing here is written for Wend: `torch` is whichever module is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

WIDTH, WORDS, CLASSES = 8, 30, 4
#: Sentences, samples or images of a batch.
MEMBERS = 4

PARAMETERS = ("functional", "module")
CONTROLS = ("comprehension", "recursion", "loop")


class Hand(NamedTuple):
    """How a model is written: a name from each of three tables."""

    parameters: str
    access: str
    control: str


# -- how to get at a word, a row, an image --------------------------------------------------------

#: (torch, weight (30, 8), word numbers as an array (n,)) -> n rows (1, 8)
OF_WORDS: dict[str, Callable[[Any, Any, Any], list[Any]]] = {
    "slice": lambda t, w, n: [e[k : k + 1] for e in [rows(t, w, n)] for k in range(len(n))],
    "row": lambda t, w, n: [e[k].unsqueeze(0) for e in [rows(t, w, n)] for k in range(len(n))],
    "iterate rows": lambda t, w, n: [e[None] for e in rows(t, w, n)],
    "numpy": lambda t, w, n: [w[k][None] for k in n],
    "int": lambda t, w, n: [w[int(k)][None] for k in n],
    "tolist": lambda t, w, n: [w[k].unsqueeze(0) for k in t.from_numpy(n).tolist()],
    "item": lambda t, w, n: [w[k.item()][None] for k in t.from_numpy(n)],
    "tensor": lambda t, w, n: [at(t, w, t.tensor([int(k)])) for k in n],
    "unbind": lambda t, w, n: [at(t, w, k) for k in t.from_numpy(n)[:, None].unbind(0)],
    "split": lambda t, w, n: [at(t, w, k) for k in t.from_numpy(n).split(1)],
    "iterate": lambda t, w, n: [at(t, w, k)[None] for k in t.from_numpy(n)],
    "zip": lambda t, w, n: [at(t, w, k)[None] for k, _ in zip(t.from_numpy(n), range(len(n)))],
    "dict": lambda t, w, n: [at(t, w, item["word"]) for item in items(t.from_numpy(n), "word")],
}


def at(t: Any, weight: Any, words: Any) -> Any:
    """The rows of these words."""
    return t.nn.functional.embedding(words, weight)


def rows(t: Any, weight: Any, words: Any) -> Any:
    """The rows of all words of a sentence, at once."""
    return at(t, weight, t.from_numpy(words))


def items(tensor: Any, name: str) -> list[dict[str, Any]]:
    """One dict for each row, as a data set gives it."""
    return [{name: tensor[k : k + 1]} for k in range(len(tensor))]


#: (torch, array (n, rows, 8)) -> n tensors (rows, 8)
OF_ROWS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "iterate": lambda t, a: list(t.from_numpy(a)),
    "index": lambda t, a: [x[k] for x in [t.from_numpy(a)] for k in range(len(a))],
    "slice": lambda t, a: [x[k : k + 1][0] for x in [t.from_numpy(a)] for k in range(len(a))],
    "unbind": lambda t, a: list(t.from_numpy(a).unbind(0)),
    "split": lambda t, a: [x.squeeze(0) for x in t.from_numpy(a).split(1)],
    "zip": lambda t, a: [x for x, _ in zip(t.from_numpy(a), range(len(a)))],
    "dict": lambda t, a: [item["x"][0] for item in items(t.tensor(a), "x")],
    "arrays": lambda t, a: [t.from_numpy(x) for x in a],
    "tensors": lambda t, a: [t.tensor(x) for x in a],
    "tolist": lambda t, a: [t.tensor(x) for x in a.tolist()],
}

#: (torch, arrays (1, h, w) of several sizes) -> tensors (1, 1, h, w)
OF_IMAGES: dict[str, Callable[[Any, list[Any]], list[Any]]] = {
    "arrays": lambda t, a: [t.from_numpy(x[None]) for x in a],
    "unsqueeze": lambda t, a: [t.from_numpy(x).unsqueeze(0) for x in a],
    "none": lambda t, a: [t.from_numpy(x)[None] for x in a],
    "tensors": lambda t, a: [t.tensor(x)[None] for x in a],
    "tolist": lambda t, a: [t.tensor([x.tolist()]) for x in a],
    "zip": lambda t, a: [x[None] for x, _ in zip(map(t.from_numpy, a), range(len(a)))],
    "dict": lambda t, a: [item["x"] for item in [{"x": t.from_numpy(x[None])} for x in a]],
}


# -- how to go through a sequence -----------------------------------------------------------------


def states_of(control: str, step: Callable[[Any, Any], Any], first: Any, sequence: Any) -> Any:
    """All states of a chain: state = step(state, item)."""
    if control == "comprehension":
        return list(accumulate(sequence, step, initial=first))[1:]
    if control == "recursion":
        if not sequence:
            return []
        state = step(first, sequence[0])
        return [state, *states_of(control, step, state, sequence[1:])]
    states, state = [], first
    for item in sequence:
        state = step(state, item)
        states.append(state)
    return states


def results_of(control: str, function: Callable[..., Any], *sequences: Any) -> list[Any]:
    """The results for all items."""
    if control == "comprehension":
        return [function(*given) for given in zip(*sequences, strict=True)]
    if control == "recursion":
        if not sequences[0]:
            return []
        first = function(*[s[0] for s in sequences])
        return [first, *results_of(control, function, *[s[1:] for s in sequences])]
    found = []
    for given in zip(*sequences, strict=True):
        found.append(function(*given))
    return found


# -- models ---------------------------------------------------------------------------------------


class Program:
    """A model in one hand: `draw` makes a batch, `loss` computes, `parameters` are trained."""

    accesses: dict[str, Callable[..., list[Any]]]

    def __init__(self, torch: ModuleType, hand: Hand) -> None:
        self.torch: Any = torch
        self.hand = hand
        self.weights = np.random.default_rng(7)
        self.parameters: list[Any] = []
        self.build()

    def build(self) -> None:
        raise NotImplementedError

    def draw(self, rng: np.random.Generator) -> Any:
        raise NotImplementedError

    def loss(self, batch: Any) -> Any:
        raise NotImplementedError

    def tensor(self, *shape: int) -> Any:
        """A new parameter."""
        array = self.weights.normal(size=shape).astype(np.float32) * np.float32(0.4)
        found = self.torch.tensor(array, requires_grad=True)
        self.parameters.append(found)
        return found

    def layer(self, layer: Any, *tensors: Any) -> Any:
        """A layer with these weights, in place of the raw tensors."""
        own = list(layer.parameters())
        with self.torch.no_grad():
            for parameter, tensor in zip(own, tensors, strict=True):
                parameter.copy_(tensor)
        kept = len(self.parameters) - len(tensors)
        self.parameters[kept:] = own
        return layer

    @property
    def raw(self) -> bool:
        return self.hand.parameters == "functional"

    def linear(self, n: int, m: int) -> Callable[[Any], Any]:
        weight, bias = self.tensor(m, n), self.tensor(m)
        if self.raw:
            return lambda x: x @ weight.t() + bias
        return self.layer(self.torch.nn.Linear(n, m), weight, bias)

    def lstm(self, n: int, m: int) -> Callable[[Any, Any], Any]:
        """(state (h, c), input) -> state"""
        t = self.torch
        of_x, of_h = self.tensor(4 * m, n), self.tensor(4 * m, m)
        bias, other = self.tensor(4 * m), self.tensor(4 * m)
        if not self.raw:
            cell = self.layer(t.nn.LSTMCell(n, m), of_x, of_h, bias, other)
            return lambda state, x: cell(x, state)

        def step(state: Any, x: Any) -> Any:
            h, c = state
            gates = x @ of_x.t() + bias + h @ of_h.t() + other
            i, f, g, o = gates.chunk(4, 1)
            c = t.sigmoid(f) * c + t.sigmoid(i) * t.tanh(g)
            return t.sigmoid(o) * t.tanh(c), c

        return step

    def conv(self, n: int, m: int) -> Callable[[Any], Any]:
        weight, bias = self.tensor(m, n, 3, 3), self.tensor(m)
        if self.raw:
            return lambda x: self.torch.nn.functional.conv2d(x, weight, bias, padding=1)
        return self.layer(self.torch.nn.Conv2d(n, m, 3, padding=1), weight, bias)

    def zeros(self, *shape: int) -> Any:
        return self.torch.zeros(*shape)


def random_tree(rng: np.random.Generator, first: int, words: int) -> Any:
    """A random binary tree over so many words: the number of a word, or two trees."""
    if words == 1:
        return first
    left = int(rng.integers(1, words))
    return random_tree(rng, first, left), random_tree(rng, first + left, words - left)


def in_order(tree: Any) -> Iterator[Any]:
    """The nodes of a tree, both parts before the whole."""
    if not isinstance(tree, int):
        yield from in_order(tree[0])
        yield from in_order(tree[1])
    yield tree


class TreeLstm(Program):
    """Scores of random binary trees."""

    accesses = OF_WORDS

    def build(self) -> None:
        self.embedding = self.tensor(WORDS, WIDTH)
        self.leaf = self.linear(WIDTH, 3 * WIDTH)
        self.inner = self.linear(2 * WIDTH, 5 * WIDTH)
        self.output = self.linear(WIDTH, CLASSES)

    def draw(self, rng: np.random.Generator) -> Any:
        lengths = [int(n) for n in rng.integers(4, 9, MEMBERS)]
        trees = [random_tree(rng, 0, n) for n in lengths]
        words = [rng.integers(0, WORDS, n) for n in lengths]
        return trees, words, rng.integers(0, CLASSES, MEMBERS)

    def loss(self, batch: Any) -> Any:
        t = self.torch
        trees, words, classes = batch
        scores = results_of(self.hand.control, self.score, trees, words)
        return t.nn.functional.cross_entropy(t.cat(scores), t.from_numpy(classes))

    def score(self, tree: Any, words: Any) -> Any:
        inputs = OF_WORDS[self.hand.access](self.torch, self.embedding, words)
        if self.hand.control == "recursion":
            return self.output(self.state(tree, inputs)[0])
        stack: list[Any] = []
        leaves = [self.of_leaf(x) for x in inputs] if self.hand.control != "loop" else None
        for node in in_order(tree):
            if isinstance(node, int):
                stack.append(self.of_leaf(inputs[node]) if leaves is None else leaves[node])
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(self.of_parts(left, right))
        return self.output(stack.pop()[0])

    def state(self, tree: Any, inputs: list[Any]) -> Any:
        if isinstance(tree, int):
            return self.of_leaf(inputs[tree])
        return self.of_parts(self.state(tree[0], inputs), self.state(tree[1], inputs))

    def of_leaf(self, x: Any) -> Any:
        t = self.torch
        i, o, u = self.leaf(x).chunk(3, dim=1)
        c = t.sigmoid(i) * t.tanh(u)
        return t.sigmoid(o) * t.tanh(c), c

    def of_parts(self, left: Any, right: Any) -> Any:
        t = self.torch
        (h1, c1), (h2, c2) = left, right
        i, o, u, f1, f2 = self.inner(t.cat([h1, h2], dim=1)).chunk(5, dim=1)
        c = t.sigmoid(i) * t.tanh(u) + t.sigmoid(f1) * c1 + t.sigmoid(f2) * c2
        return t.sigmoid(o) * t.tanh(c), c


class BiLstm(Program):
    """Tags of words: a cell call a word, in both directions."""

    accesses = OF_WORDS

    def build(self) -> None:
        self.embedding = self.tensor(WORDS, WIDTH)
        self.forwards, self.backwards = self.lstm(WIDTH, WIDTH), self.lstm(WIDTH, WIDTH)
        self.output = self.linear(2 * WIDTH, CLASSES)

    def draw(self, rng: np.random.Generator) -> Any:
        return [rng.integers(0, WORDS, int(n)) for n in rng.integers(3, 8, MEMBERS)]

    def loss(self, batch: Any) -> Any:
        t = self.torch
        scores = results_of(self.hand.control, self.scores, batch)
        tags = t.from_numpy(np.concatenate(batch) % CLASSES)
        return t.nn.functional.cross_entropy(t.cat(scores), tags)

    def scores(self, words: Any) -> Any:
        t, control = self.torch, self.hand.control
        inputs = OF_WORDS[self.hand.access](t, self.embedding, words)
        first = self.zeros(1, WIDTH), self.zeros(1, WIDTH)
        left = states_of(control, self.forwards, first, inputs)
        right = states_of(control, self.backwards, first, inputs[::-1])[::-1]
        states = [t.cat([h for h, _ in side]) for side in (left, right)]
        return self.output(t.cat(states, dim=1))


class Rnn(Program):
    """One sequence at a time, of another length each time."""

    accesses = OF_ROWS

    def build(self) -> None:
        self.of_x, self.of_h = self.linear(WIDTH, WIDTH), self.linear(WIDTH, WIDTH)

    def draw(self, rng: np.random.Generator) -> Any:
        return rng.normal(size=(int(rng.integers(20, 31)), 2, WIDTH)).astype(np.float32)

    def loss(self, batch: Any) -> Any:
        t = self.torch
        inputs = OF_ROWS[self.hand.access](t, batch)
        states = states_of(self.hand.control, self.step, self.zeros(2, WIDTH), inputs)
        return t.stack(states).square().mean()

    def step(self, h: Any, x: Any) -> Any:
        return self.torch.tanh(self.of_x(x) + self.of_h(h))


class Mlp(Program):
    """A small net, called for one sample after the other."""

    accesses = OF_ROWS

    def build(self) -> None:
        self.layers = [self.linear(WIDTH, WIDTH) for _ in range(3)]

    def draw(self, rng: np.random.Generator) -> Any:
        return rng.normal(size=(int(rng.integers(16, 25)), 2, WIDTH)).astype(np.float32)

    def loss(self, batch: Any) -> Any:
        samples = OF_ROWS[self.hand.access](self.torch, batch)
        return self.torch.stack(results_of(self.hand.control, self.of_sample, samples)).mean()

    def of_sample(self, x: Any) -> Any:
        y = x
        for layer in self.layers[:-1]:
            y = self.torch.tanh(layer(y))
        return (self.layers[-1](y) - x).square().mean()


class EarlyExit(Program):
    """Up to four layers: a sample leaves at the first that is sure."""

    accesses = OF_ROWS

    def build(self) -> None:
        self.layers = [self.linear(WIDTH, WIDTH) for _ in range(4)]
        self.heads = [self.linear(WIDTH, CLASSES) for _ in range(4)]

    def draw(self, rng: np.random.Generator) -> Any:
        return rng.normal(size=(MEMBERS, 1, WIDTH)).astype(np.float32)

    def loss(self, batch: Any) -> Any:
        samples = OF_ROWS[self.hand.access](self.torch, batch)
        return self.torch.stack(results_of(self.hand.control, self.of_sample, samples)).mean()

    def of_sample(self, x: Any) -> Any:
        if self.hand.control == "recursion":
            return self.from_layer(0, x)
        k, sure = 0, False
        while not sure:
            x = x + self.torch.relu(self.layers[k](x))
            scores = self.heads[k](x)
            k += 1
            sure = k == len(self.layers) or bool(scores.softmax(dim=1).max() > 0.7)
        return scores.logsumexp(dim=1).sum()

    def from_layer(self, k: int, x: Any) -> Any:
        x = x + self.torch.relu(self.layers[k](x))
        scores = self.heads[k](x)
        if k + 1 == len(self.layers) or scores.softmax(dim=1).max() > 0.7:
            return scores.logsumexp(dim=1).sum()
        return self.from_layer(k + 1, x)


class Images(Program):
    """Images of several sizes, one by one."""

    accesses = OF_IMAGES

    def build(self) -> None:
        self.first, self.second = self.conv(1, 3), self.conv(3, WIDTH)
        self.output = self.linear(WIDTH, CLASSES)

    def draw(self, rng: np.random.Generator) -> Any:
        sizes = rng.permutation(np.arange(8, 8 + 2 * MEMBERS, 2))
        return [rng.normal(size=(1, int(n), int(n))).astype(np.float32) for n in sizes]

    def loss(self, batch: Any) -> Any:
        images = OF_IMAGES[self.hand.access](self.torch, batch)
        scores = results_of(self.hand.control, self.score, images)
        return self.torch.cat(scores).square().mean()

    def score(self, x: Any) -> Any:
        x = self.torch.nn.functional.max_pool2d(self.torch.relu(self.first(x)), 2)
        x = self.torch.relu(self.second(x)).mean(dim=(2, 3))
        return self.output(x)


MODELS: dict[str, type[Program]] = {
    "tree_lstm": TreeLstm,
    "bilstm": BiLstm,
    "rnn": Rnn,
    "mlp": Mlp,
    "early_exit": EarlyExit,
    "images": Images,
}


# -- data -----------------------------------------------------------------------------------------

ORDERS = ("new", "repeated", "shuffled")
#: Batches of an epoch; epochs, of which the last is counted.
BATCHES, EPOCHS = 2, 4


def batches_of(program: Program, order: str) -> Iterator[tuple[bool, Any]]:
    """(whether to count, batch) of each step.  The batches that count are the same in each order.

    "new": no batch came before.
    """
    rng = np.random.default_rng(11)
    kept = [program.draw(rng) for _ in range(BATCHES)]
    for epoch in range(EPOCHS):
        last = epoch == EPOCHS - 1
        for k in rng.permutation(BATCHES) if order == "shuffled" else range(BATCHES):
            yield last, program.draw(rng) if order == "new" and not last else kept[k]


class Case(NamedTuple):
    """A program and its data."""

    model: str
    hand: Hand
    order: str

    def __str__(self) -> str:
        return ",".join((self.model, *self.hand, self.order))

    @classmethod
    def parse(cls, text: str) -> Case:
        """The case that `str` shows."""
        model, *hand, order = text.split(",")
        return cls(model, Hand(*hand), order)


def hands_of(model: str, seed: int) -> list[Hand]:
    """Hands in which each entry of each table occurs, drawn by the seed."""
    rng = np.random.default_rng((seed, *model.encode()))
    accesses = list(MODELS[model].accesses)
    pairs = [(p, c) for p in PARAMETERS for c in CONTROLS]
    drawn: list[tuple[str, str]] = []
    while len(drawn) < len(accesses):
        drawn += [pairs[k] for k in rng.permutation(len(pairs))]
    order = rng.permutation(len(accesses))
    return [Hand(p, accesses[k], c) for k, (p, c) in zip(order, drawn, strict=False)]
