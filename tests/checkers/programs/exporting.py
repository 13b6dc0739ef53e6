"""A model for others: exported programs, sessions, ONNX, compile, script, summaries."""

from __future__ import annotations

import io
from typing import TypedDict

import wend as torch
from wend import Tensor, nn


class Sizes(TypedDict):
    width: int
    depth: int


class Net(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes["width"]
        layers: list[nn.Module] = []
        for _ in range(sizes["depth"]):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@torch.compile
def scaled(x: Tensor, factor: float) -> Tensor:
    return x.mul(factor).relu()


def main() -> None:
    torch.manual_seed(0)
    net = Net({"width": 4, "depth": 2}).eval()
    x = torch.randn(2, 4)
    expected = net(x)
    compiled = torch.compile(net, mode="default")
    print(torch.allclose(compiled(x), expected), scaled(x, 2.0).shape, compiled.layers[0])

    program = torch.export.export(net, (x,))
    print(torch.allclose(program.module()(x), expected))
    session = torch.session(net, x, input_names=["x"], output_names=["y"])
    buffer = io.BytesIO()
    torch.onnx.export(net, (x,), buffer, input_names=["x"], output_names=["y"])
    again = torch.onnx.load(buffer.getvalue())
    print(torch.allclose(again(x), expected, atol=1e-5), type(session).__name__)

    scripted = torch.jit.trace(net, (x,))
    print(torch.equal(scripted(x), expected))
    report = torch.summary(net, input_size=(2, 4), verbose=0)
    print(report.total_params)


if __name__ == "__main__":
    main()
