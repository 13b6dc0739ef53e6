"""Gradients by the user: functions, hooks, several passes, derivatives of derivatives."""

from __future__ import annotations

from typing import Any

from steps.common import ROWS, WIDTH, Chain, Data, Step, entropy, feature, of_states, sgd, training

import wend as torch
from wend import nn
from wend.nn import functional as F
from wend.utils.checkpoint import checkpoint


class Squash(torch.autograd.Function):
    """Clamps, and lets gradients pass a little beyond the bounds."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.clamp(-0.8, 0.8)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() < 0.9, g, 0.1 * g)


@of_states
def own_function(h: Any) -> Any:
    return Squash.apply(h)


@of_states
def hook_of_a_tensor(h: Any) -> Any:
    h.register_hook(lambda g: g.clamp(-1, 1))
    return h


@of_states
def retained_gradient(h: Any) -> Any:
    h.retain_grad()
    return h


@of_states
def part_without_gradient(h: Any) -> Any:
    with torch.no_grad():
        scale = h.norm(dim=1, keepdim=True)
    return h / (1 + scale)


@of_states
def checkpointed_part(h: Any) -> Any:
    return checkpoint(lambda x: torch.tanh(x * 1.5), h, use_reentrant=False)


@feature
def hooks_of_layers() -> Step:
    net, seen = Chain(), [0.0]

    def count(module: Any, given: Any, made: Any) -> None:
        seen[0] += made.shape[0]

    net.of_word.register_forward_hook(count)
    net.of_state.register_full_backward_hook(lambda module, g_in, g_out: None)
    return training(net)


@feature
def hooks_of_parameters() -> Step:
    net = Chain()
    for parameter in net.parameters():
        parameter.register_hook(lambda g: g * 0.5)
    return training(net)


@feature
def hooks_after_accumulation() -> Step:
    net = Chain()

    def halve(parameter: Any) -> None:
        parameter.grad *= 0.5

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(halve)
    return training(net)


@feature
def hooks_of_saved_tensors() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x):
            return entropy(net, words, classes)

    return training(loss=loss)


@feature
def penalty_of_gradients() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        words.requires_grad_()
        scores = net(words)
        (g,) = torch.autograd.grad(scores.square().sum(), words, create_graph=True)
        return F.cross_entropy(scores, classes) + 0.1 * g.square().mean()

    return training(loss=loss)


@feature
def two_backward_passes() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        found = entropy(net, words, classes)
        (0.5 * found).backward(retain_graph=True)
        return found

    return training(loss=loss)


@feature
def two_losses_one_after_the_other() -> Step:
    net, data = Chain(), Data()
    optimizer = sgd(net.parameters())

    def step() -> Any:
        words, classes = data.sentences()
        optimizer.zero_grad()
        first = entropy(net, words, classes)
        first.backward()
        second = net(words * 0.5).square().mean()
        second.backward()
        optimizer.step()
        return first.item() + second.item()

    return step


@feature
def truncated_history() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        h, total = torch.zeros(ROWS, WIDTH), 0.0
        for k, x in enumerate(words):
            h = net.next(h.detach() if k % 2 == 0 else h, x)
            total = total + F.cross_entropy(net.output(h), classes)
        return total

    return training(loss=loss)


@feature
def anomaly_detection() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            return entropy(net, words, classes)

    return training(loss=loss)


@feature
def gradients_of_each_sample() -> Step:
    net, data = Chain(), Data()

    def of_sample(parameters: Any, words: Any, label: Any) -> Any:
        scores = torch.func.functional_call(net, parameters, (words[:, None],))
        return F.cross_entropy(scores, label[None])

    def step() -> Any:
        words, classes = data.sentences()
        parameters = {name: p.detach() for name, p in net.named_parameters()}
        gradients = torch.func.vmap(torch.func.grad(of_sample), (None, 1, 0))
        found = gradients(parameters, words, classes)
        with torch.no_grad():
            for name, p in net.named_parameters():
                p -= 0.02 * found[name].mean(0)
        return 0.0

    return step


@feature
def jacobian_of_a_net() -> Step:
    net, data = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3)), Data()
    return lambda: torch.func.jacrev(net)(data.normal(WIDTH)).square().sum().item()


@feature
def product_with_the_hessian() -> Step:
    net, data = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)), Data()

    def step() -> Any:
        x, v = data.normal(WIDTH), data.normal(WIDTH)
        gradient = torch.func.grad(lambda x: net(x).sum())
        return torch.func.jvp(gradient, (x,), (v,))[1].sum().item()

    return step


@feature
def learning_to_learn() -> Step:
    net, data = Chain(), Data()
    optimizer = sgd(net.parameters())

    def step() -> Any:
        words, classes = data.sentences()
        own = dict(net.named_parameters())
        inner = F.cross_entropy(torch.func.functional_call(net, own, (words,)), classes)
        moves = torch.autograd.grad(inner, list(own.values()), create_graph=True)
        moved = {name: p - 0.1 * g for (name, p), g in zip(own.items(), moves, strict=True)}
        outer = F.cross_entropy(torch.func.functional_call(net, moved, (words,)), classes)
        optimizer.zero_grad()
        outer.backward()
        optimizer.step()
        return outer.item()

    return step
