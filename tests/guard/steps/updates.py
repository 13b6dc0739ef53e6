"""Optimisers, schedules, and what is done with gradients and parameters around an update."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from steps.common import STEPS, Chain, Data, Step, entropy, feature, sgd, training

import wend as torch
from wend.optim import lr_scheduler, swa_utils

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3),
    "adamw_amsgrad": lambda p: torch.optim.AdamW(p, lr=1e-3, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1e-3),
    "nadam": lambda p: torch.optim.NAdam(p, lr=1e-3),
    "radam": lambda p: torch.optim.RAdam(p, lr=1e-3),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.02),
    "rprop": lambda p: torch.optim.Rprop(p, lr=1e-3),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-2),
}
SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "steps_down": lambda o: lr_scheduler.StepLR(o, 3, 0.5),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 20),
    "one_cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=40),
    "warm_up_by_a_function": lambda o: lr_scheduler.LambdaLR(o, lambda k: min(1.0, (k + 1) / 5)),
}


def of_schedule(make: Callable[[Any], Any]) -> Step:
    """Training whose learning rate changes in each step."""
    made: list[Any] = []

    def optimizer(parameters: Any) -> Any:
        found = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
        made.append(make(found))
        return found

    return training(optimizer=optimizer, after_update=lambda net: made[0].step())


STEPS |= {name: lambda f=f: training(optimizer=f) for name, f in OPTIMIZERS.items()}
STEPS |= {name: lambda f=f: of_schedule(f) for name, f in SCHEDULES.items()}


@feature
def quasi_newton() -> Step:
    net, data = Chain(), Data()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3)

    def step() -> Any:
        words, classes = data.sentences()

        def closure() -> Any:
            optimizer.zero_grad()
            loss = entropy(net, words, classes)
            loss.backward()
            return loss

        return float(optimizer.step(closure))

    return step


@feature
def two_groups_of_parameters() -> Step:
    net = Chain()
    groups = [{"params": net.output.parameters(), "lr": 0.1}, {"params": net.of_word.parameters()}]
    return training(net, optimizer=lambda _: torch.optim.AdamW(groups, lr=1e-3))


@feature
def clipped_norm() -> Step:
    def clip(net: Any) -> None:
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)

    return training(before_update=clip)


@feature
def clipped_values() -> Step:
    def clip(net: Any) -> None:
        torch.nn.utils.clip_grad_value_(net.parameters(), 0.01)

    return training(before_update=clip)


@feature
def norms_that_are_logged() -> Step:
    return training(before_update=lambda net: [p.grad.norm().item() for p in net.parameters()])


@feature
def scaled_loss() -> Step:
    net, data = Chain(), Data()
    optimizer = sgd(net.parameters())

    def step() -> Any:
        loss = entropy(net, *data.sentences())
        optimizer.zero_grad()
        (loss * 128).backward()
        finite = all(bool(torch.isfinite(p.grad).all()) for p in net.parameters())
        for p in net.parameters():
            p.grad /= 128
        if finite:
            optimizer.step()
        return loss.item()

    return step


@feature
def gradients_set_to_zero() -> Step:
    net, data = Chain(), Data()
    optimizer = sgd(net.parameters())

    def step() -> Any:
        optimizer.zero_grad(set_to_none=False)
        loss = entropy(net, *data.sentences())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@feature
def accumulated_gradients() -> Step:
    net, data = Chain(), Data()
    optimizer = sgd(net.parameters())

    def step() -> Any:
        optimizer.zero_grad()
        total = 0.0
        for _ in range(2):
            loss = entropy(net, *data.sentences()) / 2
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total

    return step


@feature
def moving_average_of_weights() -> Step:
    net = Chain()
    average = swa_utils.AveragedModel(net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.95))
    return training(net, after_update=average.update_parameters)


@feature
def copy_of_the_state_in_each_step() -> Step:
    return training(after_update=lambda net: {k: v.clone() for k, v in net.state_dict().items()})


@feature
def net_that_follows() -> Step:
    net = Chain()
    behind = copy.deepcopy(net)

    def loss(net: Any, words: Any, classes: Any) -> Any:
        with torch.no_grad():
            wanted = behind(words).amax(1)
        scores = net(words).gather(1, classes[:, None])[:, 0]
        return torch.nn.functional.smooth_l1_loss(scores, wanted)

    def follow(net: Any) -> None:
        with torch.no_grad():
            for p, q in zip(behind.parameters(), net.parameters(), strict=True):
                p.lerp_(q, 0.05)

    return training(net, loss, after_update=follow)


@feature
def update_by_hand() -> Step:
    net, data = Chain(), Data()

    def step() -> Any:
        loss = entropy(net, *data.sentences())
        gradients = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for p, g in zip(net.parameters(), gradients, strict=True):
                p -= 0.02 * g
        return loss.item()

    return step


@feature
def generator_and_critic() -> Step:
    maker, critic, data = Chain(), Chain(), Data()
    first, second = sgd(maker.parameters()), sgd(critic.parameters())

    def step() -> Any:
        words, _ = data.sentences()
        made = words + maker(words).sum() * 0.01
        second.zero_grad()
        loss = critic(made.detach()).mean() - critic(words).mean()
        loss.backward()
        second.step()
        first.zero_grad()
        wish = -critic(made).mean()
        wish.backward()
        first.step()
        return loss.item() + wish.item()

    return step
