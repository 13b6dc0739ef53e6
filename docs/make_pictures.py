"""Writes the pictures of the pages, which the product makes: run after a change of these.

    python docs/make_pictures.py          # into docs/howto/pictures

`tests/tools/test_pictures.py` compares.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from typing import Any

import wend
from wend import debug
from wend._frontend.seeing.svg import svg_of

FOLDER = Path(__file__).resolve().parent / "howto" / "pictures"

#: A training step, as `train.py`: lines of pictures are those of this text.
PROGRAM = """\
import wend
from wend import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(4, 8)
        self.leave = nn.Linear(8, 2)

    def forward(self, x, squashed=True):
        h = self.enter(x)
        if squashed:
            h = h.tanh()
        return self.leave(h)

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 12
        )

    def forward(self, x):
        return self.layers(x).mean()

net, deep = Net(), Deep()
optimizer = wend.optim.SGD(net.parameters(), lr=0.1)
x = wend.ones(3, 4)

def step():
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss

def deep_step():
    deep(wend.ones(2, 5, 8)).backward()

encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
adam = wend.optim.Adam(encoder.parameters())

def layer_step():
    encoder(wend.ones(2, 5, 8)).mean().backward()
    adam.step()

def settle(x):
    h = x * 2
    while h.abs().max() > 1:
        if h.sum() > 0:
            h = h / 2
        else:
            h = h * 0.25 + 0.1
    return h.exp()
"""
#: Boxes of the picture in which nearly all is unfolded.
UNFOLDED = 160


def pictures() -> dict[str, str]:
    """Name of a file -> its text."""
    name = "train.py"
    linecache.cache[name] = (len(PROGRAM), None, PROGRAM.splitlines(keepends=True), name)
    space: dict[str, Any] = {}
    wend.synchronize()
    exec(compile(PROGRAM, name, "exec"), space)
    net, x = space["net"], space["x"]
    settle = wend.export.export(space["settle"], (x,))
    difference = debug.diff(debug.graph(net, x), debug.graph(net, x, squashed=False))
    squashed, plain = (side.picture() for side in difference._sides())
    return {
        "step.svg": debug.graph(space["step"])._repr_html_(),
        "deep.svg": debug.graph(space["deep_step"])._repr_html_(),
        "unfolded.svg": svg_of(debug.graph(space["layer_step"]), UNFOLDED),
        "loop.svg": debug.graph(settle)._repr_html_(),
        "squashed.svg": squashed,
        "plain.svg": plain,
    }


def main() -> int:
    """Write all pictures; returns the exit status."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"{FOLDER / name}: {len(text)} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
