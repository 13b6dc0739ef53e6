"""Functions with a backward of their own, hooks on tensors, and checks of gradients."""

from __future__ import annotations

import wend as torch
from wend import Tensor
from wend.autograd import Function, gradcheck
from wend.autograd.function import FunctionCtx, once_differentiable


class Clipped(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, bound: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.bound = bound
        return x.clamp(-bound, bound)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        inside = (x.abs() <= ctx.bound).to(grad.dtype)
        return grad * inside, None


class Scaled(Function):
    @staticmethod
    def forward(x: Tensor, factor: Tensor) -> Tensor:
        return x * factor

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, factor = ctx.saved_tensors
        grad_x = grad * factor if ctx.needs_input_grad[0] else None
        return grad_x, (grad * x).sum() if ctx.needs_input_grad[1] else None


def clipped(x: Tensor, bound: float = 1.0) -> Tensor:
    return Clipped.apply(x, bound)


def main() -> None:
    x = torch.linspace(-2, 2, 5, dtype=torch.float64, requires_grad=True)
    seen: list[Tensor] = []
    handle = x.register_hook(lambda grad: seen.append(grad))
    clipped(x, bound=1.5).sum().backward()
    handle.remove()
    assert x.grad is not None
    print(x.grad.tolist(), len(seen))

    factor = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    assert gradcheck(Scaled.apply, (x, factor))
    first, second = torch.autograd.grad(Scaled.apply(x, factor).sum(), [x, factor])
    print(first.shape, second.item())
    with torch.enable_grad():
        cube = (x**3).sum()
        (slope,) = torch.autograd.grad(cube, x, create_graph=True)
        (curve,) = torch.autograd.grad(slope.sum(), x)
    print(curve[0].item())


if __name__ == "__main__":
    main()
