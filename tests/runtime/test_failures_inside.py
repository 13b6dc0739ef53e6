"""A failure inside is counted, told and repaired: results are right, and no update is lost."""

import importlib
import itertools
import warnings

import numpy as np
import pytest

import tries
import wend as torch
from wend import nn
from wend._engine.base import config, defects
from wend._engine.base.errors import DefectError, KernelFailure
from wend._engine.compiler.llvm_ir import jit
from wend._engine.ops.elementwise.transcendental import Tanh
from wend._engine.runtime.batching import signatures
from wend._engine.runtime.numpy_executor import runners
from wend._engine.runtime.parts import parts

F = nn.functional


class Planted(ArithmeticError):
    """A failure that no op raises by a rule of its own."""


# -- programs ----------------------------------------------------------------------------------


def filled(*modules):
    """The parameters of modules, with numbers that do not depend on random streams."""
    rng = np.random.default_rng(3)
    params = [p for module in modules for p in module.parameters()]
    with torch.no_grad():
        for p in params:
            p.copy_(torch.tensor(rng.normal(size=tuple(p.shape)) * 0.4))
    return params


def network():
    """Training on a path that comes back: four equal steps, with momentum and a running mean."""
    rng = np.random.default_rng(5)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).double()
    params = filled(net)
    optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9)
    losses = []
    for _ in range(5):
        x, y = torch.tensor(rng.normal(size=(10, 6))), torch.tensor(rng.integers(0, 3, 10))
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, *map(tolist, [*params, *net.buffers()])]


def words():
    """Training on sentences of lengths that never come back, one cell call a word."""
    rng = np.random.default_rng(7)
    embedding, cell = nn.Embedding(9, 4).double(), nn.GRUCell(4, 4).double()
    out = nn.Linear(4, 9).double()
    params = filled(embedding, cell, out)
    optimizer = torch.optim.Adam(params, lr=0.05)
    for step in range(5):
        sentence = rng.integers(0, 9, 2 + step).tolist()
        h, loss = torch.zeros(1, 4, dtype=torch.float64), 0
        for a, b in itertools.pairwise(sentence):
            h = cell(embedding(torch.tensor([a])), h)
            loss = loss + F.cross_entropy(out(h), torch.tensor([b]))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 0.5)
        optimizer.step()
    return list(map(tolist, params))


def calls_with_branches():
    """Examples that branch on values, run together as fibers; then a pass back through them."""
    rng = np.random.default_rng(11)
    weight = torch.tensor(rng.normal(size=(4, 4)), requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.05)

    def call(x):
        turns = 0
        while (x * x).sum() > 1.0 and turns < 4:
            x = torch.tanh(x @ weight) * 0.9
            turns += 1
        return x.sum()

    for step in range(4):
        examples = [torch.tensor(rng.normal(size=4) * 2) for _ in range(3 + step)]
        loss = torch.stack(torch.batched(call)(examples)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [tolist(weight)]


def tolist(t):
    return t.detach().numpy().tolist()


PROGRAMS = {"network": network, "words": words, "calls": calls_with_branches}


def fresh(program, **settings):
    """Run a program as if it were the first one of the process."""
    for book in (signatures.BOOK, signatures.SINGLES):
        book.pause = book.strikes = 0
        book.clear()
    with tries.own_trie(), config.override(weigh=False, **settings):
        return program()


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


# -- planting ----------------------------------------------------------------------------------

#: What fails, as "module:class.function": parts of all executors, of planning and of compiling.
PLACES = """
runtime.numpy_executor.plan:ReferencePlan.compute
runtime.numpy_executor.plan:ReferencePlan.prepare
runtime.numpy_executor.runners:NodeRun.call
runtime.flush:find_plan
runtime.flush:note_flush
runtime.tiers:TieredPlan.compile
runtime.compiled.plan:CompiledPlan.find
runtime.compiled.plan:CompiledPlan.run
runtime.compiled.plan:BoundPlan.__init__
runtime.parts.parts:cutter_of
runtime.parts.parts:run_parts
runtime.batching.forward:Forward.forward
runtime.batching.forward:Forward.finish
runtime.batching.executor:sorted_out
runtime.batching.templates:TemplateFunction.__call__
runtime.fibers.lanes:SharedProgram.lane_batch
""".split()
#: The same, where machine code is waited for.
PLACES_OF_CODE = """
runtime.compiled.plan:compile_plan
runtime.compiled.plan:CompiledPlan.run
runtime.compiled.plan:BoundPlan.__init__
runtime.batching.forward:Forward.forward
compiler.llvm_ir.jit:compile_module
""".split()


class Plant:
    """Has a function of Wend's raise, once: before its n-th call does anything, or behind it."""

    def __init__(self, monkeypatch, place, number, behind):
        module, _, path = place.partition(":")
        owner = importlib.import_module(f"wend._engine.{module}")
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        self.real = getattr(owner, name)
        self.number, self.behind, self.calls = number, behind, 0
        plant = self

        def planted(*args, **kwargs):
            plant.calls += 1
            if plant.calls == plant.number and not plant.behind:
                raise Planted(place)
            found = plant.real(*args, **kwargs)
            if plant.calls == plant.number:
                raise Planted(place)
            return found

        monkeypatch.setattr(owner, name, planted)

    @property
    def fired(self):
        return self.calls >= self.number


@pytest.mark.parametrize(
    ("place", "wait"),
    [(p, False) for p in PLACES] + [(p, True) for p in PLACES_OF_CODE],
)
def test_results_are_right_wherever_something_fails(place, wait, planted_failure, monkeypatch):
    """One call fails: the first before it does anything, or behind it; or the fourth, behind it."""
    fired = 0
    if "parts" in place and not parts.CUTS:
        pytest.skip("the uncompiled core cuts no flushes")
    if "parts" not in place:
        monkeypatch.setattr(parts, "SIDE_BY_SIDE", -1)
    for program in PROGRAMS.values():
        expected = fresh(program, wait=wait)
        assert planted_failure.count() == 0
        for number, behind in ((1, False), (1, True), (4, True)):
            with monkeypatch.context() as patch, warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                plant = Plant(patch, place, number, behind)
                found = fresh(program, wait=wait)
            assert_same(found, expected)
            if plant.fired:
                fired += 1
                assert planted_failure.count() > 0, f"call {number} failed in silence"
            planted_failure.reset()
    assert fired, "no program comes to this place any more"


# -- what is told ------------------------------------------------------------------------------


def updated(weight):
    """An update in place, whose flush fails in the middle; the last thing it does is to rebind."""
    weight.mul_(2.0).add_(1.0)
    torch.synchronize()


def test_a_repaired_flush_undoes_nothing(planted_failure, monkeypatch):
    weight = torch.ones(3)
    torch.synchronize()
    Plant(monkeypatch, "runtime.numpy_executor.plan:ReferencePlan.compute", 1, True)
    with tries.own_trie(), config.override(compile=False), pytest.warns(RuntimeWarning) as told:
        updated(weight)
    assert weight.tolist() == [3.0] * 3
    text = str(told[0].message)
    assert "Planted" in text and "this is a defect of Wend" in text and "are right" in text
    assert "test_failures_inside.py" in text, "the user's line"


def test_a_failure_warns_once_and_is_counted_each_time(planted_failure, monkeypatch):
    monkeypatch.setattr(runners.NodeRun, "call", broken)
    weight = torch.ones(3)
    settings = tries.own_trie(), config.override(compile=False)
    with settings[0], settings[1], warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.synchronize()
        before = planted_failure.count()
        for _ in range(5):
            updated(weight)
    assert weight.tolist() == [63.0] * 3
    assert planted_failure.count() == before + 5
    assert planted_failure.known()[-1].times == 5
    assert sum("in the step of mul" in str(x.message) for x in told) == 1
    assert "Planted" in planted_failure.summary() and "(5)" in planted_failure.summary()
    assert f"{before + 5}: Planted" in str(torch.debug.explain())


def broken(self, env, types, args):
    raise Planted("broken")


def test_strict_raises_when_all_has_been_computed(planted_failure, monkeypatch):
    monkeypatch.setattr(runners.NodeRun, "call", broken)
    weight = torch.ones(3)
    torch.synchronize()
    with tries.own_trie(), config.override(compile=False, strict=True):
        weight.mul_(2.0)
        with pytest.raises(DefectError, match="Planted: broken") as found:
            torch.synchronize()
    assert isinstance(found.value.__cause__, Planted)
    assert weight.tolist() == [2.0] * 3


def test_a_failure_is_logged_with_its_traceback(planted_failure, monkeypatch, caplog):
    monkeypatch.setattr(runners.NodeRun, "call", broken)
    with tries.own_trie(), config.override(compile=False), pytest.warns(RuntimeWarning):
        torch.ones(3).mul(2.0).tolist()
    (record,) = caplog.records
    assert record.name == "wend.defects" and "test_failures_inside.py" in record.getMessage()
    assert record.exc_info is not None and record.exc_info[0] is Planted


def test_what_the_rules_cannot_compute_raises_and_handles_return(planted_failure, monkeypatch):
    """The rule of an op fails: its result cannot be had, and the update that follows is undone."""
    weight, other = torch.ones(3), torch.ones(3)
    torch.synchronize()

    def rule(*arrays, out=None):
        raise TypeError("a rule that is wrong")

    monkeypatch.setattr(runners, "runner_of", lambda program: rule_of(program, rule))
    with tries.own_trie(), config.override(compile=False):
        kept = other * 3.0
        y = torch.tanh(other)
        weight.add_(y)
        with pytest.raises(DefectError, match="tanh: TypeError: a rule that is wrong") as found:
            torch.synchronize()
    assert "test_failures_inside.py" in str(found.value)
    assert weight.tolist() == [1.0] * 3 and kept.tolist() == [3.0] * 3
    with pytest.raises(DefectError):
        y.tolist()
    assert planted_failure.count() > 0 and not planted_failure.known()[0].repaired


def rule_of(program, rule, real=runners.runner_of):
    if isinstance(program.prim, Tanh):
        return lambda arrays, args: rule(*arrays)
    return real(program)


def test_an_ops_own_refusal_is_no_defect():
    """An index out of range is the user's, in every executor, and undoes what came after it."""
    table, weight = torch.ones(3, 2), torch.ones(2)
    torch.synchronize()
    for wait in (False, True):
        with tries.own_trie(), config.override(wait=wait):
            for _ in range(4):
                picked = table[(torch.tensor([5]) * 1).clone()]
                weight.add_(1.0)
                with pytest.raises(IndexError, match="index 5"):
                    picked.tolist()
                assert weight.tolist() == [1.0] * 2
    assert defects.count() == 0


def test_a_user_function_that_raises_is_no_defect():
    class Odd(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise KeyError("the user's")

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(KeyError, match="the user's"):
        Odd.apply(x).sum().backward()
    assert defects.count() == 0


def test_a_kernel_that_refuses_what_the_rules_take_is_a_defect(planted_failure, monkeypatch):
    """Whoever computes by rules finds nothing wrong: then the kernel was."""
    monkeypatch.setattr(
        "wend._engine.runtime.compiled.plan.CompiledPlan.run",
        lambda self, batch: setattr(batch, "fault", KernelFailure("a kernel noted a failure")),
    )
    with tries.own_trie(), config.override(wait=True, compile=True), pytest.warns(RuntimeWarning):
        assert (torch.ones(3) * 2.0).tolist() == [2.0] * 3
    assert "KernelFailure" in planted_failure.summary()


def test_a_failing_background_thread_is_told(planted_failure, monkeypatch):
    """What LLVM or the code around it raises there would end the thread in silence."""
    assert jit.obstacle() is None  # found out now, while modules can be compiled
    assert jit.drain(100.0)  # plans of other tests that are under way are to meet no failure here
    monkeypatch.setattr("wend._engine.compiler.llvm_ir.jit.compile_module", no_code)
    data = np.arange(7.0) + 0.125
    x = torch.tensor(data)

    def visited():
        for _ in range(50):
            y = (torch.tanh(x * 1.7) - 0.3).sum().item()
            jit.drain(10.0)
            if planted_failure.count():
                break
        return y

    settings = tries.own_trie(), config.override(compile=True, wait=False)
    with settings[0], settings[1], pytest.warns(RuntimeWarning, match="Planted: no code"):
        y = visited()
    assert planted_failure.count() == 1
    np.testing.assert_allclose(y, (np.tanh(data * 1.7) - 0.3).sum())


def no_code(text, names, target=None, offer=None):
    raise Planted("no code")


def test_where_an_exception_came_from():
    """From a user's code that Wend calls, from NumPy that a user calls, and from Wend."""
    with pytest.raises(ValueError, match="the user's") as found:
        nn.Sequential(Users())(torch.ones(2))
    assert not defects.came_from_inside(found.value)
    with pytest.raises(ValueError, match="reshape") as found:
        np.ones(2).reshape(3)
    assert not defects.came_from_inside(found.value)
    with pytest.raises(AttributeError) as found:
        runners.run_plainly(None, [], [])
    assert defects.came_from_inside(found.value)
    assert defects.part_of(found.value) == "wend._engine.runtime.numpy_executor.runners.run_plainly"


class Users(nn.Module):
    """A module of the user's that raises."""

    def forward(self, x):
        raise ValueError("the user's")
