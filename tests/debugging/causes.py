"""Programs that are slow, big or wrong for a known reason, and the call that is asked for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import wend as torch
from wend import nn
from wend.nn import functional as F

debug = torch.debug

__all__ = ["CAUSES", "Cause"]


@dataclass(frozen=True)
class Cause:
    """A program with a planted fault.

    answer: runs the program and asks     words: what the first sentence must have, each
    """

    name: str
    answer: Callable[[], Any]
    words: tuple[str, ...]


CAUSES: dict[str, Cause] = {}


def cause(*words: str):
    def add(answer: Callable[[], Any]) -> Callable[[], Any]:
        CAUSES[answer.__name__] = Cause(answer.__name__, answer, words)
        return answer

    return add


def net(width=16):
    return nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, 1))


def trainer(body, model=None):
    """A step of training: `body(model, x)` makes the loss."""
    model = net() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(16, 8)

    def step():
        loss = body(model, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


# -- slow: values asked for -----------------------------------------------------------------------


@cause("values asked for", "causes.py", "times")
def item_in_a_loop():
    def body(model, x):
        total = 0.0
        for k in range(16):
            y = model(x[k : k + 1])
            total += y.square().mean().item()  # the mistake
        return model(x).mean() + total

    return debug.why_slow(trainer(body))


@cause("values asked for", "causes.py")
def a_list_of_each_row():
    def body(model, x):
        rows = [model(row).tolist() for row in x]
        return model(x).mean() * len(rows)

    return debug.why_slow(trainer(body))


@cause("values asked for", "causes.py")
def a_condition_for_each_word():
    def body(model, x):
        h = torch.zeros(8)
        for row in x:
            h = h + row if (h * row).sum() > 0 else h - row
        return model(h).mean()

    return debug.why_slow(trainer(body))


@cause("values asked for", "causes.py")
def numpy_of_each_word():
    def body(model, x):
        seen = [np.argmax(torch.tanh(row * 2).numpy()) for row in x]
        return model(x)[seen[0]].mean()

    return debug.why_slow(trainer(body))


@cause("values asked for", "causes.py")
def a_norm_printed_for_each_layer():
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(12)], nn.Linear(8, 1))

    def body(model, x):
        for layer in model:
            x = layer(x)
            str(x.norm())
        return x.mean()

    return debug.why_slow(trainer(body, model))


@cause("values asked for", "causes.py")
def clipping_by_hand():
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(6)], nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(16, 8)

    def step():
        optimizer.zero_grad()
        model(x).mean().backward()
        for p in model.parameters():
            norm = p.grad.norm()
            if norm.item() > 1.0:
                p.grad.mul_(1.0 / norm.item())
        optimizer.step()

    return debug.why_slow(step)


@cause("values asked for", "causes.py")
def a_mask_for_each_word():
    def body(model, x):
        total = 0.0
        for row in x:
            kept = (row * 1.5)[row > 0]
            total = total + kept.sum()
        return model(x).mean() * total

    return debug.why_slow(trainer(body))


# -- slow: paths, modes, ops -----------------------------------------------------------------------


@cause("new path", "first time")
def a_new_number_of_layers_each_time():
    count = iter(range(1, 1000))

    def body(model, x):
        h = x
        for _ in range(next(count)):
            h = torch.tanh(h) * 1.01
        return model(h).mean()

    return debug.why_slow(trainer(body))


@cause("new path", "first time")
def another_dim_each_time():
    shapes = iter(range(1, 1000))

    def body(model, x):
        n = next(shapes)
        h = model(x)
        for _ in range(n % 7 + n // 7):
            h = h.unsqueeze(0) if n % 2 else h.sin()
        return h.sum()

    return debug.why_slow(trainer(body))


@cause("mode", "eager")
def eager_left_on():
    def answer():
        with torch.eager():
            return debug.why_slow(trainer(lambda model, x: model(x).mean()))

    return answer()


@cause("mode", "nan_guard")
def the_guard_left_on():
    with debug.nan_guard():
        return debug.why_slow(trainer(lambda model, x: model(x).mean()))


@cause("no kernel", "causes.py")
def a_decomposition_in_each_step():
    matrix = torch.randn(64, 64)

    def body(model, x):
        return torch.linalg.svdvals(matrix + x.mean()).sum() + model(x).mean()

    return debug.why_slow(trainer(body))


@cause("python", "Python")
def a_python_rule_for_each_element():
    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.from_numpy(np.vectorize(lambda v: v * 2)(x.numpy()).astype(np.float32))

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    return debug.why_slow(trainer(lambda model, x: Slow.apply(model(x).expand(16, 300)).mean()))


@cause("python", "Python")
def data_read_by_python():
    def body(model, x):
        time.sleep(0.003)  # a file
        return model(x).mean()

    return debug.why_slow(trainer(body))


@cause("python", "Python")
def data_made_by_python_lists():
    def body(model, x):
        rows = [[float((k * j) % 7) for j in range(400)] for k in range(40)]
        return model(torch.tensor(rows)[:, :8]).mean()

    return debug.why_slow(trainer(body))


@cause("recording", "small")
def many_tiny_ops():
    def body(model, x):
        h = x[:1]
        for _ in range(60):
            h = h * 1.001 + 0.001
        return model(h).mean()

    return debug.why_slow(trainer(body))


@cause("arithmetic", "causes.py")
def one_large_product():
    big = torch.randn(900, 900)

    def body(model, x):
        return model(x).mean() + (big @ big).mean()  # the mistake

    return debug.why_slow(trainer(body))


@cause("arithmetic", "causes.py")
def a_table_of_all_pairs():
    points = torch.randn(700, 8)

    def body(model, x):
        distances = (points[:, None] - points[None]).square().sum(-1).exp()
        return model(x).mean() + distances.mean()

    return debug.why_slow(trainer(body))


@cause("arithmetic", "causes.py")
def a_wide_convolution():
    layer = nn.Conv2d(16, 64, 7, padding=3)
    image = torch.randn(1, 16, 40, 40)
    return debug.why_slow(trainer(lambda model, x: model(x).mean() + layer(image).mean()))


# -- big -------------------------------------------------------------------------------------------


@cause("kept for a backward pass", "causes.py", "item() or detach()")
def losses_in_a_list():
    model, x, losses = net(8000), torch.randn(64, 8), []
    for _ in range(8):
        losses.append(model(x).square().mean())
    torch.synchronize()
    return debug.memory(model), losses


@cause("kept for a backward pass", "causes.py", "item() or detach()")
def a_running_sum_of_losses():
    model, x, total = net(8000), torch.randn(64, 8), 0.0
    for _ in range(8):
        total = total + model(x).square().mean()
        torch.synchronize()
    return debug.memory(), total


@cause("kept for a backward pass", "causes.py", "item() or detach()")
def a_state_that_is_never_detached():
    cell, state = nn.GRUCell(4, 256), torch.zeros(512, 256)
    for _ in range(12):
        state = cell(torch.randn(512, 4), state)
        torch.synchronize()
    return debug.memory(), state


@cause("kept for a backward pass", "causes.py")
def a_forward_pass_with_gradients():
    model, x = net(4000), torch.randn(1000, 8)
    y = model(x)
    torch.synchronize()
    return debug.memory(model), y


@cause("state of the optimizer", "Adam")
def adam_of_a_large_layer():
    model = nn.Linear(1600, 1600)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 1600)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.synchronize()
    return debug.memory(), optimizer


@cause("gradients of parameters", "sparse=True")
def gradients_of_a_table():
    table = nn.Embedding(100_000, 32)
    with torch.no_grad():
        table.weight = nn.Parameter(table.weight.half().float())
    table(torch.tensor([1, 2])).sum().backward()
    copies = [table.weight.grad.clone()]
    del copies
    torch.synchronize()
    return debug.memory(), table


@cause("tensors that the program keeps")
def a_table_of_all_differences():
    a = torch.randn(300, 1, 64)
    d = a - torch.randn(1, 300, 64)
    torch.synchronize()
    return debug.memory(), d


@cause("parameters", "weight of Linear")
def a_model_that_is_large():
    model = nn.Sequential(*[nn.Linear(900, 900) for _ in range(8)])
    torch.synchronize()
    return debug.memory(), model


# -- wrong: no gradient ----------------------------------------------------------------------------


def no_gradient(make):
    model = net()

    def step():
        loss = make(model, torch.randn(16, 8))
        if loss.requires_grad:
            loss.backward()

    return debug.why_no_gradient(model, step)


@cause("detach", "causes.py")
def a_detached_output():
    return no_gradient(lambda model, x: model(x).detach().mean() + model[2].bias.sum())


@cause("no_grad", "causes.py")
def a_block_without_gradients():
    def make(model, x):
        with torch.no_grad():
            h = model[0](x)
        return model[2](model[1](h)).mean()

    return no_gradient(make)


@cause("requires_grad")
def a_frozen_layer():
    def make(model, x):
        model[0].requires_grad_(False)
        return model(x).mean()

    return no_gradient(make)


@cause("causes.py")
def a_value_rebuilt_from_numbers():
    return no_gradient(
        lambda model, x: torch.tensor(model[0](x).tolist()).mean() + model[2].bias.sum()
    )


@cause("argmax", "causes.py")
def a_choice_of_the_best():
    def make(model, x):
        best = model[0](x).argmax(1).float()
        return model[2](best[:, None].expand(16, 16)).mean()

    return no_gradient(make)


@cause("unused", "is not called")
def a_layer_that_is_left_out():
    return no_gradient(lambda model, x: model[2](torch.randn(16, 16)).mean())


# -- wrong: NaN and infinity -----------------------------------------------------------------------


def not_finite(body):
    model = net()
    return debug.find_nan(model=model, rerun=lambda: body(model, torch.randn(16, 8)))


@cause("log", "causes.py")
def the_logarithm_of_zero():
    return not_finite(lambda model, x: (model(x) * 0).log().mean())


@cause("div", "causes.py")
def zero_by_zero():
    return not_finite(lambda model, x: (model(x) * 0 / (x[:, :1] * 0)).mean())


@cause("exp", "causes.py")
def an_exponential_that_overflows():
    return not_finite(lambda model, x: (model(x) + 200).exp().mean())


@cause("softmax", "causes.py")
def a_row_that_is_all_masked():
    def body(model, x):
        scores = model(x).masked_fill(torch.ones(16, 1, dtype=torch.bool), float("-inf"))
        return F.softmax(scores.T, -1).sum()

    return not_finite(body)


@cause("sqrt", "causes.py")
def the_root_of_a_negative_number():
    return not_finite(lambda model, x: (model(x).square() - 1e4).sqrt().mean())


@cause("Backward0", "causes.py")
def the_slope_of_a_norm_at_zero():
    def body(model, x):
        loss = (model(x) * 0).square().sum().sqrt()
        loss.backward()
        return loss

    return not_finite(body)


@cause("pow", "causes.py")
def a_power_of_a_negative_number():
    return not_finite(lambda model, x: (model(x) - 100).pow(0.3).mean())
