"""The network of the two ResNet workloads: a small ResNet for images of any size."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 10
WIDTHS = (64, 128, 256, 512)


class Block(nn.Module):
    """Two convolutions of 3 x 3 and a shortcut; the first one has the stride."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Images (n, 3, h, w) -> scores (n, 10); 3.4 GFLOP for an image of 112 x 112."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTHS[0], 3, 2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(WIDTHS[0])
        blocks = []
        for i, width in enumerate(WIDTHS):
            blocks += [Block(WIDTHS[max(i - 1, 0)], width, 2 if i else 1), Block(width, width, 1)]
        self.blocks = nn.Sequential(*blocks)
        self.output = nn.Linear(WIDTHS[-1], CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.blocks(F.relu(self.norm(self.stem(x))))
        return self.output(y.mean(dim=(2, 3)))
