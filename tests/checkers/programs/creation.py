"""Tensors made in all ways, types and devices named, conversions between them."""

from __future__ import annotations

from collections.abc import Sequence

import wend as torch
from wend import Tensor


def one_hot_rows(labels: Sequence[int], classes: int, dtype: torch.dtype | None = None) -> Tensor:
    rows = torch.zeros(len(labels), classes, dtype=dtype)
    return rows.scatter_(1, torch.tensor(labels).unsqueeze(1), 1)


def on(device: torch.device | str, shape: torch.Size | tuple[int, ...]) -> Tensor:
    return torch.empty(shape, device=device).fill_(0.5)


def main() -> None:
    a = torch.zeros(2, 3)
    b = torch.ones((2, 3), dtype=torch.float64, requires_grad=True)
    c = torch.full((2,), 7, dtype=torch.int32)
    d = torch.empty(size=(1, 2), dtype=torch.bool)
    e = torch.eye(3, dtype=torch.complex64)
    print(a.shape, b.requires_grad, c.tolist(), d.dtype, e.is_complex())
    print(torch.arange(5).tolist(), torch.arange(1, 2, 0.5).tolist(), torch.linspace(0, 1, 3)[1])
    generator = torch.Generator().manual_seed(3)
    print(torch.rand(2, generator=generator).shape, torch.randn((2, 2)).shape)
    print(torch.randint(10, (3,)).dtype, torch.randint(1, 5, size=(2,)).min().item() >= 1)
    print(torch.normal(0.0, 1.0, size=(2, 2)).shape, torch.bernoulli(torch.ones(2)).sum().item())
    print(torch.tensor([[1, 2], [3, 4]]).float().mean().item(), torch.tensor(True).item())
    print(torch.as_tensor([1.5, 2.5]).to(torch.int64).tolist(), a.new_ones(2).dtype)
    print(torch.zeros_like(b).dtype, torch.full_like(a, 2.0).sum().item(), torch.empty(0).numel())
    print(one_hot_rows([0, 2], 3, torch.float32).tolist(), on("cpu", a.shape).sum().item())
    print(a.to("cpu", torch.float16).dtype, a.double().dtype, a.type(torch.int8).dtype, a.type())
    print(a.to(b).dtype, a.to(device="cpu", non_blocking=True).device.type, a.cpu().is_cpu)
    print(torch.get_default_dtype().itemsize, torch.promote_types(torch.int8, torch.float32))
    print(torch.can_cast(torch.float32, torch.int8), torch.result_type(a, 1.0), a.element_size())
    sparse = torch.eye(3).to_sparse()
    print(torch.is_tensor(a), sparse.to_dense().sum().item(), torch.tril_indices(3, 3).shape)
    clone = a.detach().clone()
    clone.add_(1).mul_(2).clamp_(min=0, max=1)
    clone.uniform_(-1, 1)
    clone.normal_(mean=0.0, std=0.1)
    print(clone.view(3, 2).shape, clone.view(-1).shape, clone.reshape(6, 1).expand(6, 2).shape)
    print(clone.repeat(2, 1).shape, clone.transpose(0, 1).shape, clone.squeeze().unsqueeze(0).shape)


if __name__ == "__main__":
    main()
