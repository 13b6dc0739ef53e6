"""Valid files of all kinds, which `files.py` changes: small, and with all that a graph can hold."""

from __future__ import annotations

import collections
import io
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wend as torch
from wend import nn

Pair = collections.namedtuple("Pair", "left right")


class Tagger(nn.Module):
    """A cell over rows, which stops where it is sure."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        h = c = x.new_zeros(1, 8)
        for row in x:
            h, c = self.cell(row[None], (h, c))
            if self.head(h).softmax(-1).max() > 0.45:
                break
        return self.head(h)


class Loops(nn.Module):
    """A loop over a length, a draw, numbers, an error, a buffer that is written to."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x, names):
        self.calls.add_(1)
        h = torch.zeros(1, 4)
        out = []
        for row in x:
            h = self.cell(row[None], h)
            out.append(h)
        found = torch.cat(out)
        if found.abs().max() > 5:
            raise ValueError("too large")
        return {"h": found, "noise": torch.rand(x.size(0)), "n": x.shape[0], "names": names}


class Attention(nn.Module):
    """Words, attention, a mask, an index, a choice of the largest."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.norm = nn.LayerNorm(8)
        self.mix = nn.Linear(8, 24)

    def forward(self, ids):
        x = self.norm(self.words(ids))
        q, k, v = self.mix(x).chunk(3, -1)
        mask = torch.tril(torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool))
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        best = y.sum(-1).argmax(-1, keepdim=True)
        return Pair(y.gather(1, best[..., None].expand(-1, -1, 8)), y[:, ::2].flip(0).cumsum(0))


class Picture(nn.Module):
    """Convolutions, norms that count, pooling, a number that is read."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.norm(self.first(x)).relu(), 2)
        x = nn.functional.dropout(x.mean((2, 3)), 0.5)
        scale = 1 / (1 + x.abs().sum().item())
        return torch.where(x > 0, x, -x).clamp(max=scale), self.last(x).log_softmax(-1)


def many_ops(x, y):
    """Ops of many families."""
    a = torch.cat([x, y.t()]).roll(1, 0).unsqueeze(0).repeat(2, 1, 1)
    b = torch.einsum("bij,bkj->bik", a, a).sort(-1)[0]
    c = torch.nn.functional.pad(b, (1, 0)).transpose(1, 2).contiguous().view(-1, 2)
    d = torch.stack([c.var(0), c.amax(0)]).pow(2).masked_fill(torch.eye(2) > 0, 1.5)
    n = int((x.shape[0] + 5) // 2)
    e = torch.arange(n).float().reshape(1, -1).expand(2, n).index_select(0, torch.tensor([1, 0]))
    f = torch.scatter_add(e, 1, torch.zeros(2, n, dtype=torch.int64), e.round())
    return d.norm(), f.bincount() if False else f.tril(), [torch.linspace(0, 1, 3), n]


def graphs() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Functions with arguments, by name."""
    torch.manual_seed(1)
    return {
        "tagger": (Tagger(), (torch.randn(5, 4),)),
        "loops": (Loops(), (torch.randn(4, 3), ("a", 1.5, [2, None]))),
        "attention": (Attention().eval(), (torch.randint(0, 11, (2, 5)),)),
        "picture": (Picture().train(), (torch.randn(3, 2, 6, 8),)),
        "many ops": (many_ops, (torch.randn(3, 4), torch.randn(4, 3))),
    }


def exported() -> dict[str, bytes]:
    """Files of `torch.export.save`."""
    found = {}
    for name, (fn, args) in graphs().items():
        file = io.BytesIO()
        torch.export.save(torch.export.export(fn, args), file, extra_files={"about": name})
        found[name] = file.getvalue()
    fn, args = graphs()["tagger"]
    file = io.BytesIO()
    sizes = {"x": {0: torch.export.Dim("rows", min=2, max=9)}}
    torch.export.save(torch.export.export(fn, args, dynamic_shapes=sizes), file)
    found["named dims"] = file.getvalue()
    return found


def sessions() -> dict[str, bytes]:
    """Files of sessions, with kernels."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("tagger", "loops"):
            fn, args = graphs()[name]
            path = Path(folder) / "file.wend"
            torch.session(fn, *args).save(path)
            found[name] = path.read_bytes()
    return found


def scripted() -> dict[str, bytes]:
    """Files of `torch.jit.save`."""
    found = {}
    for name in ("tagger", "attention", "picture"):
        fn, args = graphs()[name]
        file = io.BytesIO()
        torch.jit.save(torch.jit.trace(fn, args), file, {"about": name})
        found[name] = file.getvalue()
    return found


def models() -> dict[str, bytes]:
    """Files of ONNX."""
    found = {}
    for name in ("tagger", "attention", "picture", "many ops"):
        fn, args = graphs()[name]
        if name == "picture":
            fn = fn.eval()
        file = io.BytesIO()
        torch.onnx.export(fn, args, file)
        found[name] = file.getvalue()
    return found


def libraries(folder: Path) -> dict[str, bytes]:
    """Weights of a library of C, which lies in the folder."""
    from wend import aot

    fn, args = graphs()["tagger"]
    made = aot.compile(fn, args, directory=folder)
    return {"tagger": made.weights.read_bytes()}


KINDS: dict[str, Callable[[Path], dict[str, bytes]]] = {
    "export": lambda folder: exported(),
    "session": lambda folder: sessions(),
    "jit": lambda folder: scripted(),
    "onnx": lambda folder: models(),
    "aot": libraries,
}


def arguments(kind: str, name: str) -> tuple[Any, ...]:
    """Arguments for a program of a file."""
    return graphs()["tagger" if name == "named dims" else name][1]


def make(folder: Path, kinds: list[str]) -> None:
    """Write the valid files of some kinds into a folder, as a table of bytes."""
    table = {kind: KINDS[kind](folder) for kind in kinds}
    (folder / "valid.pickle").write_bytes(pickle.dumps(table))


if __name__ == "__main__":
    import sys

    make(Path(sys.argv[1]), sys.argv[2:])
