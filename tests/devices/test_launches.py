"""How many launches and waits a step takes on an accelerator: counts, not times."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend import nn
from wend._engine.compiler.parallel import wavefronts
from wend._engine.runtime.devices import queue
from wend._engine.runtime.parts import parts
from wend.nn import functional as F

#: Steps until a path's machine code is there.
WARM_UP = 4


def counted(step, accelerator):
    """(launches, waits) of a step, when its path is known."""
    device = queue.accelerator_at(accelerator)
    for _ in range(WARM_UP):
        step()
    before = device.launches, device.waits
    step()
    return device.launches - before[0], device.waits - before[1]


class Block(nn.Module):
    """Attention to what came before, and two linear layers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        n, t, width = x.shape
        q, k, v = (
            part.view(n, t, self.heads, width // self.heads).transpose(1, 2)
            for part in self.mix(self.norm1(x)).split(width, dim=2)
        )
        scores = (q @ k.transpose(2, 3) * width**-0.5).masked_fill(mask, float("-inf"))
        mixed = (torch.softmax(scores, dim=3) @ v).transpose(1, 2).reshape(n, t, width)
        x = x + self.project(mixed)
        return x + self.narrow(F.gelu(self.widen(self.norm2(x))))


class Net(nn.Module):
    """A transformer over characters: (n, t) -> (n, t, characters)."""

    def __init__(self, characters=11, width=16, heads=2, layers=2, length=8):
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.position = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, characters)
        self.register_buffer("future", torch.ones(length, length, dtype=torch.bool).triu(1))

    def forward(self, x):
        h = self.embedding(x) + self.position
        for block in self.blocks:
            h = block(h, self.future)
        return self.output(self.norm(h))


def training(place):
    """A function that does a step of a small transformer; the model."""
    torch.manual_seed(3)
    model = Net().to(place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)
    x, y = (torch.from_numpy(rng.integers(0, 11, (3, 8))).to(place) for _ in range(2))

    def step(x=x):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, model


@pytest.fixture
def no_parts(monkeypatch):
    """A path that comes back gets a plan of its own at once."""
    monkeypatch.setattr(parts, "TRANSLATING", 0.0)


@pytest.mark.usefixtures("no_parts")
def test_a_step_of_a_transformer(accelerator):
    """Per layer 6 launches forward, and fewer than 20 backward; 1 for all updates; 1 wait."""
    with own_trie():
        step, model = training(accelerator)
        launches, waits = counted(step, accelerator)
        losses = [step() for _ in range(2)]
    with own_trie():
        same, _ = training("cpu")
        expected = [same() for _ in range(WARM_UP + 3)][-2:]
    assert launches <= 70
    assert waits == 1
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert all(p.device == torch.device(accelerator) for p in model.parameters())


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.SGD], ids=lambda c: c.__name__)
def test_updates_of_many_parameters(make, accelerator):
    """Updates of parameters of all shapes are a single launch, with the bits of one each."""

    def trained(place):
        rng = np.random.default_rng(1)
        shapes = [(k % 5 + 1, 3 * k + 1) for k in range(24)] + [(k,) for k in range(1, 9)]
        parameters = [
            nn.Parameter(torch.from_numpy(rng.normal(size=s)).float().to(place)) for s in shapes
        ]
        for p in parameters:
            p.grad = torch.from_numpy(rng.normal(size=tuple(p.shape))).float().to(place)
        optimizer = make(parameters, lr=1e-2)
        return optimizer.step, parameters

    with own_trie():
        step, parameters = trained(accelerator)
        assert counted(step, accelerator) == (1, 1)
        together = [p.detach().cpu().numpy() for p in parameters]
    with own_trie(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(wavefronts, "_mark", lambda kernel, s, function: (kernel, s))
        step, parameters = trained(accelerator)
        assert counted(step, accelerator) == (len(parameters), 1)
        for p, array in zip(parameters, together, strict=True):
            np.testing.assert_array_equal(p.detach().cpu().numpy(), array)


def test_the_ops_behind_a_product(accelerator):
    """Bias, activation and residual are done by the kernel of the product."""
    rng = np.random.default_rng(2)
    x, weight, bias = (
        torch.from_numpy(rng.normal(size=shape)).float().to(accelerator)
        for shape in ((70, 20), (20, 20), (20,))
    )
    made = []

    def step():
        h = F.linear(x, weight)
        made[:] = [h + F.gelu(F.linear(h, weight, bias)) * 0.5]
        torch.synchronize()

    with own_trie():
        assert counted(step, accelerator) == (2, 1)
    x, weight, bias, result = x.cpu(), weight.cpu(), bias.cpu(), made[0].cpu().numpy()
    step()
    np.testing.assert_allclose(result, made[0].numpy(), rtol=1e-4, atol=1e-5)


def test_the_ops_behind_a_convolution(accelerator):
    """Bias and activation are done by the kernel of a convolution in groups."""
    rng = np.random.default_rng(2)
    x, weight, bias = (
        torch.from_numpy(rng.normal(size=shape)).float().to(accelerator)
        for shape in ((2, 4, 9, 7), (6, 2, 3, 3), (6,))
    )
    made = []

    def step():
        made[:] = [torch.relu(F.conv2d(x, weight, bias, padding=1, groups=2))]
        torch.synchronize()

    with own_trie():
        assert counted(step, accelerator) == (1, 1)
    expected = torch.relu(F.conv2d(x.cpu(), weight.cpu(), bias.cpu(), padding=1, groups=2))
    np.testing.assert_allclose(made[0].cpu().numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_a_sum_over_rows_beside_its_operands(accelerator):
    """Sums over rows take a launch for the parts, and one that adds these up."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(300, 70))).to(accelerator)
    made = []

    def step():
        made[:] = [(x * x).sum(0)]
        torch.synchronize()

    with own_trie():
        assert counted(step, accelerator) == (2, 1)
    np.testing.assert_allclose(made[0].cpu().numpy(), (x.cpu().numpy() ** 2).sum(0), rtol=1e-12)


@pytest.mark.usefixtures("no_parts")
def test_a_failure_before_updates_that_were_not_waited_for(accelerator):
    """An index out of range leaves parameters and states as they were, and training goes on."""
    with own_trie():
        step, model = training(accelerator)
        for _ in range(WARM_UP):
            step()
        before = [p.detach().cpu().numpy().copy() for p in model.parameters()]
        wrong = torch.full((3, 8), 11, device=accelerator)
        with pytest.raises(IndexError):
            step(wrong)
        for p, array in zip(model.parameters(), before, strict=True):
            np.testing.assert_array_equal(p.detach().cpu().numpy(), array)
        loss = step()
        assert np.isfinite(loss)
        assert counted(step, accelerator)[1] == 1
