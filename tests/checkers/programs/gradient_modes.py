"""Switches of gradients as blocks and as decorators."""

from __future__ import annotations

from collections.abc import Iterator

import wend as torch
from wend import Tensor, nn


@torch.no_grad()
def moved(weight: Tensor, towards: Tensor, rate: float = 0.1) -> Tensor:
    return weight.lerp_(towards, rate)


@torch.inference_mode()
def predicted(model: nn.Module, x: Tensor) -> Tensor:
    y: Tensor = model(x)
    return y.softmax(dim=-1)


@torch.no_grad
def doubled(x: Tensor) -> Tensor:
    return x * 2


@torch.no_grad()
def halves(x: Tensor) -> Iterator[Tensor]:
    while x.abs().max() > 0.1:
        yield x
        x = x / 2


class Average:
    def __init__(self, model: nn.Module) -> None:
        self.values = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model: nn.Module, rate: float) -> None:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                moved(self.values[name], parameter, rate=rate)


def main() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    average = Average(model)
    average.update(model, 0.5)
    x = torch.ones(2, 3)
    print(predicted(model, x).sum(dim=1), doubled(x).requires_grad, len(list(halves(x))))
    with torch.set_grad_enabled(False):
        assert not model(x).requires_grad
    with torch.inference_mode(), torch.autograd.set_detect_anomaly(False):
        y = model(x)
    assert y.is_inference() and torch.is_grad_enabled()
    model.requires_grad_(False)
    print([p.requires_grad for p in model.parameters()])


if __name__ == "__main__":
    main()
