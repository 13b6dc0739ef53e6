"""Shapes, indices, numbers: what tensors are asked for, line after line."""

from __future__ import annotations

import numpy as np

import wend as torch
from wend import Tensor


def described(x: Tensor) -> str:
    rows, columns = x.shape
    batch = x.size(0)
    size = x.size()
    return f"{rows}x{columns} {batch} {list(size)} {size.numel()} {x.dim()} {x.ndim} {x.dtype}"


def corners(x: Tensor) -> list[float]:
    return [float(x[0, 0]), x[0, -1].item(), x[-1][0].item(), x[-1, -1].item()]


def main() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    print(described(x), corners(x))
    mask = x > 5
    chosen, first, every = x[mask], x[..., 0], x[:, None, ::2]
    print(chosen.numel(), first.tolist(), every.shape, x[[0, 2]].sum().item())
    x[0] = 0
    x[x > 10] = -1.0
    x[1:, 1] += 2
    rows = torch.tensor([0, 2])
    print(x[rows, rows].tolist(), x[rows][:, [1, 3]].shape)
    y = 2 * x + 1 - x / 3 + x**2 - (1 - x) * -x
    print((y @ y.T).shape, (x == 0).sum().item(), (~mask & (x >= 0)).any().item())
    values, indices = x.max(dim=1)
    top = x.flatten().topk(2)
    order = torch.sort(x, dim=1, descending=True)
    print(values.tolist(), indices[0].item(), top.values.tolist(), order.indices.shape)
    a, b = x.split([1, 2]) if len(x) == 3 else x.chunk(2)
    print(a.shape, b.shape, [part.item() for part in x[0].unbind()])
    kinds, counts = torch.unique(x, return_counts=True)
    print(kinds.numel() == counts.numel(), torch.nonzero(mask).shape)
    array: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = x.numpy()
    back = torch.from_numpy(array)
    print(back.data_ptr() == x.data_ptr(), np.asarray(x).shape, int(x.count_nonzero()))
    grid = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
    print(torch.stack(grid, dim=-1).shape, torch.cat([x, x], dim=0).shape)
    print(torch.where(mask, x, 0.0).sum().item(), len(torch.where(mask)))
    print(torch.einsum("ij,kj->ik", x, x).diagonal().tolist())
    for row in x:
        if row.sum() > 100:
            break
    i: int = int(torch.tensor(3))
    print(f"{x[0, 0]:.2f}", i, bool(torch.tensor(True)), x.is_contiguous(), x.T.stride(0))


if __name__ == "__main__":
    main()
