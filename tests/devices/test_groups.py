"""Programs of ever new structure on a device: groups and fibers run there, as on the CPU."""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import wend
from wend import nn
from wend._engine.runtime.batching.signatures import book_at
from wend._engine.runtime.devices import moves
from wend._engine.runtime.devices.queue import accelerator_at
from wend._engine.runtime.numpy_executor.plan import ReferencePlan
from wend.nn import functional as F

pytestmark = pytest.mark.usefixtures("accelerator")

STEPS, WORDS, CLASSES = 8, 20, 3


class TreeLSTM(nn.Module):
    """A tree is a word, or a pair of trees."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, 6)
        self.leaf, self.inner = nn.Linear(6, 3 * 7), nn.Linear(2 * 7, 5 * 7)
        self.out = nn.Linear(7, CLASSES)

    def state(self, tree):
        if not isinstance(tree, tuple):
            i, o, u = self.leaf(self.table(tree)).chunk(3, 1)
            c = wend.sigmoid(i) * wend.tanh(u)
        else:
            (h1, c1), (h2, c2) = map(self.state, tree)
            i, o, u, f1, f2 = self.inner(wend.cat([h1, h2], 1)).chunk(5, 1)
            c = wend.sigmoid(i) * wend.tanh(u) + wend.sigmoid(f1) * c1 + wend.sigmoid(f2) * c2
        return wend.sigmoid(o) * wend.tanh(c), c

    def forward(self, tree):
        return self.out(self.state(tree)[0])


class Tagger(nn.Module):
    """Reads sentences word by word, from both ends."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, 6)
        self.left, self.right = nn.GRUCell(6, 7), nn.LSTMCell(6, 7)
        self.out = nn.Linear(14, CLASSES)

    def forward(self, sentence):
        words = self.table(sentence).unsqueeze(1)
        h = state = None
        for k in range(len(sentence)):
            h = self.left(words[k], h)
            state = self.right(words[len(sentence) - 1 - k], state)
        return self.out(wend.cat([h, state[0]], 1))


class Experts(nn.Module):
    """The net for an example depends on the example's values."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.experts = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x):
        h = wend.tanh(self.first(x))
        for _ in range(3):
            h = h + wend.relu(self.experts[int(10 * h.sum().abs().item()) % 3](h))
        return self.out(h)


def random_tree(rng, n, place):
    if n == 1:
        return wend.tensor([rng.randrange(WORDS)], device=place)
    k = rng.randrange(1, n)
    return random_tree(rng, k, place), random_tree(rng, n - k, place)


def sentence(rng, n, place):
    return wend.tensor([rng.randrange(WORDS) for _ in range(n)], device=place)


def example(rng, n, place):
    return wend.tensor([[rng.gauss(0, 1) for _ in range(5)]], device=place)


def each(model, inputs):
    return [model(x) for x in inputs]


def in_fibers(model, inputs):
    return wend.batched(model)(inputs)


NETS = {
    "trees": (TreeLSTM, random_tree, each),
    "trees in fibers": (TreeLSTM, random_tree, in_fibers),
    "ragged": (Tagger, sentence, each),
    "ragged in fibers": (Tagger, sentence, in_fibers),
    "experts in fibers": (Experts, example, in_fibers),
}


def steps(net, place, count, batch=12):
    """Train a net; yields the loss and the model after each step."""
    kind, draw, run = NETS[net]
    wend.manual_seed(3)
    rng = random.Random(5)
    model = kind().to(place)
    optimizer = wend.optim.Adam(model.parameters(), 0.01, eps=1e-3)
    for _ in range(count):
        inputs = [draw(rng, rng.randrange(2, 9), place) for _ in range(batch)]
        target = wend.tensor([rng.randrange(CLASSES) for _ in range(batch)], device=place)
        loss = F.cross_entropy(wend.cat(run(model, inputs)), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item(), model


@pytest.mark.parametrize("net", NETS)
def test_training_is_that_of_the_cpu(net, accelerator):
    losses, models = zip(*steps(net, accelerator, STEPS), strict=True)
    expected_losses, expected = zip(*steps(net, "cpu", STEPS), strict=True)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    model, known = models[-1], expected[-1]
    for (name, p), q in zip(model.named_parameters(), known.parameters(), strict=True):
        assert p.device.type == accelerator.type
        np.testing.assert_allclose(p.detach().cpu(), q.detach(), rtol=1e-4, atol=1e-5, err_msg=name)


def test_threads_share_a_device(accelerator):
    """Each thread gets its own results and its own errors."""
    wend.manual_seed(3)
    start = TreeLSTM().state_dict()
    errors = []

    def train(seed, fails=False):
        rng, model = random.Random(seed), TreeLSTM().to(accelerator)
        model.load_state_dict(start)
        optimizer = wend.optim.SGD(model.parameters(), 0.1)
        target = wend.zeros(6, dtype=wend.int64, device=accelerator)
        losses = []
        for _ in range(STEPS):
            inputs = [random_tree(rng, rng.randrange(2, 9), accelerator) for _ in range(6)]
            try:
                if fails:
                    bad = wend.tensor([WORDS + 1], device=accelerator)
                    wend.cat(each(model, [*inputs, (bad, bad)])).sum().item()
            except IndexError as error:
                errors.append(error)
            loss = F.cross_entropy(wend.cat(each(model, inputs)), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    expected = [train(seed) for seed in (7, 8)]
    with ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(train, seed, fails) for seed, fails in ((7, False), (8, True))]
        found = [task.result() for task in tasks]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert len(errors) == STEPS


@pytest.mark.parametrize("net", ["trees", "ragged"])
def test_known_groups_need_no_host_and_few_waits(net, accelerator, monkeypatch):
    ran = []
    compute = ReferencePlan.compute
    monkeypatch.setattr(
        ReferencePlan, "compute", lambda plan, *args: ran.append(plan) or compute(plan, *args)
    )
    book_at(accelerator).pause = 0  # other tests may have brought structure that does not repeat
    device, counts = accelerator_at(accelerator), []
    for _ in steps(net, accelerator, 16, batch=24):
        counts.append((device.waits, len(device._libraries), len(ran)))
    (waits, modules, hosts), (last, modules_last, hosts_last) = counts[9], counts[-1]
    assert hosts_last == hosts
    assert modules_last - modules <= 2  # a form of groups may come late
    assert (last - waits) / 6 <= 24


def test_inference_by_groups(accelerator):
    wend.manual_seed(3)
    model = TreeLSTM().eval()
    rng = random.Random(1)
    trees = [random_tree(rng, rng.randrange(2, 12), "cpu") for _ in range(40)]
    with wend.no_grad():
        want = wend.cat(each(model, trees)).numpy()
        model.to(accelerator)
        moved = [on(tree, accelerator) for tree in trees]
        for _ in range(2):
            np.testing.assert_allclose(
                wend.cat(each(model, moved)).cpu(), want, rtol=1e-5, atol=1e-6
            )


def on(tree, place):
    return tuple(on(t, place) for t in tree) if isinstance(tree, tuple) else tree.to(place)


def test_numbers_of_the_cpu_mix_with_groups(accelerator):
    def losses(place):
        rng = np.random.default_rng(0)
        w = wend.ones(4, 4, device=place, requires_grad=True)
        out = []
        for n in rng.integers(40, 60, 6):
            parts = []
            for _ in range(n):
                x = wend.tensor(rng.normal(size=(1, 4)).astype(np.float32)).to(place)
                h = x @ w * wend.tensor(float(rng.normal()))
                for _ in range(int(rng.integers(1, 4))):
                    h = wend.tanh(h @ w) + wend.tensor(0.5)
                parts.append(h.sum())
            loss = wend.stack(parts).mean()
            (g,) = wend.autograd.grad(loss, w)
            out += [loss.item(), g.abs().sum().item()]
        return out

    np.testing.assert_allclose(losses(accelerator), losses("cpu"), rtol=1e-5)


def test_a_bad_index_is_told_and_the_device_goes_on(accelerator):
    wend.manual_seed(3)
    model = TreeLSTM().to(accelerator)
    rng = random.Random(1)

    def loss_of(trees):
        loss = wend.cat(each(model, trees)).sum()
        loss.backward()
        return loss.item()

    for k in range(6):
        trees = [random_tree(rng, 9, accelerator) for _ in range(30)]
        if k == 4:
            trees[4] = (trees[4], wend.tensor([WORDS], device=accelerator))
            with pytest.raises(IndexError, match="out of range"):
                loss_of(trees)
            model.zero_grad()
        else:
            assert np.isfinite(loss_of(trees))
    assert np.isfinite(model.out.weight.grad.cpu().numpy()).all()


# -- moves ------------------------------------------------------------------------------------


def made_by(device, moves_of, dtype, n):
    """Memory before and after moves, on the device and by NumPy."""
    rng = np.random.default_rng(1)
    start = rng.normal(size=n).astype(dtype)
    array, size = device.copied(start.copy()), start.itemsize
    base = array.ctypes.data
    rows = np.array([(k, base + size * t, base + size * s, size * m) for k, t, s, m in moves_of])
    moves.make_moves(device, rows, dtype is np.float64)
    want = start.copy()
    for kind, t, s, m in moves_of:
        if kind == moves.CLEAR:
            want[t : t + m] = 0
        elif kind == moves.COPY:
            want[t : t + m] = want[s : s + m]
        else:
            want[t : t + m] += want[s : s + m]
    return np.array(array), want


MOVES = {
    "copies": [(moves.COPY, 3, 200, 7), (moves.COPY, 20, 300, 1), (moves.COPY, 30, 350, 50)],
    "zeros": [(moves.CLEAR, 5, 0, 9), (moves.CLEAR, 100, 0, 3)],
    "sums in order": [(moves.ADD, 10, 200, 8), (moves.ADD, 40, 220, 8), (moves.ADD, 10, 300, 8)],
    "first, then sums": [
        (moves.CLEAR, 0, 0, 64), (moves.COPY, 8, 200, 8), (moves.ADD, 8, 210, 8),
        (moves.ADD, 24, 220, 8),
    ],
    "parts of a piece": [(moves.ADD, 0, 200, 64), (moves.ADD, 8, 300, 8), (moves.ADD, 0, 400, 64)],
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MOVES)
def test_moves(name, dtype, accelerator):
    got, want = made_by(accelerator_at(accelerator), MOVES[name], dtype, 512)
    np.testing.assert_array_equal(got, want)


def test_large_pieces_and_bytes(accelerator):
    device = accelerator_at(accelerator)
    n = 30_000
    got, want = made_by(
        device, [(moves.ADD, 0, n, n - 1), (moves.CLEAR, 2 * n, 0, n)], np.float32, 3 * n
    )
    np.testing.assert_array_equal(got, want)
    got, want = made_by(device, [(moves.COPY, 1, 5003, 4999)], np.int8, 10_002)
    np.testing.assert_array_equal(got, want)


def test_the_sign_of_zero_is_copied(accelerator):
    total = moves.sum_of(accelerator_at(accelerator), [np.array([-0.0, 1.0], np.float32)])
    assert np.signbit(np.array(total)[0])
