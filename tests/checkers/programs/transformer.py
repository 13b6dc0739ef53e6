"""Attention: a block of its own, PyTorch's layers, masks, a positional buffer."""

from __future__ import annotations

import math

import wend as torch
import wend.nn.functional as F
from wend import Tensor, nn


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.wide = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        h, _ = self.attention(x, x, x, attn_mask=mask, need_weights=False)
        x = self.norms[0](x + h)
        y: Tensor = self.norms[1](x + self.wide(x))
        return y


class Model(nn.Module):
    positions: Tensor

    def __init__(self, width: int = 8, heads: int = 2, depth: int = 2) -> None:
        super().__init__()
        self.width = width
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        angles = torch.arange(16).unsqueeze(1) / 10000 ** (torch.arange(0, width, 2) / width)
        table = torch.zeros(16, width)
        table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("positions", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        n = x.size(1)
        mask = torch.triu(torch.full((n, n), -math.inf), diagonal=1)
        x = x * math.sqrt(self.width) + self.positions[:n]
        for block in self.blocks:
            x = block(x, mask)
        return x.mean(dim=1)


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8)
    print(Model()(x).shape)
    layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, num_layers=2)
    hidden = torch.zeros(2, 5, dtype=torch.bool)
    hidden[0, 3:] = True
    print(encoder(x, src_key_padding_mask=hidden).norm().item() > 0)
    q, k, v = torch.randn(3, 2, 2, 5, 4).unbind(0)
    print(F.scaled_dot_product_attention(q, k, v, is_causal=True).shape)
    out, weights = nn.MultiheadAttention(8, 2)(x, x, x)
    print(out.shape, weights.sum(dim=-1).round().tolist()[0])


if __name__ == "__main__":
    main()
