"""The workloads as JAX programs: compiled by jit, anew for each new shape, in float32.

Each takes its numbers and its data from the PyTorch workload. What a step counts on the way without
using it (the running means of batch norm) is left out; `branching` is rewritten as JAX asks.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import numpy as np
from common import Peer, Workload

Weights = dict[str, jax.Array]
Loss = Callable[..., jax.Array]


class Model(Peer):
    """The weights by name, and what the kinds of steps below have in common."""

    def load(self) -> None:
        weights = self.workload.weights()
        self.w = {name: jnp.asarray(w.detach().numpy()) for name, w in weights.items()}


class Inference(Model):
    """loss: (weights, inputs) -> sum of squares."""

    def __init__(self, workload: Workload, loss: Loss, inputs: Iterator[tuple[Any, ...]]) -> None:
        super().__init__(workload)
        self.loss = jax.jit(loss)
        self.inputs = inputs

    def run(self) -> float:
        return float(self.loss(self.w, *next(self.inputs)))


class Training(Model):
    """update: (weights, their gradients, state of the optimiser) -> weights and state."""

    def __init__(
        self,
        workload: Workload,
        loss: Loss,
        inputs: Iterator[tuple[Any, ...]],
        update: Callable[..., tuple[Weights, Any]],
    ) -> None:
        super().__init__(workload)
        self.inputs = inputs

        def train(w: Weights, state: Any, *given: Any) -> tuple[jax.Array, Weights, Any]:
            found, gradients = jax.value_and_grad(loss)(w, *given)
            return found, *update(w, gradients, state)

        self.train = jax.jit(train, donate_argnums=(0, 1))
        self.state: Any = None

    def load(self) -> None:
        super().load()
        zeros = {name: jnp.zeros_like(w) for name, w in self.w.items()}
        self.state = zeros, {name: jnp.zeros_like(w) for name, w in self.w.items()}, jnp.zeros(())

    def run(self) -> float:
        loss, self.w, self.state = self.train(self.w, self.state, *next(self.inputs))
        return float(loss)


def sgd(rate: float, momentum: float = 0.0) -> Callable[..., tuple[Weights, Any]]:
    def update(w: Weights, g: Weights, state: Any) -> tuple[Weights, Any]:
        speed, *rest = state
        if momentum:
            speed = g = {n: momentum * speed[n] + g[n] for n in w}
        return {n: w[n] - rate * g[n] for n in w}, (speed, *rest)

    return update


def adam(rate: float, b1: float = 0.9, b2: float = 0.999) -> Callable[..., tuple[Weights, Any]]:
    def update(w: Weights, g: Weights, state: Any) -> tuple[Weights, Any]:
        m, v, t = state
        t = t + 1
        m = {n: b1 * m[n] + (1 - b1) * g[n] for n in w}
        v = {n: b2 * v[n] + (1 - b2) * g[n] * g[n] for n in w}
        past1, past2 = (-jnp.expm1(t * np.log(b)) for b in (b1, b2))  # 1 - b ** t
        scale, root = rate / past1, jnp.sqrt(past2)
        return {n: w[n] - scale * m[n] / (jnp.sqrt(v[n]) / root + 1e-8) for n in w}, (m, v, t)

    return update


# -- layers -------------------------------------------------------------------------------------


def linear(w: Weights, name: str, x: jax.Array) -> jax.Array:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def layer_norm(w: Weights, name: str, x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return centred * scale * w[f"{name}.weight"] + w[f"{name}.bias"]


def cross_entropy(scores: jax.Array, classes: jax.Array) -> jax.Array:
    logs = jax.nn.log_softmax(scores)
    return -jnp.take_along_axis(logs, classes[:, None], axis=1).mean()


def attention(q: jax.Array, k: jax.Array, v: jax.Array, heads: int, mask: Any = None) -> jax.Array:
    n, t, width = q.shape
    q, k, v = (x.reshape(n, t, heads, width // heads).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / (width // heads) ** 0.5
    if mask is not None:
        scores = jnp.where(mask, -jnp.inf, scores)
    return (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(n, t, width)


# -- workloads ----------------------------------------------------------------------------------


def elementwise_chain(workload: Any) -> Model:
    def loss(w: Weights) -> jax.Array:
        h = x = w["x"]
        for _ in range(10):
            h = jnp.tanh(h * w["y"] + x) - w["y"]
        return h.sum()

    def keep(w: Weights, g: Weights, state: Any) -> tuple[Weights, Any]:
        return w, (g, *state[1:])

    return Training(workload, loss, iter(tuple, None), keep)


def mlp(workload: Any) -> Model:
    def loss(w: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
        h = jax.nn.relu(linear(w, "0", x))
        return cross_entropy(linear(w, "4", jax.nn.relu(linear(w, "2", h))), y)

    return Training(workload, loss, over(workload.batches), adam(1e-3))


def branching(workload: Any) -> Model:
    def loss(w: Weights, x: jax.Array, target: jax.Array) -> jax.Array:
        turns = 2 + (jnp.abs(x).sum() * 10).astype(int) % 6

        def turn(x: jax.Array, i: jax.Array) -> tuple[jax.Array, None]:
            def one(x: jax.Array) -> jax.Array:
                ways = [lambda x, n=n: jnp.tanh(linear(w, n, x)) for n in ("left", "right")]
                return jax.lax.cond(x.sum() > 0, *ways, x)

            return jax.lax.cond(i < turns, one, lambda x: x, x), None

        x, _ = jax.lax.scan(turn, x, jnp.arange(7))
        return ((linear(w, "output", x) - target) ** 2).mean()

    return Training(workload, loss, over(workload.batches), sgd(1e-3))


def convolve(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    pad = (kernel.shape[2] // 2,) * 2
    return jax.lax.conv_general_dilated(x, kernel, (stride,) * 2, (pad, pad))


def resnet(w: Weights, x: jax.Array, training: bool) -> jax.Array:
    def norm(name: str, x: jax.Array) -> jax.Array:
        if training:
            mean = x.mean((0, 2, 3), keepdims=True)
            variance = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
            x = (x - mean) * jax.lax.rsqrt(variance + 1e-5)
        else:
            x = x * (1 / np.sqrt(1 + 1e-5))  # running means of zero and variances of one
        return x * w[f"{name}.weight"][:, None, None] + w[f"{name}.bias"][:, None, None]

    y = jax.nn.relu(norm("norm", convolve(x, w["stem.weight"], 2)))
    for i in range(8):
        name, stride = f"blocks.{i}", 2 if i in (2, 4, 6) else 1
        z = convolve(y, w[f"{name}.conv1.weight"], stride)
        z = convolve(jax.nn.relu(norm(f"{name}.norm1", z)), w[f"{name}.conv2.weight"], 1)
        if f"{name}.shortcut.0.weight" in w:
            y = norm(f"{name}.shortcut.1", convolve(y, w[f"{name}.shortcut.0.weight"], stride))
        y = jax.nn.relu(norm(f"{name}.norm2", z) + y)
    return linear(w, "output", y.mean((2, 3)))


def resnet_inference(workload: Any) -> Model:
    from resnet_inference import LARGEST, SMALLEST

    image = workload.image.numpy()

    def inputs() -> Iterator[tuple[Any, ...]]:
        for size in itertools.cycle(workload.sizes):
            height, width = (SMALLEST + n for n in divmod(int(size), LARGEST - SMALLEST + 1))
            yield (np.ascontiguousarray(image[:, :, :height, :width]),)

    return Inference(workload, lambda w, x: (resnet(w, x, False) ** 2).sum(), inputs())


def resnet_training(workload: Any) -> Model:
    def loss(w: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
        return cross_entropy(resnet(w, x, True), y)

    return Training(workload, loss, over(workload.batches), sgd(0.01, 0.9))


def char_transformer(workload: Any) -> Model:
    from char_transformer import BATCH, HEADS, LAYERS, LENGTH

    future = np.triu(np.ones((LENGTH, LENGTH), bool), 1)

    def loss(w: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
        h = w["embedding.weight"][x] + w["position"]
        for i in range(LAYERS):
            name = f"layers.{i}"
            parts = jnp.split(linear(w, f"{name}.mix", layer_norm(w, f"{name}.norm1", h)), 3, -1)
            h = h + linear(w, f"{name}.project", attention(*parts, HEADS, future))
            wide = linear(w, f"{name}.widen", layer_norm(w, f"{name}.norm2", h))
            h = h + linear(w, f"{name}.narrow", jax.nn.gelu(wide, approximate=False))
        scores = linear(w, "output", layer_norm(w, "norm", h))
        return cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))

    def inputs() -> Iterator[tuple[Any, ...]]:
        text, rng = workload.text, workload.rng
        while True:
            starts = rng.integers(0, len(text) - LENGTH - 1, BATCH)
            yield tuple(np.stack([text[s + d : s + d + LENGTH] for s in starts]) for d in (0, 1))

    return Training(workload, loss, inputs(), adam(3e-4))


def transformer_encoder(workload: Any) -> Model:
    from transformer_encoder import HEADS, LAYERS

    def loss(w: Weights, words: jax.Array) -> jax.Array:
        h = w["embedding.weight"][words] + w["position.weight"][: words.shape[1]]
        for i in range(LAYERS):
            name = f"layers.layers.{i}"
            own = f"{name}.self_attn"
            mixed = h @ w[f"{own}.in_proj_weight"].T + w[f"{own}.in_proj_bias"]
            mixed = attention(*jnp.split(mixed, 3, -1), HEADS)
            h = layer_norm(w, f"{name}.norm1", h + linear(w, f"{own}.out_proj", mixed))
            wide = jax.nn.gelu(linear(w, f"{name}.linear1", h), approximate=False)
            h = layer_norm(w, f"{name}.norm2", h + linear(w, f"{name}.linear2", wide))
        return (h**2).sum()

    words = workload.words.numpy()
    return Inference(workload, loss, ((words[:, :n],) for n in itertools.cycle(workload.lengths)))


def over(batches: list[Any]) -> Iterator[tuple[Any, ...]]:
    """The batches of a PyTorch workload, over and over."""
    return itertools.cycle([tuple(np.asarray(part) for part in batch) for batch in batches])


PEERS = {
    model.__name__: model
    for model in (
        elementwise_chain,
        mlp,
        branching,
        resnet_inference,
        resnet_training,
        char_transformer,
        transformer_encoder,
    )
}
