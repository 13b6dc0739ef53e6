"""Embeddings with dense and sparse gradients, layers of `torch.nn`, wrappers around a net."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steps.common import (
    CLASSES,
    ROWS,
    WIDTH,
    WORDS,
    Chain,
    Data,
    Step,
    feature,
    sgd,
    slow_start,
    training,
)

import wend as torch
from wend import nn
from wend.nn import functional as F
from wend.nn.utils import parametrizations
from wend.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Words(nn.Module):
    """A chain over embedded words."""

    def __init__(self, embedding: Any) -> None:
        super().__init__()
        self.embedding, self.chain = embedding, Chain()

    def forward(self, words: Any) -> Any:
        return self.chain(self.embedding(words))


def of_words(
    net: Any, optimizers: Callable[[Any], list[Any]], scores: Callable[..., Any] | None = None
) -> Step:
    """Training on sentences of numbers of words."""
    data, chosen = Data(), optimizers(net)

    def step() -> Any:
        words, classes = data.integers(WORDS, data.length(), ROWS), data.integers(CLASSES, ROWS)
        loss = F.cross_entropy(net(words) if scores is None else scores(net, words), classes)
        for optimizer in chosen:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in chosen:
            optimizer.step()
        return loss.item()

    return step


def all_by_sgd(net: Any) -> list[Any]:
    return [sgd(net.parameters())]


@feature
def embedding() -> Step:
    return of_words(Words(nn.Embedding(WORDS, WIDTH, padding_idx=0)), all_by_sgd)


@feature
def embedding_sparse() -> Step:
    return of_words(Words(nn.Embedding(WORDS, WIDTH, sparse=True)), all_by_sgd)


@feature
def embedding_sparse_adam() -> Step:
    def optimizers(net: Any) -> list[Any]:
        sparse = torch.optim.SparseAdam(list(net.embedding.parameters()), lr=0.01)
        return [sparse, torch.optim.Adam(net.chain.parameters())]

    return of_words(Words(nn.Embedding(WORDS, WIDTH, sparse=True)), optimizers)


@feature
def embedding_of_bounded_norm() -> Step:
    return of_words(Words(nn.Embedding(WORDS, WIDTH, max_norm=1.0)), all_by_sgd)


@feature
def bag_of_words() -> Step:
    net = nn.Sequential(nn.EmbeddingBag(WORDS, WIDTH, mode="mean"), nn.Linear(WIDTH, CLASSES))
    return of_words(net, all_by_sgd, lambda net, words: net(words.mT))


@feature
def bag_of_words_sparse() -> Step:
    bag = nn.EmbeddingBag(WORDS, WIDTH, mode="sum", sparse=True)
    net = nn.Sequential(bag, nn.Linear(WIDTH, CLASSES))
    return of_words(net, all_by_sgd, lambda net, words: net(words.mT))


class LookUp(torch.autograd.Function):
    """A row of a table; its gradient is a sparse tensor."""

    @staticmethod
    def forward(ctx: Any, weight: Any, words: Any) -> Any:
        ctx.words, ctx.shape = words, weight.shape
        return weight[words]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return torch.sparse_coo_tensor(ctx.words[None], g, ctx.shape), None


def look_up(word: int, weight: Any) -> Any:
    return F.embedding(torch.tensor([word]), weight)


def look_up_sparse(word: int, weight: Any) -> Any:
    return F.embedding(torch.tensor([word]), weight, sparse=True)


def look_up_naive(word: int, weight: Any) -> Any:
    return LookUp.apply(weight, torch.tensor([word]))


class Tree(nn.Module):
    """Scores of trees, each word looked up by itself."""

    def __init__(self, look: Callable[[int, Any], Any]) -> None:
        super().__init__()
        self.look = look
        self.weight = nn.Parameter(torch.randn(WORDS, WIDTH) * 0.3)
        self.join, self.output = nn.Linear(2 * WIDTH, 2 * WIDTH), nn.Linear(WIDTH, CLASSES)

    def state(self, tree: Any) -> Any:
        if isinstance(tree, int):
            return self.look(tree, self.weight)
        both = torch.cat([self.state(tree[0]), self.state(tree[1])], 1)
        gate, new = self.join(both).chunk(2, 1)
        return torch.sigmoid(gate) * torch.tanh(new)

    def forward(self, trees: Any) -> Any:
        return self.output(torch.cat([self.state(tree) for tree in trees]))


def random_tree(draw: Any, words: int) -> Any:
    """A binary tree: the number of a word, or two trees."""
    if words == 1:
        return draw.randrange(WORDS)
    left = draw.randint(1, words - 1)
    return random_tree(draw, left), random_tree(draw, words - left)


def of_trees(look: Callable[[int, Any], Any]) -> Step:
    net, data = Tree(look), Data()
    optimizer = sgd(net.parameters())

    def step() -> Any:
        trees = [random_tree(data.draw, data.draw.randint(5, 11)) for _ in range(2 * ROWS)]
        loss = F.cross_entropy(net(trees), data.integers(CLASSES, 2 * ROWS))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@slow_start
def trees_by_words() -> Step:
    return of_trees(look_up)


@slow_start
def trees_by_words_sparse() -> Step:
    return of_trees(look_up_sparse)


@slow_start
def trees_by_words_naive() -> Step:
    return of_trees(look_up_naive)


class Tagger(nn.Module):
    """Tags of words: a cell call a word in both directions, each word looked up by itself."""

    def __init__(self, look: Callable[[int, Any], Any]) -> None:
        super().__init__()
        self.look = look
        self.weight = nn.Parameter(torch.randn(WORDS, WIDTH) * 0.3)
        self.cells = nn.ModuleList(nn.LSTMCell(WIDTH, WIDTH) for _ in range(2))
        self.output = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, sentence: list[int]) -> Any:
        words = [self.look(k, self.weight) for k in sentence]
        sides = []
        for cell, order in zip(self.cells, (words, words[::-1]), strict=True):
            state, found = None, []
            for x in order:
                state = cell(x, state)
                found.append(state[0])
            sides.append(found)
        return self.output(torch.cat([torch.cat(sides[0]), torch.cat(sides[1][::-1])], 1))


def of_sentences(look: Callable[[int, Any], Any]) -> Step:
    net, data = Tagger(look), Data()
    optimizer = sgd(net.parameters())

    def step() -> Any:
        sentences = [
            [data.draw.randrange(WORDS) for _ in range(data.draw.randint(4, 9))]
            for _ in range(ROWS)
        ]
        scores = torch.cat([net(sentence) for sentence in sentences])
        loss = F.cross_entropy(scores, data.integers(CLASSES, len(scores)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@slow_start
def tagger_by_words() -> Step:
    return of_sentences(look_up)


@slow_start
def tagger_by_words_sparse() -> Step:
    return of_sentences(look_up_sparse)


# -- layers ---------------------------------------------------------------------------------------


class Recurrent(nn.Module):
    """A recurrent layer over sentences of several lengths; packed, or all as long."""

    def __init__(self, packed: bool, **given: Any) -> None:
        super().__init__()
        self.packed = packed
        self.layer = nn.LSTM(WIDTH, WIDTH, **given)
        self.output = nn.Linear(WIDTH * (2 if given else 1), CLASSES)

    def forward(self, words: Any) -> Any:
        if not self.packed:
            return self.output(self.layer(words)[0].mean(0))
        n = len(words)
        lengths = torch.tensor([n - 1, n, n, n - 2])
        packed = pack_padded_sequence(words, lengths, enforce_sorted=False)
        return self.output(pad_packed_sequence(self.layer(packed)[0])[0].sum(0))


@feature
def recurrent_layer() -> Step:
    return training(Recurrent(packed=False))


@feature
def recurrent_layer_in_both_directions() -> Step:
    return training(Recurrent(packed=False, bidirectional=True))


@feature
def packed_sentences() -> Step:
    return training(Recurrent(packed=True))


@feature
def packed_sentences_in_both_directions() -> Step:
    return training(Recurrent(packed=True, bidirectional=True))


@feature
def cell_of_a_layer() -> Step:
    cell, output = nn.LSTMCell(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def loss(net: Any, words: Any, classes: Any) -> Any:
        state = None
        for x in words:
            state = cell(x, state)
        return F.cross_entropy(output(state[0]), classes)

    return training(nn.ModuleList([cell, output]), loss)


@feature
def transformer_layer() -> Step:
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, dropout=0.0)
    net = nn.ModuleList([layer, nn.Linear(WIDTH, CLASSES)])
    return training(net, lambda net, x, y: F.cross_entropy(net[1](net[0](x).mean(0)), y))


@feature
def attention_with_a_mask() -> Step:
    layer = nn.MultiheadAttention(WIDTH, 2)
    net = nn.ModuleList([layer, nn.Linear(WIDTH, CLASSES)])

    def loss(net: Any, words: Any, classes: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(len(words))
        found, _ = net[0](words, words, words, attn_mask=mask, need_weights=False)
        return F.cross_entropy(net[1](found.mean(0)), classes)

    return training(net, loss)


@feature
def convolution_over_words() -> Step:
    net = nn.Sequential(nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.ReLU())
    head = nn.Linear(WIDTH, CLASSES)
    return training(
        nn.ModuleList([net, head]),
        lambda net, x, y: F.cross_entropy(net[1](net[0](x.permute(1, 2, 0)).amax(2)), y),
    )


@feature
def spectral_norm() -> Step:
    part = parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH))
    return training(Chain(lambda net, h: net.part(h), part))


@feature
def weight_norm() -> Step:
    part = parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))
    return training(Chain(lambda net, h: net.part(h), part))


@feature
def tied_weights() -> Step:
    net = Words(nn.Embedding(WORDS, WIDTH))

    def scores(net: Any, words: Any) -> Any:
        h = net.embedding(words).mean(0)
        return (h @ net.embedding.weight.mT)[:, :CLASSES]

    return of_words(net, all_by_sgd, scores)


# -- wrappers -------------------------------------------------------------------------------------


@feature
def compiled_net() -> Step:
    return training(torch.compile(Chain()))


class Labelled(torch.Tensor):
    """A tensor of a class of its own."""


@feature
def class_derived_from_tensor() -> Step:
    return training(loss=lambda net, x, y: F.cross_entropy(net(x.as_subclass(Labelled)), y))


class Through(torch.overrides.TorchFunctionMode):
    """Passes all calls on."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@feature
def mode_that_sees_all_calls() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        with Through():
            return F.cross_entropy(net(words), classes)

    return training(loss=loss)


@feature
def recorded_region() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        with torch.autograd.profiler.record_function("forward"):
            return F.cross_entropy(net(words), classes)

    return training(loss=loss)
