"""The nodes that PyTorch makes of products of many dims: laid out as products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from wend._engine.ops.gradient_nodes import LaidOperand, NodeBuilder, NodeOperand


def matmul_nodes(n: NodeBuilder, x: NodeOperand, w: NodeOperand) -> object:
    """The nodes of x @ w."""
    return laid_matmul(n, n.laid(x), n.laid(w))


def laid_matmul(n: NodeBuilder, x: LaidOperand, w: LaidOperand) -> object:
    """The nodes of x @ w, of operands that may be views."""
    ranks = len(x.shape), len(w.shape)
    plain = {(1, 1): n.Dot, (2, 1): n.Mv, (2, 2): n.Mm}.get(ranks)
    if plain is not None:
        return plain(x.edge, w.edge)
    if ranks == (1, 2):
        return n.Squeeze4(n.Mm(x.unsqueeze(0).edge, w.edge))
    if min(ranks) <= 2 and _folds(x, w):
        if ranks[0] > ranks[1]:
            return _folded(n, x, w)
        if ranks[0] == 1:
            return _folded(n, w.transpose(), x)
        return n.Clone(n.Transpose(_folded(n, w.transpose(), x.transpose())))
    if ranks[0] == 1:
        x = x.unsqueeze(0)
    if ranks[1] == 1:
        w = w.unsqueeze(1)
    front = _broadcast(x.shape[:-2], w.shape[:-2])
    y = n.UnsafeView(n.Bmm(_stacked(x, front).edge, _stacked(w, front).edge))
    return n.Squeeze1(y) if 1 in ranks else y


def _folds(x: LaidOperand, w: LaidOperand) -> bool:
    """Whether the rows of the operand with more dims go through a single product of matrices."""
    large, small = (x, w) if len(x.shape) >= len(w.shape) else (w, x)
    if small.active:
        return True
    if len(x.shape) == 2:
        return False
    shape, strides = large.shape, large.strides
    if large is w:  # its transpose would be folded
        shape, strides = (
            (*shape[:-2], shape[-1], shape[-2]),
            (
                *strides[:-2],
                strides[-1],
                strides[-2],
            ),
        )
    last = len(shape) - 2
    return not prod(shape) or all(strides[i] == strides[i + 1] * shape[i + 1] for i in range(last))


def _folded(n: NodeBuilder, x: LaidOperand, w: LaidOperand) -> object:
    rows = x.reshape((prod(x.shape[:-1]), x.shape[-1]))
    return n.UnsafeView((n.Mm if len(w.shape) == 2 else n.Mv)(rows.edge, w.edge))


def _stacked(x: LaidOperand, front: tuple[int, ...]) -> LaidOperand:
    """x for all of the products, as a stack of matrices."""
    return x.expand((*front, *x.shape[-2:])).reshape((prod(front), *x.shape[-2:]))


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return tuple(m if k == 1 else k for k, m in zip(a, b, strict=True))


def linear_nodes(
    n: NodeBuilder, x: NodeOperand, weight: NodeOperand, bias: NodeOperand | None
) -> object:
    """The nodes of x @ weight.T + bias."""
    w = n.laid(weight)
    if weight.rank == 2:
        w = w.transpose()
    if bias is None or weight.rank != 2:
        y = laid_matmul(n, n.laid(x), w)
        return y if bias is None else n.Add(y, bias)
    if x.rank == 2:
        return n.Addmm(bias, x, w.edge)
    if x.contiguous:
        return n.View(n.Addmm(bias, n.View(x), w.edge))
    return n.Add(laid_matmul(n, n.laid(x), w), bias)


def tensordot_nodes(n: NodeBuilder, a: NodeOperand, b: NodeOperand, dims: Any) -> object:
    """The nodes of tensordot."""
    if isinstance(dims, int):
        dims = range(-dims, 0), range(dims)
    of_a, of_b = ([d % x.rank for d in ds] for x, ds in ((a, dims[0]), (b, dims[1])))
    rows = [d for d in range(a.rank) if d not in of_a]
    columns = [d for d in range(b.rank) if d not in of_b]
    inner = prod(a.shape[d] for d in of_a)
    x = n.laid(a).permute((*rows, *of_a)).reshape((prod(a.shape[d] for d in rows), inner))
    w = n.laid(b).permute((*of_b, *columns)).reshape((inner, prod(b.shape[d] for d in columns)))
    return n.View(n.Mm(x.edge, w.edge))


def einsum_nodes(
    n: NodeBuilder, operands: list[NodeOperand], labels: list[Any], out: Any, rest: list[int]
) -> object:
    """The nodes of einsum over at most two operands; rest: the labels that are summed over."""
    order = [*out, *rest]
    first, *second = [
        _by_labels(n.laid(x), own, order) for x, own in zip(operands, labels, strict=True)
    ]
    if not second:
        return n.Sum1(first.edge) if rest else first.edge
    rank, summed = len(order), range(len(out), len(order))
    both = [d for d in summed if first.shape[d] != 1 and second[0].shape[d] != 1]
    x, w = (
        _summed(n, v, [d for d in summed if v.shape[d] != 1 and d not in both])
        for v in (first, second[0])
    )
    if not both:
        y = n.Mul(x.edge, w.edge)
        return n.View(y) if rest else y
    apart = [d for d in range(rank) if d not in both]
    pairs = [d for d in apart if x.shape[d] != 1 and w.shape[d] != 1]
    left = [d for d in apart if d not in pairs and x.shape[d] != 1]
    right = [d for d in apart if d not in pairs and d not in left]

    def stacked(v: LaidOperand, *groups: list[int], unused: list[int]) -> Any:
        moved = v.permute([*(d for group in groups for d in group), *unused])
        return moved.reshape([prod(v.shape[d] for d in group) for group in groups]).edge

    x, w = stacked(x, pairs, left, both, unused=right), stacked(w, pairs, both, right, unused=left)
    y = n.Permute(n.View(n.Bmm(x, w)))
    return n.View(y)


def _by_labels(x: LaidOperand, labels: Sequence[int], order: list[int]) -> LaidOperand:
    """x with a dim per label, in this order."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = x.diagonal(i, j)
            del labels[j]
    for label in order:
        if label not in labels:
            x = x.unsqueeze(len(labels))
            labels.append(label)
    return x.permute([labels.index(label) for label in order])


def _summed(n: NodeBuilder, x: LaidOperand, dims: list[int]) -> LaidOperand:
    if not dims:
        return x
    return n.made(n.Sum1(x.edge), [1 if d in dims else m for d, m in enumerate(x.shape)])
