"""Modules with control flow, containers, texts, classes: the language of TorchScript."""
# ruff: noqa: E501, C416, SIM118, UP045, UP031, B007, B028 (programs as users write them)

import enum
import math
import warnings
from typing import Final, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.names = {"a": 1, "b": 2}
        self.scales = [1.5, 2.0]

    def forward(self, x, n: int = 3):
        y = self.linear(x)
        for i in range(n):
            if y.sum() > 0:
                y = y * 1.5 - float(i)
            else:
                y = y + 1
        while y.max() < 10:
            y = y.abs() * 2 + 1
        text = f"{n}-{1.0}-{y.shape}"
        keys = [k for k in self.names.keys()]
        total = 0.0
        for s in self.scales:
            total += s
        return y, text, keys, total, y.shape[0] // 2, 7 % n, -7 // 2, 2**n, len(keys)


class Writes(nn.Module):
    def forward(self, x):
        z = x.clone()
        z[0, 0] = 3
        z[1:, ::2] += 1
        z[:, -1] *= 2
        z[z > 2] = 0.5
        z.add_(1).mul_(2.0)
        w = torch.zeros_like(z)
        w[..., 1:] = z[..., :-1]
        index = torch.tensor([0, 1])
        w[index, index] = 9.0
        return z, w, z[None, 0], z[index], w[:, index], z[-1]


class Counter(nn.Module):
    count: int

    def __init__(self):
        super().__init__()
        self.count = 0
        self.register_buffer("total", torch.zeros(3))
        self.last = torch.jit.Attribute(None, Optional[Tensor])

    def forward(self, x):
        self.count += 1
        self.total += x.sum(0)
        self.last = x * 2
        return self.total * self.count

    @torch.jit.export
    def reset(self, value: float = 0.0) -> int:
        self.total.fill_(value)
        before = self.count
        self.count = 0
        return before

    @torch.jit.export
    def latest(self) -> Tensor:
        last = self.last
        if last is None:
            return torch.zeros(1)
        return last


class Point(NamedTuple):
    x: Tensor
    y: int
    label: str = "p"


class Tuples(nn.Module):
    def forward(self, x, state: tuple[Tensor, Tensor] | None = None):
        if state is None:
            h, c = torch.zeros_like(x), torch.ones_like(x)
        else:
            h, c = state
        point = Point(h + x, 3)
        return point, (h, (c, point.y)), point.x + point.y


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Enums(nn.Module):
    def __init__(self):
        super().__init__()
        self.color = Color.BLUE

    def forward(self, x):
        if self.color == Color.RED:
            x = x + 1
        return x * self.color.value, self.color.name


@torch.jit.script
class Box:
    def __init__(self, x: Tensor, n: int):
        self.x = x
        self.n = n

    def grown(self, by: int) -> Tensor:
        self.n += by
        return self.x * self.n


class Objects(nn.Module):
    def forward(self, x):
        box = Box(x, 2)
        y = box.grown(3)
        return y + box.n


class Dicts(nn.Module):
    def forward(self, inputs: dict[str, Tensor], order: list[str]) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        for name in order:
            if name in inputs:
                out[name] = inputs[name] + 1
        for name, value in inputs.items():
            if name not in out:
                out[name + "!"] = value
        for i, name in enumerate(order):
            if len(name) > 1:
                out[name.upper()] = torch.tensor(float(i))
        out.pop(order[0])
        return out


class Lists(nn.Module):
    def forward(self, x):
        rows: list[Tensor] = []
        for i in range(x.size(0)):
            rows.append(x[i] * i)
        rows.insert(0, x[0])
        rows.reverse()
        numbers = [3, 1, 2]
        numbers.sort()
        numbers.extend([7, 8])
        squares = [n * n for n in numbers]
        pairs = [(a, b) for a, b in zip(numbers, squares)]
        last = numbers.pop()
        return (
            torch.stack(rows),
            numbers,
            squares[1:3],
            pairs[-1],
            last,
            max(numbers),
            sorted([2.5, 1.5]),
            [1, 2] + [3],
            [0] * 3,
        )


class Raises(nn.Module):
    def forward(self, x, n: int):
        if n > 2:
            raise ValueError(f"n is {n}")
        assert n >= 0, "negative"
        return x + n


class NoGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, x):
        with torch.no_grad():
            scale = (x * self.weight).abs().max()
        return x * self.weight / scale


class Items(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.named = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU()})
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(4)) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x)) + x
        for name, part in self.named.items():
            x = part(x)
        return x


class Unions(nn.Module):
    def forward(self, x: int | Tensor | list[int]) -> Tensor:
        if isinstance(x, int):
            return torch.full([2], x)
        elif isinstance(x, Tensor):
            return x * 2
        else:
            return torch.tensor(x)


class Helper(nn.Module):
    def forward(self, x, eps: float = 1e-5):
        return helper(x, eps) + helper(x, eps=2.0, bias=x)


def helper(x, eps: float, bias: Tensor | None = None):
    y = x / (x.norm(2, dim=-1, keepdim=True) + eps)
    return y if bias is None else y + bias


class Shapes(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        y = x.view(b, c, -1).permute(0, 2, 1).contiguous()
        y = y.reshape(b * h, w, c).transpose(1, 2).flatten(1)
        z = F.pad(x, [1, 1], "constant", 0.5).unsqueeze(-1).expand(-1, -1, -1, -1, 2)
        a, d = x.chunk(2, 1)
        q, k = torch.split(x, [1, c - 1], dim=1)
        return (
            y,
            z,
            torch.cat([d, a], 1),
            q.repeat(1, 2, 1, 1),
            k.mean((2, 3)),
            x.roll(1, 2).flip([3]),
        )


class Reductions(nn.Module):
    def forward(self, x):
        value, place = x.max(1)
        top, where = x.topk(2, dim=-1)
        ordered, order = x.sort(dim=1, descending=True)
        return (
            value, place, top, where, ordered, order, x.argmax(1), x.std(), x.var(1, unbiased=False),
            x.prod(0), x.cumsum(1), x.norm(), x.logsumexp(1), x.any(), x.isnan().sum(), x.median(),
            torch.where(x > 0, x, -x), x.clamp(-1, 1), x.clamp(min=0.0), torch.amax(x, 1), x.gt(0).all(1),
            x.masked_fill(x > 0, 1.0), x.gather(1, place[:, None]), x.to(torch.float64), x.int().float(),
            torch.einsum("ij,kj->ik", x, x), x @ x.T, torch.outer(x[0], x[1]), x.round().long(), x.type_as(place),
        )  # fmt: skip


class Makes(nn.Module):
    def forward(self, x):
        n = x.size(1)
        positions = torch.arange(n, device=x.device)
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        scores = (x.transpose(0, 1) @ x).masked_fill(~mask, float("-inf")).softmax(-1)
        more = torch.zeros(2, n, dtype=x.dtype) + torch.full((2, n), 1.5)
        grid = torch.meshgrid(positions, positions, indexing="ij")[0]
        return (
            positions,
            scores,
            more,
            grid,
            torch.linspace(0, 1, n),
            x.new_zeros(3),
            torch.eye(n),
            torch.arange(0, 6, 2),
            torch.tensor([[1, 2], [3, 4]]),
            torch.empty(0).numel(),
        )


class Positions(nn.Module):
    """Sinusoidal positions, attention by hand, a causal mask."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.norm = nn.LayerNorm(8)
        self.register_buffer("table", torch.randn(16, 8))
        self.heads: Final[int] = 2

    def forward(self, x):
        b, n, d = x.size()
        x = x + self.table[:n]
        q = self.q(x).view(b, n, self.heads, -1).transpose(1, 2)
        k = self.k(x).view(b, n, self.heads, -1).transpose(1, 2)
        v = self.v(x).view(b, n, self.heads, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.norm(x + y.transpose(1, 2).reshape(b, n, d))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x
        return self.relu(y)


class Vision(nn.Module):
    """A small residual net with squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU())
        self.blocks = nn.Sequential(Residual(8), Residual(8))
        self.squeeze, self.excite = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        x = x * torch.sigmoid(self.excite(F.relu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)).log_softmax(-1)


class Speller(nn.Module):
    """A decoder that stops by value, with an LSTM cell and an embedding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.cell = nn.LSTMCell(4, 8)
        self.out = nn.Linear(8, 6)

    def forward(self, start: int, limit: int):
        h, c = torch.zeros(1, 8), torch.zeros(1, 8)
        token = torch.tensor([start])
        said: list[int] = []
        while len(said) < limit:
            h, c = self.cell(self.embed(token), (h, c))
            token = self.out(h).argmax(-1)
            said.append(int(token.item()))
            if said[-1] == 5:
                break
        return said, h


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 3, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=True
        )
        out, _ = self.lstm(packed)
        y, n = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        return y, n


class Spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, x):
        s = torch.stft(x, 16, 8, window=self.window, return_complex=True)
        y = torch.istft(s, 16, 8, window=self.window)
        return s.abs().pow(2), torch.view_as_real(s), y, torch.fft.rfft(x).real, x.unfold(-1, 4, 2)


class WeightNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.utils.weight_norm(nn.Conv1d(3, 4, 3))

    def forward(self, x):
        return self.conv(x)


class Forks(nn.Module):
    def forward(self, x):
        futures = [torch.jit.fork(helper, x, 0.5) for _ in range(2)]
        return [torch.jit.wait(f) for f in futures]


class Texts(nn.Module):
    def forward(self, s: str):
        words = s.split(" ")
        return (
            [w.strip().lower() for w in words],
            "-".join(words),
            s.startswith("A"),
            s.find("b"),
            s[1:3],
            "%d of %s" % (3, s),
            s.replace("a", "A"),
            ord(s[0]),
            str(1.5),
            str([1, 2]),
        )


class Maths(nn.Module):
    def forward(self, x: float, n: int):
        return (
            math.sqrt(x),
            math.floor(x),
            math.ceil(x),
            round(x),
            abs(-x),
            x**0.5,
            n // 2,
            n % 3,
            n / 2,
            int(x),
            float(n),
            bool(n),
            min(x, 1.0),
            math.pi,
            math.inf,
            n & 3,
            n | 8,
            n << 1,
            divmod(n, 3),
            math.log(x),
            math.exp(1.0),
            not n,
            n == 5 and x > 0,
        )


class Defaults(nn.Module):
    def forward(
        self, x, scale: float = 2.0, shift: Tensor | None = None, axes: tuple[int, int] = (0, 1)
    ):
        y = x * scale
        if shift is not None:
            y = y + shift
        return y.sum(axes)


class Warns(nn.Module):
    def forward(self, x, index: int):
        warnings.warn("careful")
        y = x[index]
        return y * x.size(0) + int(x.sum()) * float(x[0, 0])


class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


class Unused(nn.Module):
    def forward(self, x):
        if torch.jit.is_scripting():
            return x * 2
        return self.python_only(x)

    @torch.jit.unused
    def python_only(self, x):
        return x * 3


r = torch.randn
#: By name: a module, arguments, and whether tracing suits it; None: tracing alone does.
PROGRAMS = {
    "branches": lambda: (Branches(), (r(2, 4),), False),
    "branches_2": lambda: (Branches(), (r(2, 4), 2), False),
    "writes": lambda: (Writes(), (r(3, 4),), False),
    "tuples": lambda: (Tuples(), (r(2, 3),), False),
    "tuples_state": lambda: (Tuples(), (r(2, 3), (r(2, 3), r(2, 3))), False),
    "enums": lambda: (Enums(), (r(2),), False),
    "objects": lambda: (Objects(), (r(2),), False),
    "dicts": lambda: (Dicts(), ({"a": r(2), "b": r(1)}, ["a", "cc"]), False),
    "lists": lambda: (Lists(), (r(3, 2),), False),
    "raises": lambda: (Raises(), (r(2), 1), False),
    "no_grad": lambda: (NoGrad(), (r(2, 3),), True),
    "items": lambda: (Items(), (r(2, 4),), True),
    "unions_int": lambda: (Unions(), (3,), False),
    "unions_list": lambda: (Unions(), ([1, 2],), False),
    "unions_tensor": lambda: (Unions(), (r(2),), False),
    "helper": lambda: (Helper(), (r(2, 3),), True),
    "shapes": lambda: (Shapes(), (r(2, 4, 3, 2),), True),
    "reductions": lambda: (Reductions(), (r(3, 4),), True),
    "makes": lambda: (Makes(), (r(4, 4),), False),
    "positions": lambda: (Positions(), (r(2, 5, 8),), True),
    "vision": lambda: (Vision(), (r(2, 3, 8, 8),), True),
    "speller": lambda: (Speller(), (2, 7), False),
    "packed": lambda: (Packed(), (r(3, 5, 4), torch.tensor([5, 3, 2])), False),
    "spectrum": lambda: (Spectrum(), (r(2, 64),), True),
    "weight_norm": lambda: (WeightNorm(), (r(2, 3, 6),), None),
    "forks": lambda: (Forks(), (r(2, 3),), False),
    "texts": lambda: (Texts(), ("Abab c ",), False),
    "maths": lambda: (Maths(), (2.5, 5), False),
    "defaults": lambda: (Defaults(), (r(2, 3),), False),
    "defaults_more": lambda: (Defaults(), (r(2, 3), 1.0, r(2, 3), (1, 0)), False),
    "warns": lambda: (Warns(), (r(2, 3), 1), False),
    "rnn": lambda: (Wrapped(nn.RNN(4, 3, 2)), (r(5, 2, 4),), True),
    "lstm": lambda: (Wrapped(nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True)), (r(2, 5, 4),), True),
    "gru": lambda: (Wrapped(nn.GRU(4, 3)), (r(5, 2, 4),), True),
    "unused": lambda: (Unused(), (r(2),), False),
}  # fmt: skip
