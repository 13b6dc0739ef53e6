"""torch.jit.script saves a program before any call: the source, with types as PyTorch infers."""

import io
import math
from typing import NamedTuple

import numpy as np
import pytest

import wend as torch
import wend.nn.functional as F
from wend import Tensor, nn


def again(program):
    """A scripted program from its file."""
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(program), buffer)
    return torch.jit.load(buffer)


def same(a, b):
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, Tensor):
        assert a.dtype is b.dtype
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
    else:
        assert a == b


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.activation = F.gelu
        self.scale = 0.5

    def forward(self, x, mask: Tensor | None = None):
        """A residual block."""
        y = self.activation(self.linear(x)) * self.scale
        if mask is not None:
            y = y.masked_fill(mask, 0.0)
        return self.norm(x + y)


class Model(nn.Module):
    """Loops, branches, lists and parts."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(4) for _ in range(3)])
        self.head = nn.Sequential(nn.Linear(4, 3), nn.ReLU(inplace=True), nn.Dropout(0.1))
        self.register_buffer("calls", torch.zeros(1))
        self.weight = nn.Parameter(torch.ones(4))
        self.limit = 8.0

    def forward(self, x, turns: int = 2, names: list[str] | None = None):
        self.calls += 1
        for i, block in enumerate(self.blocks):
            if i > turns:
                break
            x = block(x)
        while x.abs().max() < self.limit:
            x = x * 2 + 0.5
        for row in x:
            if row.sum() > 1e6:
                return self.head(x), "early"
        text = f"{turns:02d}" + ("" if names is None else "-".join(names))
        return self.head(x * self.weight), text

    @torch.jit.export
    def embed(self, x, axis: int):
        return helper(x, axis=axis) * self.limit


def helper(x, axis: int, eps: float = 1e-6):
    return x / (x.norm(2, dim=axis, keepdim=True) + eps)


def test_a_module_is_saved_before_any_call_with_all_sizes_free():
    model = Model().eval()
    loaded = again(model)
    for rows in (1, 2, 7):
        x = torch.randn(rows, 4)
        same(loaded(x), model(x))
        same(loaded(x, 0, names=["a", "b"]), model(x, 0, names=["a", "b"]))
        same(loaded(x * 1e7), model(x * 1e7))
        same(loaded.embed(x, 1), model.embed(x, 1))
    assert list(loaded.state_dict()) == list(model.state_dict())
    assert loaded.calls.item() == model.calls.item()
    assert loaded.limit == 8.0
    assert isinstance(loaded.blocks[0].linear, nn.Linear)
    assert loaded.original_name == "Model"
    same(again(model)(torch.ones(2, 4), mask := 1), model(torch.ones(2, 4), mask))


def test_what_was_loaded_trains_and_is_saved_again():
    torch.manual_seed(0)
    loaded = again(Model().train())
    loaded.head[2].p = 0.0
    optimizer = torch.optim.SGD(loaded.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = loaded(torch.ones(3, 4))[0].square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    buffer = io.BytesIO()
    loaded.eval()
    loaded.save(buffer)
    twice = torch.jit.load(buffer)
    same(twice(torch.ones(3, 4)), loaded(torch.ones(3, 4)))
    assert not twice.training


def test_functions_and_layers_are_programs_too(tmp_path):
    def clipped(x, low: float = -math.inf, high: float | None = None):
        if x.min() < low:
            x = x.clamp(min=low)
        return x if high is None else torch.clamp(x, max=high)

    scripted = torch.jit.script(clipped)
    assert "low: float=float('-inf')" in scripted.code
    scripted.save(tmp_path / "f.pt", _extra_files={"note": "hi"})
    extra = {"note": ""}
    loaded = torch.jit.load(tmp_path / "f.pt", _extra_files=extra)
    assert extra == {"note": b"hi"}
    x = torch.tensor([-2.0, 5.0])
    for args in ((x,), (x, 0.0), (x, 0.0, 1.0)):
        same(loaded(*args), clipped(*args))
    with pytest.raises(TypeError, match="low must be float, not str"):
        loaded(x, "a")
    for layer, shape in (
        (nn.LSTM(4, 3, batch_first=True), (2, 5, 4)),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten()), (2, 1, 4, 4)),
        (nn.TransformerEncoderLayer(4, 2, 8), (3, 2, 4)),
    ):
        x = torch.randn(shape)
        same(again(layer.eval())(x), layer(x))


class Point(NamedTuple):
    x: Tensor
    n: int = 3


class Types(nn.Module):
    def forward(
        self,
        x,
        n: int,
        f: float,
        b: bool,
        s: str,
        items: list[Tensor],
        table: dict[str, int],
        pair: tuple[Tensor, int],
        either: int | Tensor,
        rest: "list[int] | None" = None,
    ):
        y, k = pair
        point = Point(y, n=k)
        total = sum([v + 0 for v in table.values()]) + len(items)
        if isinstance(either, int):
            total += either
        elif isinstance(either, Tensor):
            total += int(either.sum())
        doubled = {name: value * 2 for name, value in table.items() if value > 0}
        if (not b and s in ("a", "b")) or rest is None:
            total -= 1
        return x * f + point.x * point.n, total, doubled, n // 2, -n % 3, s.upper(), x[..., -1:], b


def test_annotations_are_honoured():
    model = Types()
    loaded = again(model)
    x = torch.randn(2, 3)
    args = [x, 3, 0.5, True, "a", [x, x], {"k": 2, "m": -1}, (x, 4), 2]
    same(loaded(*args), model(*args))
    same(loaded(*args[:-1], x, rest=[1]), model(*args[:-1], x, rest=[1]))
    same(loaded(x, 3, 1, *args[3:]), model(x, 3, 1.0, *args[3:]))  # an int for a float
    for place, wrong, words in (
        (0, 1, "x must be Tensor, not int"),
        (1, 1.5, "n must be int, not float"),
        (3, 1, "b must be bool, not int"),
        (5, [1], "items: an item must be Tensor"),
        (6, {1: 2}, "table must be Dict"),
        (7, (x, "a"), "pair: an item must be int"),
    ):
        with pytest.raises(TypeError, match=words):
            loaded(*args[:place], wrong, *args[place + 1 :])


def refused(body, words):
    """Fail unless a module with this method is refused, with the line of the fault."""
    with pytest.raises(RuntimeError, match=words) as caught:
        again(body())
    assert "test_jit_programs.py:" in str(caught.value)
    return str(caught.value)


OUTSIDE = torch.ones(2)


class WithLambda(nn.Module):
    def forward(self, x):
        return (lambda y: y)(x)


class WithTry(nn.Module):
    def forward(self, x):
        try:
            return x + 1
        except ValueError:
            return x


class WithTensor(nn.Module):
    def forward(self, x):
        return x + OUTSIDE


class WithOpen(nn.Module):
    def forward(self, x):
        open("x")  # noqa: SIM115
        return x


class WithNumPy(nn.Module):
    def forward(self, x):
        return x * float(np.abs(3.0))


class WithMethod(nn.Module):
    def forward(self, x):
        return x + self.missing


class WithStars(nn.Module):
    def forward(self, *x):
        return x[0]


class WithType(nn.Module):
    def forward(self, x: np.ndarray):
        return x


class WithSuper(WithTensor):
    def forward(self, x):
        return super().forward(x)


class WithFresh(nn.Module):
    def forward(self, x):
        self.fresh = x
        return x


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (WithLambda, "a lambda is not part of a program"),
        (WithTry, "try is not part of a program"),
        (WithTensor, "'OUTSIDE' is a tensor outside of the module"),
        (WithOpen, "'open' is no function of a program"),
        (WithNumPy, r"'np\.abs' is no function of a program"),
        (WithMethod, "the module has no attribute 'missing'"),
        (WithStars, "a function with \\* or \\*\\* in the signature"),
        (WithType, "the type of the argument 'x' is not supported"),
        (WithSuper, r"super\(\) is not part of a program"),
        (WithFresh, "the attribute 'fresh' is not set before the call"),
    ],
)
def test_what_has_no_place_in_a_file_is_refused_at_the_users_line(body, words):
    text = refused(body, words)
    assert f"{body.__name__}.forward" in text
    assert "call the module once before it is saved" in text


def test_hooks_and_odd_attributes_are_refused():
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].register_forward_hook(lambda *a: None)
    with pytest.raises(RuntimeError, match="Linear has hooks"):
        again(model)
    layer = nn.Linear(2, 2)
    layer.odd = object()
    with pytest.raises(RuntimeError, match="the attribute 'odd' of Linear is a object"):
        again(layer)


def test_the_part_of_a_script_is_saved():
    class Both(nn.Module):
        def forward(self, x):
            if torch.jit.is_scripting():
                return x * 2
            return np.array(x)

    same(again(Both())(torch.ones(2)), torch.full((2,), 2.0))


def test_after_a_call_the_graph_is_saved():
    scripted = torch.jit.script(Block(4))
    assert "class Block(Module)" in scripted.code
    with pytest.raises(RuntimeError, match="call the scripted module once"):
        scripted.graph  # noqa: B018
    scripted(torch.randn(2, 4))
    assert "class Block(Module)" not in scripted.code
    buffer = io.BytesIO()
    scripted.save(buffer)
    same(torch.jit.load(buffer)(torch.ones(3, 4)), scripted(torch.ones(3, 4)))


def content_of(program):
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(program), buffer)
    buffer.seek(0)
    return torch.load(buffer)


def load_changed(content):
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return torch.jit.load(buffer)


@pytest.mark.parametrize(
    "line",
    [
        "return __import__('os')",
        "return open('x')",
        "return ops.os.system('true')",
        "return ops.torch.load('x')",
        "return ops.functional._private(x)",
        "return x.__class__",
        "return x.numpy()",
        "return self.__class__",
        "return self.state_dict()",
        "return '{0.__class__}'.format(x)",
        "return f'{x:{9999999}}'",
        "return '%99999999d' % 1",
        "return self.linear.__dict__",
        "return self.linear.register_forward_hook(x)",
        "self.linear._forward_hooks = x",
        "import os",
        "return (lambda: x)()",
        "return eval('1')",
        "return [].__len__()",
        "with open('x'):\n          pass",
        "return " + "(" * 90 + "x" + ")" * 90,
        "return " + "+".join(["1"] * 5000),
    ],
)
def test_hostile_programs_reach_nothing_of_python(line):
    content = content_of(Block(4))
    name = next(n for n, text in content["code"].items() if "class Block" in text)
    head = content["code"][name].partition("  def forward")[0]
    content["code"][name] = head + f"  def forward(self, x: Tensor):\n      {line}\n"
    with pytest.raises(torch.errors.WendError):
        load_changed(content)(torch.ones(1, 4))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["modules"][1].update(kind="nn.modules.os.system"), "asks for the layer"),
        (lambda c: c["modules"][1].update(kind="nn.Module.__init__"), "asks for the layer"),
        (lambda c: c["modules"][1].update(kind="nn.functional"), "asks for the layer"),
        (lambda c: c["modules"][1]["values"].update(forward=1), "sets 'forward'"),
        (lambda c: c["modules"][1]["values"].update(__class__=1), "sets '__class__'"),
        (lambda c: c["modules"][1]["values"].update(_modules={}), "sets '_modules'"),
        (lambda c: c["modules"][1]["functions"].update(a="ops.os.system"), "asks for the function"),
        (lambda c: c["modules"][0]["parts"].update(linear=99), "is not there"),
        (lambda c: c["modules"][1]["parameters"].update(weight=3), "a parameter of the file"),
        (lambda c: c["modules"][1].update(training=3), "'training'"),
        (lambda c: c.update(modules=[]), "no modules"),
        (lambda c: c.update(code=3), "no program"),
        (lambda c: c.pop("wend_program"), "use torch.load"),
    ],
)
def test_hostile_states_are_refused(change, words):
    content = content_of(Block(4))
    change(content)
    with pytest.raises(torch.errors.FormatError, match=words):
        load_changed(content)
