"""torch.func: per-example gradients, Jacobians, Hessians, ensembles, and wend.batched."""

from __future__ import annotations

import wend as torch
from wend import Tensor, nn
from wend.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)


def loss_of(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    return (x @ weights["w"] + weights["b"] - y).square().mean()


def energy(x: Tensor) -> Tensor:
    return (x**2).sum() + x.prod()


def length_of(words: Tensor, scale: float = 1.0) -> float:
    total = 0.0
    for word in words:
        if word > 0:
            total += float(word) * scale
    return total


def main() -> None:
    torch.manual_seed(0)
    weights = {"w": torch.randn(3), "b": torch.zeros(())}
    x, y = torch.randn(5, 3), torch.randn(5)
    each = vmap(grad(loss_of), in_dims=(None, 0, 0))(weights, x, y)
    gradient, value = grad_and_value(loss_of)(weights, x, y)
    print(each["w"].shape, gradient["w"].shape, value.item() > 0)

    point = torch.tensor([1.0, 2.0])
    print(hessian(energy)(point).tolist(), jacrev(energy)(point).tolist())
    print(jacfwd(torch.sin)(point).diagonal())
    output, pull = vjp(energy, point)
    print(pull(torch.ones_like(output))[0], jvp(energy, (point,), (torch.ones(2),))[1])

    doubled = vmap(lambda row: row * 2, in_dims=1, out_dims=1)(x)
    print(torch.equal(doubled, x * 2))
    models = [nn.Linear(3, 1) for _ in range(4)]
    params, buffers = stack_module_state(models)

    def call(params: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
        result: Tensor = functional_call(models[0], (params, buffers), (x,))
        return result

    print(vmap(call, in_dims=(0, 0, None))(params, buffers, x).shape)
    lengths = torch.batched(length_of)([torch.ones(2), torch.ones(3)], scale=2.0)
    print(sum(lengths))


if __name__ == "__main__":
    main()
