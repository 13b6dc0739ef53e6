"""Self-attention as people write it: heads split, joined and put in order in their own ways.

Cases of ``chains.py``. Each way is a function of (x, weights, n heads) and gives what the others
give, up to the order of batch and words.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F


def attend(q: Any, k: Any, v: Any) -> Any:
    """Written out: softmax(q k^T / sqrt(d)) v."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return torch.softmax(scores, -1) @ v


def split_and_transposed(x: Any, w: Any, heads: int) -> Any:
    """(n, t, 3 e) in three parts, (n, heads, t, d)."""
    n, t, e = x.shape
    parts = F.linear(x, w.joint).split(e, 2)
    q, k, v = (p.view(n, t, heads, e // heads).transpose(1, 2) for p in parts)
    y = F.scaled_dot_product_attention(q, k, v)
    return F.linear(y.transpose(1, 2).contiguous().view(n, t, e), w.out)


def unbound(x: Any, w: Any, heads: int) -> Any:
    """(3, n, heads, t, d) by one permutation."""
    n, t, e = x.shape
    parts = F.linear(x, w.joint).reshape(n, t, 3, heads, e // heads).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(*parts.unbind(0))
    return F.linear(y.transpose(1, 2).reshape(n, t, e), w.out)


def words_first(x: Any, w: Any, heads: int) -> Any:
    """(t, n, e) outside, (n, heads, t, d) inside, batch first again behind it."""
    n, t, e = x.shape
    x = x.transpose(0, 1)
    q, k, v = (F.linear(x, m).reshape(t, n, heads, -1).permute(1, 2, 0, 3) for m in w.apart)
    y = F.scaled_dot_product_attention(q, k, v)
    return F.linear(y.permute(2, 0, 1, 3).reshape(t, n, e), w.out).transpose(0, 1)


def words_first_written_out(x: Any, w: Any, heads: int) -> Any:
    """(t, n heads, d), products written out."""
    n, t, e = x.shape
    x = x.transpose(0, 1)
    q, k, v = (F.linear(x, m).reshape(t, n * heads, -1).transpose(0, 1) for m in w.apart)
    y = attend(q, k, v).transpose(0, 1).reshape(t, n, e)
    return F.linear(y, w.out).transpose(0, 1)


def heads_first(x: Any, w: Any, heads: int) -> Any:
    """(heads, n, t, d), flattened behind it."""
    n, t, _ = x.shape
    q, k, v = (F.linear(x, m).view(n, t, heads, -1).permute(2, 0, 1, 3) for m in w.apart)
    y = F.scaled_dot_product_attention(q, k, v)
    return F.linear(y.permute(1, 2, 0, 3).flatten(2), w.out)


def heads_first_copied(x: Any, w: Any, heads: int) -> Any:
    """(heads n, t, d), made contiguous before and after, products written out."""
    n, t, e = x.shape
    q, k, v = (
        F.linear(x, m).view(n, t, heads, -1).permute(2, 0, 1, 3).contiguous().view(heads * n, t, -1)
        for m in w.apart
    )
    y = attend(q, k, v).view(heads, n, t, -1).permute(1, 2, 0, 3).contiguous()
    return F.linear(y.view(n, t, e), w.out)


def products_of_permuted(x: Any, w: Any, heads: int) -> Any:
    """x @ w instead of linear layers, from and to permuted values."""
    n, t, e = x.shape
    x = x.permute(1, 0, 2)
    q, k, v = ((x @ m).reshape(t, n, heads, -1).permute(1, 2, 0, 3) for m in w.apart)
    return (attend(q, k, v).permute(2, 0, 1, 3).reshape(t, n, e) @ w.out).permute(1, 0, 2)


def weights_of_heads(x: Any, w: Any, heads: int) -> Any:
    """einsum with weights (heads, d, e)."""
    e = x.shape[-1]
    q, k, v = (torch.einsum("nte,hde->nhtd", x, m.view(heads, -1, e)) for m in w.apart)
    y = F.scaled_dot_product_attention(q, k, v)
    return torch.einsum("nhtd,hde->nte", y, w.out.view(heads, -1, e))


def sums_by_name(x: Any, w: Any, heads: int) -> Any:
    """einsum over (n, t, heads, d)."""
    n, t, e = x.shape
    q, k, v = (F.linear(x, m).view(n, t, heads, -1) for m in w.apart)
    scores = torch.einsum("nqhd,nkhd->nhqk", q, k) / math.sqrt(e // heads)
    y = torch.einsum("nhqk,nkhd->nqhd", torch.softmax(scores, -1), v)
    return F.linear(y.reshape(n, t, e), w.out)


class Weights:
    """joint: (3 e, e)   apart: three of (e, e)   out: (e, e)"""

    def __init__(self, normal: Any, width: int) -> None:
        def one(*shape: int) -> Any:
            return (normal(*shape).detach() / math.sqrt(width)).requires_grad_()

        self.joint, self.out = one(3 * width, width), one(width, width)
        self.apart = [one(width, width) for _ in range(3)]


def written(normal: Any, way: str, sizes: list[int]) -> tuple[Any, list[Any]]:
    """A function of the leaves that it is differentiated by.

    way: the name of a function above     sizes: batch, words, heads, width
    """
    batch, words, heads, width = sizes
    w = Weights(normal, width)
    x = normal(batch, words, width)
    joint = way in ("split_and_transposed", "unbound")
    leaves = [x, w.out, *([w.joint] if joint else w.apart)]
    function = globals()[way]
    return (lambda *_: function(x, w, heads)), leaves
