"""Ten questions of a user about a program, each answered by one call: see docs/howto/seeing.md.

Each program below knows nothing but the documented calls; the models are all different.
"""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

import wend
from wend import debug, nn
from wend._engine.base import config

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "seeing.md"
F = nn.functional
pytestmark = pytest.mark.usefixtures("own_trie", "groups_alone")


def line_of(text):
    """Number of the line of this file that ends with a comment."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(k for k, line in enumerate(lines, 1) if line.endswith(f"# {text}"))


# -- the programs ---------------------------------------------------------------------------------


class Reader(nn.Module):
    """A recurrent network over sentences of unlike lengths."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 8)
        self.leave = nn.Linear(8, 1)

    def forward(self, words):
        state = wend.zeros(1, 8)
        for k in range(len(words)):
            state = self.cell(words.narrow(0, k, 1), state)
        return self.leave(state)


def slow_step():
    reader = Reader()
    for n in (2, 5, 3):
        reader(wend.ones(n, 4)).sum().backward()
        wend.synchronize()
    return debug.why_slow()


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(50, 200), nn.ReLU(), nn.Linear(200, 5))
        self.decoder = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 50))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def memory_by_layer():
    model = Autoencoder()
    optimizer = wend.optim.Adam(model.parameters())
    x = wend.ones(8, 50)
    (model(x) - x).square().mean().backward()
    optimizer.step()
    wend.synchronize()
    return debug.memory(model)


class EarlyExit(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.exits = nn.ModuleList([nn.Linear(4, 2) for _ in range(3)])

    def forward(self, x):
        for block, leave in zip(self.blocks, self.exits, strict=True):
            x = block(x).relu()
            y = leave(x).softmax(1)
            if y.max() > 0.9:
                return y  # a sure answer
        return y


def parting():
    wend.manual_seed(0)
    model = EarlyExit()
    sure = wend.full((1, 4), 1000.0)
    return debug.diff(debug.graph(model, sure), debug.graph(model, wend.zeros(1, 4)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x, mask):
        scores = self.query(x) @ self.key(x).T
        scores = scores.masked_fill(mask, float("-inf"))
        return scores.softmax(-1)  # nothing to attend to


def line_of_the_nan():
    mask = wend.tensor([[False, False], [True, True]])
    attended = Attention()(wend.ones(2, 3), mask)
    return debug.find_nan(attended)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.first, self.second = nn.Linear(6, 1), nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x):
        share = self.gate(x).sigmoid()  # the share
        return share * self.first(x) + (1 - share) * self.second(x)


def kept_by_autograd():
    model = Mixture()
    y = model(wend.ones(32, 6))
    wend.synchronize()
    found = debug.memory(model)
    del y
    return found


def flops_by_layer():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10)
    )
    return wend.summary(model, input_size=(1, 1, 8, 8), columns=("flops",), verbose=0)


def settle(x):
    if x.sum() > 0:
        return x.exp().sum()  # often
    return x.abs().sum()  # seldom


def paths_taken():
    for k in range(6):
        settle(wend.tensor([1.0, k - 2.5])).item()
    return debug.paths()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))  # the block


def kernel_of_an_op():
    block, x = Block(), wend.ones(4, 8)
    block(x).square().mean().backward()
    wend.synchronize()
    return debug.explain("gelu")


class TreeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf, self.join, self.top = nn.Embedding(9, 8), nn.Linear(16, 8), nn.Linear(8, 2)

    def state(self, tree):
        if isinstance(tree, int):
            return self.leaf(wend.tensor([tree]))
        left, right = tree
        return wend.tanh(self.join(wend.cat([self.state(left), self.state(right)], 1)))

    def forward(self, tree):
        return self.top(self.state(tree))


def computed_alone():
    model, drawn = TreeNet(), random.Random(0)

    def tree(depth):
        if depth == 0 or drawn.random() < 0.3:
            return drawn.randrange(9)
        return tree(depth - 1), tree(depth - 1)

    for _ in range(8):
        scores = wend.cat([model(tree(5)) for _ in range(6)])
        scores.log_softmax(1).sum().backward()  # the only softmax
        wend.synchronize()
    return debug.batches()


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
        self.critic, self.spare = nn.Linear(3, 1), nn.Linear(3, 1)
        self.generator[0].bias.requires_grad_(False)

    def forward(self, noise):
        made = self.generator(noise).detach()  # the cut
        return self.critic(made).mean()


def no_gradient():
    model = Gan()

    def step():
        model(wend.ones(4, 2)).backward()

    return debug.why_no_gradient(model, step)


# -- the answers ----------------------------------------------------------------------------------


@pytest.fixture
def code_at_once():
    llvm = pytest.importorskip("wend._engine.compiler.llvm_ir.jit")
    if llvm.obstacle() is not None:
        pytest.skip("no machine code can be made here, so there are no kernels to name")
    with config.override(compile=True, wait=True, deterministic=False):
        yield


@pytest.mark.smoke
def test_why_is_this_step_slow():
    found = slow_step()
    assert [reason.kind for reason in found.reasons][:1] == ["new path"]
    assert "wend.batched" in found.reasons[0].remedy


def test_which_layer_holds_the_memory():
    found = memory_by_layer()
    modules = found.by_module()
    assert sum(modules.values()) == found.total
    modules.pop("")  # of no module: other tests of the process may hold much
    first = next(iter(modules))
    assert first == "encoder.0"
    assert modules[first] == 4 * 4 * (50 * 200 + 200)  # with gradient and two moments
    assert found.by_module(depth=1)["encoder"] > 4 * found.by_module(depth=1)["decoder"]


def test_where_did_these_two_steps_part():
    found = parting()
    assert found.parting[0] is None  # the sure one has ended
    assert (found.parting[1].op, found.parting[1].module) == ("linear", "blocks.1")


def test_which_line_made_the_nan():
    found = line_of_the_nan()
    assert found.op == "softmax" and found.exact
    assert f"{Path(__file__).name}:{line_of('nothing to attend to')} in" in str(found)


def test_what_did_autograd_keep():
    found = kept_by_autograd()
    kept = [row for row in found.rows if row.owner == "kept for backward"]
    assert sum(row.bytes for row in kept) >= 4 * (32 * 6 + 32)
    assert any(f":{line_of('the share')} in" in row.where for row in kept)
    assert any(row.bytes == 4 * 32 * 6 and row.module == "gate" for row in kept)  # the input


def test_how_many_flops_per_layer():
    rows = {row.name: row.flops for row in flops_by_layer()}
    assert rows["0"] == 4 * 36 * (2 * 9 + 1)
    assert rows["4"] == 10 * (2 * 36 + 1)


def test_which_path_was_taken_how_often():
    ways = {(way.first, way.taken) for way in paths_taken() if way.ops}
    assert {("exp", 4), ("abs", 2)} <= ways


def test_which_kernel_does_this_op_run_in(code_at_once):
    found = kernel_of_an_op()
    (flush,) = found.flushes
    (step,) = found.steps(flush)
    assert {"linear", "gelu"} <= {op for op, _ in step.recorded}
    assert step.kind == "contract"
    text = str(found)
    assert f":{line_of('the block')} in Block.forward" in text and "layer_norm" not in text


def test_why_was_this_op_computed_alone():
    text = str(computed_alone())
    where = re.search(
        rf"1 x \w*softmax\w*.*:{line_of('the only softmax')} in .*\n\s+alone; .*", text
    )
    assert where and "nothing like it was ready with it" in where[0]


def test_which_parameter_gets_no_gradient():
    found = no_gradient()
    kinds = {row.name: row.kind for row in found}
    assert kinds == {
        "generator.0.weight": "cut",
        "generator.0.bias": "frozen",
        "generator.2.weight": "cut",
        "generator.2.bias": "cut",
        "spare.weight": "unused",
        "spare.bias": "unused",
    }
    assert found.reached == ["critic.weight", "critic.bias"]
    assert f":{line_of('the cut')} in" in next(iter(found)).place


# -- the table ------------------------------------------------------------------------------------

TASKS = [
    slow_step, memory_by_layer, parting, line_of_the_nan, kept_by_autograd, flops_by_layer,
    paths_taken, kernel_of_an_op, computed_alone, no_gradient,
]  # fmt: skip


#: Their answers are about all that a process holds.
OF_A_PROCESS = (memory_by_layer, kept_by_autograd)


def printed_alone(task):
    """What a task prints in a process of its own."""
    command = f"from {Path(__file__).stem} import *; print({task.__name__}())"
    place = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    return subprocess.run(
        [sys.executable, "-c", command],
        capture_output=True, text=True, timeout=120, check=True, env=place,
    ).stdout  # fmt: skip


def table():
    """(question, call, excerpt of the printed answer) of each row of the page's table."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index("| question | call | from the answer |") + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def test_the_table_has_the_ten_tasks():
    assert len(table()) == len(TASKS) == 10


@pytest.mark.parametrize("k", range(10), ids=[task.__name__ for task in TASKS])
def test_the_table_shows_printed_answers(k, request):
    if TASKS[k] is kernel_of_an_op:
        request.getfixturevalue("code_at_once")
    _, call, excerpt = table()[k]
    said = printed_alone(TASKS[k]) if TASKS[k] in OF_A_PROCESS else str(TASKS[k]())
    text = " ".join(said.split())
    parts = [re.escape(part.strip()) for part in excerpt.strip("`").split("...")]
    assert re.search(".*?".join(parts), text), f"{call} printed\n{said}"
