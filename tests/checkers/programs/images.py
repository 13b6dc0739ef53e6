"""Convolutions: a residual net, batch norm, pooling, interpolation, weights by name."""

from __future__ import annotations

from collections import OrderedDict

import wend as torch
import wend.nn.functional as F
from wend import Tensor, nn
from wend.nn import init


class Residual(nn.Module):
    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, kernel_size=3, stride=stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, padding="same")
        self.short: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.short = nn.Conv2d(channels, out, 1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.first(x)), inplace=True)
        short: Tensor = self.short(x)
        return torch.relu(self.second(y) + short)


def fresh(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if module.bias is not None:
            init.zeros_(module.bias)


def main() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        OrderedDict[str, nn.Module](
            [
                ("body", Residual(3, 4, stride=2)),
                ("pool", nn.AdaptiveAvgPool2d((1, 1))),
                ("flat", nn.Flatten()),
                ("head", nn.Linear(4, 2)),
            ]
        )
    )
    net.apply(fresh)
    x = torch.rand(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    scores = net(x)
    pooled, places = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(pooled, places, kernel_size=2)
    larger = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
    padded = F.pad(x, (1, 1, 1, 1), mode="reflect")
    print(scores.shape, back.shape, larger.shape, padded.shape)
    pool = nn.MaxPool2d(2)
    print(pool(x).amax(dim=(2, 3)).shape, x.permute(0, 2, 3, 1).flip(-1).stride())
    mean, std = x.mean((0, 2, 3), keepdim=True), x.std(dim=(0, 2, 3), keepdim=True)
    print(((x - mean) / (std + 1e-5)).abs().max().item() < 10)


if __name__ == "__main__":
    main()
