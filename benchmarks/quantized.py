"""Quantised models beside their float versions, in Wend and in PyTorch: accuracy and time.

python benchmarks/quantized.py
WEND_CPU=avx2 python benchmarks/quantized.py

A tagger (embedding, LSTM, linear) is quantised dynamically; a convolution net of the MobileNet kind
statically, after calibration. Wend trains both on drawn data, and PyTorch gets the same weights.
One thread, processor time of a call in steady state, all sides in one process, taking turns.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from bench import publish

import wend

WORDS, TAGS, CLASSES = 600, 12, 10
SIDES = ("wend float", "wend int8", "torch float", "torch int8")


def tagger(torch: Any, width: int = 256) -> Any:
    """An embedding, an LSTM and a linear layer: words (T, N) -> scores (T, N, tags)."""
    nn = torch.nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(WORDS, width)
            self.lstm = nn.LSTM(width, width)
            self.scores = nn.Linear(width, TAGS)

        def forward(self, words: Any) -> Any:
            return self.scores(self.lstm(self.embedding(words))[0])

    return Tagger()


def mobile_net(torch: Any) -> Any:
    """Convolutions by channel and across channels, by turns: images (N, 3, H, W) -> scores."""
    nn, q = torch.nn, torch.ao.quantization

    def block(inputs: int, outputs: int, size: int, stride: int, groups: int = 1) -> Any:
        conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
            layers = [block(3, 32, 3, 2)]
            for inputs, outputs, stride in (
                (32, 64, 1),
                (64, 128, 2),
                (128, 128, 1),
                (128, 256, 2),
            ):
                layers += [block(inputs, inputs, 3, stride, inputs), block(inputs, outputs, 1, 1)]
            self.layers = nn.Sequential(*layers)
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.scores = nn.Linear(256, CLASSES)

        def forward(self, images: Any) -> Any:
            x = self.pool(self.layers(self.quant(images)))
            return self.dequant(self.scores(x.flatten(1)))

    return Net()


class Sentences:
    """Words whose tags depend on the word and on the word before."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(3)
        self.kinds = self.random.integers(0, 6, WORDS)
        self.table = self.random.permutation(36) % TAGS

    def draw(self, steps: int, count: int) -> tuple[Any, Any]:
        """Words and tags, (steps, count) each."""
        words = self.random.integers(0, WORDS, (steps, count))
        kinds = np.where(self.random.random(words.shape) < 0.03, 0, self.kinds[words])
        before = np.concatenate([np.zeros((1, count), int), kinds[:-1]])
        return words, self.table[kinds * 6 + before]


class Images:
    """Waves of ten directions and lengths, in noise."""

    def __init__(self, side: int = 48) -> None:
        self.random, self.side = np.random.default_rng(4), side

    def draw(self, count: int) -> tuple[Any, Any]:
        """Images (count, 3, side, side) and their classes."""
        kinds = self.random.integers(0, CLASSES, count)
        y, x = np.mgrid[: self.side, : self.side] / self.side
        angle = (kinds % 5) * np.pi / 5
        length = 4 + 5 * (kinds // 5)
        phase = self.random.uniform(0, 2 * np.pi, (count, 1, 1))
        across = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
        waves = np.sin(2 * np.pi * length[:, None, None] * across + phase)
        noise = self.random.normal(size=(count, 3, self.side, self.side)) * 4.5
        return (waves[:, None] + noise).astype(np.float32), kinds


def train(model: Any, draw: Callable[[], tuple[Any, Any]], steps: int) -> None:
    """Train a model of Wend's by cross entropy."""
    optimizer = wend.optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(steps):
        x, target = draw()
        scores = model(wend.from_numpy(x))
        flat = scores.reshape(-1, scores.shape[-1])
        loss = wend.nn.functional.cross_entropy(flat, wend.from_numpy(target).reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()


def twin(model: Any, make: Callable[[Any], Any], torch: Any) -> Any:
    """PyTorch's model with the weights of Wend's."""
    other = make(torch)
    state = {k: torch.from_numpy(np.array(v.numpy())) for k, v in model.state_dict().items()}
    other.load_state_dict(state)
    return other.eval()


def dynamic(torch: Any, model: Any) -> Any:
    """The model with int8 weights in its recurrent and linear layers."""
    kinds = {torch.nn.LSTM, torch.nn.Linear}
    return torch.ao.quantization.quantize_dynamic(model, kinds, dtype=torch.qint8)


def static(torch: Any, model: Any, images: list[Any]) -> Any:
    """The model with fused layers of bytes, calibrated by images."""
    q = torch.ao.quantization
    names = [[f"layers.{k}.{i}" for i in range(3)] for k in range(len(model.layers))]
    model = q.fuse_modules(model, names)
    model.qconfig = q.get_default_qconfig("x86")
    model = q.prepare(model)
    for batch in images:
        model(torch.from_numpy(batch))
    return q.convert(model)


def measure(calls: dict[str, Callable[[], Any]], turns: int, seconds: float) -> dict[str, float]:
    """The best processor time of each call, in microseconds; all take turns."""
    counts = {}
    for name, call in calls.items():
        for _ in range(8):
            call()
        start = time.process_time()
        call()
        counts[name] = max(1, int(seconds / max(time.process_time() - start, 1e-6)))
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(turns):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(counts[name]):
                call()
            best[name] = min(best[name], (time.process_time() - start) / counts[name])
    return {name: 1e6 * t for name, t in best.items()}


def accuracy(torch: Any, model: Any, x: Any, target: Any) -> float:
    """The share of right answers."""
    with torch.no_grad():
        scores = np.asarray(model(torch.from_numpy(x)).numpy())
    return float((scores.argmax(-1) == target).mean())


def sides(pair: Any, quantized: Any) -> dict[str, tuple[Any, Any]]:
    """(package, model) by side."""
    entries: dict[str, tuple[Any, Any]] = {}
    for (torch, model), (_, small) in zip(pair, quantized, strict=True):
        name = "wend" if torch is wend else "torch"
        entries |= {f"{name} float": (torch, model), f"{name} int8": (torch, small)}
    return entries


def call_of(torch: Any, model: Any, x: Any) -> Callable[[], Any]:
    """A call that hands out the scores."""
    given = torch.from_numpy(x)

    def call() -> Any:
        with torch.no_grad():
            return model(given).numpy()

    return call


def rows(name: str, models: dict[str, Any], inputs: dict[str, Any], test: Any, args: Any) -> Any:
    """The rows of a table: times by inputs, and the accuracy of all sides."""
    right = {side: accuracy(torch, model, *test) for side, (torch, model) in models.items()}
    print(f"{name}: accuracy " + ", ".join(f"{side} {100 * x:.2f} %" for side, x in right.items()))
    table = []
    for what, x in inputs.items():
        calls = {side: call_of(torch, model, x) for side, (torch, model) in models.items()}
        times = measure(calls, args.turns, args.seconds)
        ratio = times["wend float"] / times["wend int8"]
        peer = times.get("torch int8", float("nan")) / times["wend int8"]
        shown = "  ".join(f"{side} {t:9.1f}" for side, t in times.items())
        print(f"  {what:24} {shown}  float / int8 {ratio:5.2f}  torch int8 / wend int8 {peer:5.2f}")
        table.append({"model": name, "input": what, **times, "accuracy": right, "ratio": ratio})
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5, help="times that each side is measured")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a side, each time")
    parser.add_argument("--steps", type=int, default=150, help="of training")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    packages = [wend]
    try:
        import torch

        torch.set_num_threads(1)
        torch.backends.quantized.engine = "x86"
        packages.append(torch)
    except ImportError:
        print("PyTorch is not installed: Wend alone")
    wend.set_num_threads(1)
    wend.manual_seed(1)
    sentences, images = Sentences(), Images()
    model = tagger(wend)
    train(model, lambda: sentences.draw(20, 32), args.steps)
    pair = [(t, model if t is wend else twin(model, tagger, t)) for t in packages]
    small = [(t, dynamic(t, m)) for t, m in pair]
    inputs = {f"{n} x {t} words": sentences.draw(t, n)[0] for n, t in ((1, 30), (16, 30), (64, 30))}
    table = rows("tagger", sides(pair, small), inputs, sentences.draw(30, 64), args)
    net = mobile_net(wend)
    train(net, lambda: images.draw(32), args.steps)
    pair = [(t, net if t is wend else twin(net, mobile_net, t)) for t in packages]
    calibration = [images.draw(32)[0] for _ in range(4)]
    small = [(t, static(t, m, calibration)) for t, m in pair]
    inputs = {f"{n} images": images.draw(n)[0] for n in (1, 8, 32)}
    table += rows("mobile net", sides(pair, small), inputs, images.draw(400), args)
    publish("quantized", table, ["model", "input", *SIDES, "ratio"])


if __name__ == "__main__":
    main()
