"""Modules in lists and dicts, parameters in lists, hooks, traversal, sharing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wend as torch
from wend import Tensor, nn


class Experts(nn.Module):
    scale: Tensor

    def __init__(self, width: int, names: list[str]) -> None:
        super().__init__()
        self.experts = nn.ModuleDict({name: nn.Linear(width, width) for name in names})
        self.shared = nn.ModuleList()
        self.shared.append(nn.Linear(width, width)).extend([nn.ReLU()])
        self.mixing = nn.ParameterList([nn.Parameter(torch.ones(())) for _ in names])
        self.gate = nn.Parameter(torch.zeros(width, len(names)))
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        shares = (x @ self.gate).softmax(dim=-1)
        total = torch.zeros_like(x)
        for i, (name, expert) in enumerate(self.experts.items()):
            total = total + shares[:, i : i + 1] * expert(x) * self.mixing[i]
            assert name in self.experts
        for layer in self.shared:
            total = layer(total)
        return total * self.scale


def counting(seen: dict[str, int]) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
    def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        name = type(module).__name__
        seen[name] = seen.get(name, 0) + 1

    return hook


def main() -> None:
    net = Experts(4, ["left", "right"])
    seen: dict[str, int] = {}
    handles = [m.register_forward_hook(counting(seen)) for m in net.modules()]
    before = net.register_forward_pre_hook(lambda module, args: None)
    y = net(torch.ones(2, 4))
    y.sum().backward()
    for handle in [*handles, before]:
        handle.remove()
    print(seen, [name for name, _ in net.named_children()])
    print(sorted(name for name, p in net.named_parameters() if p.grad is not None)[:2])
    sizes = {name: tuple(p.shape) for name, p in net.named_parameters()}
    print(sizes["gate"], list(net.state_dict())[:1], net.training)
    stack = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    last = stack[-1]
    front = stack[:2]
    print(len(front), isinstance(last, nn.Linear), stack(torch.ones(1, 4)).shape)
    left = net.experts["left"]
    assert isinstance(left, nn.Linear)
    print(left.in_features, left.weight.shape, net.get_submodule("experts.right"))
    print(net.double().gate.dtype, net.eval().float().training)


if __name__ == "__main__":
    main()
