"""The layers of the matrix: for each one a net, a batch of some sizes, and what is minimised.

All is written once, for a library `t` (Wend or PyTorch). `length` is the number of words, or the
side of an image; `width` that of a state, or the number of channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Draw = np.random.Generator
CLASSES, WORDS, HEADS = 4, 50, 4
#: Channels of images, for each number of widths: more would be work without another path.
CHANNELS = {8: 4, 64: 8, 256: 16}


class Sizes(NamedTuple):
    length: int
    batch: int
    width: int


class Layer(NamedTuple):
    """A layer in a small net.

    make: (t, sizes) -> net           draw: (generator, sizes) -> arrays, the last one classes
    scores: (t, net, *tensors without the classes) -> (batch, CLASSES)
    work: (sizes) -> about the multiplications of a step
    steps: gates times layers times directions, of a recurrent layer
    """

    make: Callable[[Any, Sizes], Any]
    draw: Callable[[Draw, Sizes], list[Any]]
    scores: Callable[..., Any]
    work: Callable[[Sizes], int]
    steps: int = 0


def classes(rng: Draw, n: int) -> Any:
    return rng.integers(0, CLASSES, n)


def normal(rng: Draw, *shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def words(rng: Draw, s: Sizes) -> list[Any]:
    """Word vectors (length, batch, width), and classes."""
    return [normal(rng, s.length, s.batch, s.width), classes(rng, s.batch)]


def numbers(rng: Draw, s: Sizes) -> list[Any]:
    """Numbers of words (batch, length), and classes."""
    return [rng.integers(0, WORDS, (s.batch, s.length)), classes(rng, s.batch)]


def with_head(t: Any, layer: Any, width: int) -> Any:
    return t.nn.ModuleDict({"layer": layer, "head": t.nn.Linear(width, CLASSES)})


# -- recurrent ------------------------------------------------------------------------------------


def recurrent(kind: str, gates: int, both: bool = False, layers: int = 1, packed: bool = False):
    """A recurrent layer over words, or over packed sentences of several lengths."""
    sides = 2 if both else 1

    def make(t: Any, s: Sizes) -> Any:
        layer = getattr(t.nn, kind)(s.width, s.width, layers, bidirectional=both)
        return with_head(t, layer, sides * s.width)

    def draw(rng: Draw, s: Sizes) -> list[Any]:
        x, y = words(rng, s)
        lengths = rng.integers(max(1, s.length // 2), s.length + 1, s.batch)
        lengths[0] = s.length
        return [x, lengths, y] if packed else [x, y]

    def scores(t: Any, net: Any, x: Any, lengths: Any = None) -> Any:
        rnn = t.nn.utils.rnn
        if lengths is None:
            return net["head"](net["layer"](x)[0].mean(0))
        given = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return net["head"](rnn.pad_packed_sequence(net["layer"](given)[0])[0].mean(0))

    def work(s: Sizes) -> int:
        return 2 * steps * s.length * s.batch * s.width**2

    steps = gates * sides * layers
    return Layer(make, draw, scores, work, steps)


def cell(kind: str, gates: int, both: bool = False) -> Layer:
    """A call of a cell a word, in one direction or in both."""

    def make(t: Any, s: Sizes) -> Any:
        cells = [getattr(t.nn, kind)(s.width, s.width) for _ in range(2 if both else 1)]
        return with_head(t, t.nn.ModuleList(cells), s.width)

    def scores(t: Any, net: Any, x: Any) -> Any:
        found = []
        for one, order in zip(net["layer"], (list(x), list(x)[::-1]), strict=False):
            state = None
            for word in order:
                state = one(word, state)
            found.append(state[0] if isinstance(state, tuple) else state)
        return net["head"](sum(found))

    def work(s: Sizes) -> int:
        return 2 * steps * s.length * s.batch * s.width**2

    steps = gates * (2 if both else 1)
    return Layer(make, words, scores, work, steps)


# -- attention ------------------------------------------------------------------------------------


def attending(make: Callable[[Any, int], Any], call: Callable[[Any, Any], Any], parts: int):
    """A layer that reads all words at once; parts: products of the size width x width a word."""

    def work(s: Sizes) -> int:
        return s.batch * s.length * (parts * s.width**2 + 2 * s.length * s.width)

    return Layer(
        lambda t, s: with_head(t, make(t, s.width), s.width),
        words,
        lambda t, net, x: net["head"](call(net["layer"], x).mean(0)),
        work,
    )


OPTIONS = {"dropout": 0.0, "nhead": HEADS}


def whole_transformer(t: Any, width: int) -> Any:
    return t.nn.Transformer(
        width, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=2 * width, **OPTIONS
    )


# -- images ---------------------------------------------------------------------------------------


def image(s: Sizes, dims: int) -> tuple[int, ...]:
    """Channels and sides of an image: fewer pixels a side where there are more sides."""
    side = {1: s.length, 2: max(4, s.length // 2), 3: max(4, s.length // 6)}[dims]
    return (CHANNELS[s.width], *[side] * dims)


def images(dims: int) -> Callable[[Draw, Sizes], list[Any]]:
    return lambda rng, s: [normal(rng, s.batch, *image(s, dims)), classes(rng, s.batch)]


def on_images(dims: int, make: Callable[[Any, int], Any], products: int) -> Layer:
    """A layer on images, and the mean of each channel; products: of all channels, a pixel."""

    def work(s: Sizes) -> int:
        return s.batch * int(np.prod(image(s, dims))) * max(1, products * CHANNELS[s.width])

    def scores(t: Any, net: Any, x: Any) -> Any:
        return net["head"](t.tanh(net["layer"](x)).flatten(2).mean(2))

    return Layer(
        lambda t, s: with_head(t, make(t, CHANNELS[s.width]), CHANNELS[s.width]),
        images(dims),
        scores,
        work,
    )


def convolution(dims: int, transposed: bool = False) -> Layer:
    kind = f"Conv{'Transpose' if transposed else ''}{dims}d"
    return on_images(dims, lambda t, n: getattr(t.nn, kind)(n, n, 3, padding=1), 3**dims)


# -- norms of words -------------------------------------------------------------------------------


def norm_of_words(make: Callable[[Any, int], Any]) -> Layer:
    """A linear layer, a norm over the width of each word, and the mean of the words."""

    def net(t: Any, s: Sizes) -> Any:
        layer = t.nn.Sequential(t.nn.Linear(s.width, s.width), make(t, s.width), t.nn.ReLU())
        return with_head(t, layer, s.width)

    return Layer(
        net,
        words,
        lambda t, net, x: net["head"](net["layer"](x).mean(0)),
        lambda s: s.length * s.batch * s.width**2,
    )


# -- embeddings -----------------------------------------------------------------------------------


def embedding(kind: str, **given: Any) -> Layer:
    """Embedded words, their mean, and two linear layers."""

    def make(t: Any, s: Sizes) -> Any:
        layer = getattr(t.nn, kind)(WORDS, s.width, **given)
        found = with_head(t, layer, s.width)
        found["next"] = t.nn.Linear(s.width, s.width)
        return found

    def scores(t: Any, net: Any, x: Any) -> Any:
        found = net["layer"](x)
        if kind == "Embedding":
            found = found.mean(1)
        return net["head"](t.relu(net["next"](found)))

    return Layer(make, numbers, scores, lambda s: s.batch * s.width * (s.length + s.width))


LAYERS: dict[str, Layer] = {
    "rnn": recurrent("RNN", 1),
    "rnn_both": recurrent("RNN", 1, both=True),
    "rnn_packed_both": recurrent("RNN", 1, both=True, packed=True),
    "gru": recurrent("GRU", 3),
    "gru_both": recurrent("GRU", 3, both=True),
    "gru_two_both": recurrent("GRU", 3, both=True, layers=2),
    "gru_packed": recurrent("GRU", 3, packed=True),
    "lstm": recurrent("LSTM", 4),
    "lstm_two": recurrent("LSTM", 4, layers=2),
    "lstm_both": recurrent("LSTM", 4, both=True),
    "lstm_two_both": recurrent("LSTM", 4, both=True, layers=2),
    "lstm_packed": recurrent("LSTM", 4, packed=True),
    "lstm_packed_both": recurrent("LSTM", 4, both=True, packed=True),
    "rnn_cell": cell("RNNCell", 1),
    "gru_cell": cell("GRUCell", 3),
    "lstm_cell": cell("LSTMCell", 4),
    "lstm_cell_both": cell("LSTMCell", 4, both=True),
    "attention": attending(
        lambda t, n: t.nn.MultiheadAttention(n, HEADS), lambda m, x: m(x, x, x)[0], 4
    ),
    "encoder": attending(
        lambda t, n: t.nn.TransformerEncoderLayer(n, dim_feedforward=2 * n, **OPTIONS),
        lambda m, x: m(x),
        8,
    ),
    "decoder": attending(
        lambda t, n: t.nn.TransformerDecoderLayer(n, dim_feedforward=2 * n, **OPTIONS),
        lambda m, x: m(x, x),
        12,
    ),
    "transformer": attending(whole_transformer, lambda m, x: m(x, x), 20),
    "conv1d": convolution(1),
    "conv2d": convolution(2),
    "conv3d": convolution(3),
    "transposed1d": convolution(1, transposed=True),
    "transposed2d": convolution(2, transposed=True),
    "transposed3d": convolution(3, transposed=True),
    "batch_norm1d": on_images(1, lambda t, n: t.nn.BatchNorm1d(n), 0),
    "batch_norm2d": on_images(2, lambda t, n: t.nn.BatchNorm2d(n), 0),
    "instance_norm": on_images(2, lambda t, n: t.nn.InstanceNorm2d(n, affine=True), 0),
    "group_norm": on_images(2, lambda t, n: t.nn.GroupNorm(2, n), 0),
    "layer_norm": norm_of_words(lambda t, n: t.nn.LayerNorm(n)),
    "rms_norm": norm_of_words(lambda t, n: t.nn.RMSNorm(n)),
    "embedding": embedding("Embedding"),
    "embedding_sparse": embedding("Embedding", sparse=True),
    "bag": embedding("EmbeddingBag", mode="mean"),
    "bag_sparse": embedding("EmbeddingBag", mode="sum", sparse=True),
}
