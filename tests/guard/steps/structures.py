"""Structures that follow from data, grow, or never come back; solvers."""

from __future__ import annotations

from typing import Any

from steps.common import (
    CLASSES,
    ROWS,
    WIDTH,
    Chain,
    Data,
    Step,
    entropy,
    feature,
    sgd,
    slow_start,
    training,
)

import wend as torch
from wend import nn
from wend.nn import functional as F


def squares(net: Any, data: Data, forward: Any) -> Step:
    """Training of a net on random rows to small outputs."""
    optimizer = sgd(net.parameters())

    def step() -> Any:
        loss = forward(data.normal(ROWS, WIDTH)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@slow_start
def random_depth() -> Step:
    layers, data = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8)), Data()

    def forward(x: Any) -> Any:
        for layer in layers:
            if data.draw.random() < 0.5:
                x = x + torch.relu(layer(x))
        return x

    return squares(layers, data, forward)


@slow_start
def early_exit() -> Step:
    layers, data = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4)), Data()

    def forward(x: Any) -> Any:
        for layer in layers:
            x = x + torch.relu(layer(x))
            if x.norm() > 9:
                break
        return x

    return squares(layers, data, forward)


@slow_start
def net_that_grows() -> Step:
    layers, data, made = nn.Sequential(nn.Linear(WIDTH, WIDTH)), Data(), [0]

    def step() -> Any:
        made[0] += 1
        if made[0] % 4 == 0:
            layers.append(nn.Linear(WIDTH, WIDTH))
        loss = layers(data.normal(ROWS, WIDTH)).square().mean()
        loss.backward()
        with torch.no_grad():
            for p in layers.parameters():
                p -= 0.02 * p.grad
                p.grad = None
        return loss.item()

    return step


@slow_start
def parser_with_a_stack() -> Step:
    net, data = Chain(), Data()
    optimizer = sgd(net.parameters())

    def step() -> Any:
        waiting = [data.normal(1, WIDTH) for _ in range(data.draw.randint(3, 6))]
        stack: list[Any] = []
        while waiting or len(stack) > 1:
            if len(stack) > 1 and (not waiting or data.draw.random() < 0.5):
                right = stack.pop()
                stack.append(net.next(stack.pop(), right))
            else:
                stack.append(waiting.pop())
        loss = F.cross_entropy(net.output(stack[0]), torch.tensor([1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@slow_start
def calls_that_run_together() -> Step:
    net, data = Chain(), Data()
    optimizer = sgd(net.parameters())
    scores = torch.batched(lambda words: net(words)[0])

    def step() -> Any:
        sentences = [data.normal(data.draw.randint(2, 5), 1, WIDTH) for _ in range(ROWS)]
        loss = F.cross_entropy(torch.stack(scores(sentences)), data.integers(CLASSES, ROWS))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@slow_start
def sentences_one_by_one() -> Step:
    net, data = Chain(), Data()
    optimizer = sgd(net.parameters())

    def step() -> Any:
        optimizer.zero_grad()
        total = 0.0
        for _ in range(3):
            words = data.normal(data.draw.randint(2, 5), 1, WIDTH)
            loss = entropy(net, words, data.integers(CLASSES, 1))
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total

    return step


@feature
def batches_that_come_back_shuffled() -> Step:
    net, data = Chain(), Data()
    optimizer = sgd(net.parameters())
    batches = [data.sentences() for _ in range(3)]
    order: list[int] = []

    def step() -> Any:
        if not order:
            order.extend(data.draw.sample(range(3), 3))
        loss = entropy(net, *batches[order.pop()])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


# -- solvers --------------------------------------------------------------------------------------


@feature
def equation_in_fixed_steps() -> Step:
    net = nn.Linear(WIDTH, WIDTH)

    def change(chain: Any, h: Any) -> Any:
        for _ in range(2):
            one = torch.tanh(chain.part(h))
            two = torch.tanh(chain.part(h + 0.05 * one))
            h = h + 0.05 * (one + two)
        return h

    return training(Chain(change, net))


@feature
def equation_in_adaptive_steps() -> Step:
    net, data = nn.Linear(WIDTH, WIDTH), Data()

    def forward(x: Any) -> Any:
        time, size = 0.0, 0.3
        while time < 1.0:
            size = min(size, 1.0 - time)
            one = torch.tanh(net(x))
            two = torch.tanh(net(x + size * one))
            wrong = (size * (two - one)).abs().max().item()
            if wrong < 0.1:
                x, time = x + size * 0.5 * (one + two), time + size
            size *= 0.5 if wrong >= 0.1 else 1.5
        return x

    return squares(net, data, forward)


@feature
def fixed_point() -> Step:
    net, data = nn.Linear(WIDTH, WIDTH), Data()

    def forward(x: Any) -> Any:
        z = torch.zeros_like(x)
        for _ in range(8):
            new = torch.tanh(0.5 * net(z) + x)
            near = (new - z).abs().max() < 0.05
            z = new
            if near:
                break
        return z

    return squares(net, data, forward)


@feature
def root_by_newton() -> Step:
    data = Data()

    def step() -> Any:
        target = data.normal(ROWS).abs() + 0.5
        x = torch.ones(ROWS)
        for _ in range(3):
            x = x.detach().requires_grad_()
            wrong = x**3 - target
            (slope,) = torch.autograd.grad(wrong.sum(), x)
            x = x - wrong / slope
        return x.sum().item()

    return step


@feature
def conjugate_gradients() -> Step:
    data = Data()

    def step() -> Any:
        a = data.normal(WIDTH, WIDTH)
        a, b = a @ a.mT + torch.eye(WIDTH), data.normal(WIDTH)
        x = torch.zeros(WIDTH)
        r = p = b
        for _ in range(4):
            along = a @ p
            size = (r @ r) / (p @ along)
            x, new = x + size * p, r - size * along
            p, r = new + (new @ new) / (r @ r) * p, new
            if r.norm() < 1e-3:
                break
        return x.sum().item()

    return step
