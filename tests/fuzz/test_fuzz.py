"""Some hundred random programs give the same recorded, op by op, off the trie and in PyTorch.

The training loops among them are others each week; a failure names the seed and the number.

`run.py` runs more of them. A failure shows a small program and a script to paste.
"""

import datetime
import random
import re

import pytest
from compare import Differs, check, execute
from hypothesis import HealthCheck, given, settings
from loops import BACKWARDS, FAULTS, LOSSES, OPTIMISERS, ROUTES, TREATMENTS, UPDATES
from models import LAYERS
from programs import Program, Run, drawn, programs
from reduce import smallest
from run import program_of
from states import BETWEEN, CARRIERS, LEFT_OUT
from ways import call, product_of

import wend
from wend._engine.base import config
from wend._engine.core import _hot
from wend._engine.core._select import is_compiled

SHARES, SHARE = 16, 10
YEAR, WEEK, _ = datetime.date.today().isocalendar()
THIS_WEEK = 100 * YEAR + WEEK
# Where each plan waits for its machine code, a loop takes ten times as long; in the uncompiled
# core, four times.
TRAINING_SHARES = 2 if config.settings.wait else 20 if is_compiled(_hot) else 5


def runs_alike(seed, number, kind):
    """Fail with a small program and its script if two ways to run it part."""
    try:
        return check(program_of(seed, number, kind))
    except Differs as differs:
        small = smallest(differs)
    which = f"--kind {kind} --seed {seed} --first {number} --programs 1"
    script = small.program.script
    pytest.fail(f"run.py {which}\n{small}\nAs a script:\n\n{script}", pytrace=False)


@pytest.mark.parametrize("share", range(SHARES))
def test_random_programs(share):
    for number in range(share * SHARE, (share + 1) * SHARE):
        runs_alike(2026, number, "expressions")


@pytest.mark.parametrize("share", range(TRAINING_SHARES))
def test_training_loops_of_this_week(share):
    for number in range(share * SHARE, (share + 1) * SHARE):
        runs_alike(THIS_WEEK, number, "training")


@given(programs(most=8))
@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_programs_that_hypothesis_draws(program):
    check(program)


# -- the fuzzer itself ----------------------------------------------------------------------------


def test_programs_of_a_seed_are_always_the_same():
    first, again = (drawn(random.Random("some seed").randint) for _ in range(2))
    assert first.source == again.source and first.runs == again.runs
    assert first.source != drawn(random.Random("another").randint).source


ONCE = Run(2, 3, 1, 0)


def a_program(*lines, kept=("x",), runs=(ONCE,)):
    return Program([f"    {line}" for line in lines], list(kept), list(runs), {"float64"}, False)


def test_a_wrong_result_is_found_and_shown_small(monkeypatch):
    program = a_program(
        "x = data(1, (n, m), torch.float64, True)",
        "y = x * 2",
        "if decide(y.sum(), -99.0):",
        "    y = y + 1",
        "z = y.tanh()",
        "loss = z.sum()",
        "loss.backward()",
        kept=("y", "z"),
        runs=[Run(2, 3, 1, 0), Run(4, 3, 1, 0)],
    )
    assert check(program) == "agrees"
    real = wend.Tensor.tanh
    monkeypatch.setattr(wend.Tensor, "tanh", lambda x: real(x) * (1 if x.shape[0] < 3 else 1.1))
    pytest.importorskip("torch")
    with pytest.raises(Differs, match=r"Wend and PyTorch differ at Run\(n=4") as caught:
        check(program)
    small = smallest(caught.value).program
    assert len(small.lines) == 3 and small.kept == ["z"] and [r.n for r in small.runs] == [4]


def test_a_program_as_a_script(tmp_path):
    program = a_program("x = data(1, (n, m), torch.float64)", "read(2, x)")
    space = {}
    # As it is pasted, but for its last lines, which run it with a library.
    text, _, last = program.script.partition("torch = importlib")
    exec(text, space)
    assert last.count("print(") == 1
    results, seen = space["call"](wend, space["program"], product_of(wend), 1e-6, 2, 3, 1, 0)
    wanted, _ = call(wend, program.function, product_of(wend), 1e-6, 2, 3, 1, 0)
    assert (results["x"][2] == wanted["x"][2]).all() and not seen


def test_errors_are_outcomes():
    outcome = execute(wend, a_program("x = torch.zeros(n, m) + torch.zeros(m, n)"), ONCE)
    assert isinstance(outcome.error, RuntimeError) and not outcome.results


def a_loop(*body, steps=4, runs=(ONCE,)):
    head = [
        "layer = fill(1, torch.nn.Linear(3, 2).double())",
        "params = list(layer.parameters())",
        "optimiser = torch.optim.SGD(params, lr=0.1, momentum=0.9)",
        f"for step in range({steps}):",
    ]
    work = [
        "    optimiser.zero_grad()",
        "    loss = layer(data(100 + step, (n, 3), torch.float64)).tanh().sum()",
        "    loss.backward()",
        *(f"    {line}" for line in body),
        "    optimiser.step()",
        "    watch(step, layer=layer, optimiser=optimiser)",
    ]
    return a_program(*head, *work, kept=(), runs=runs)


@pytest.mark.parametrize("way", range(4))
def test_a_lost_update_is_found_however_it_is_watched(way, monkeypatch):
    pytest.importorskip("torch")
    program = a_loop("pass", runs=[Run(2, 3, 1, way), Run(2, 3, 1, 4 + way)])
    assert check(program) == "agrees"
    real, calls = wend.optim.SGD.step, []

    def forgetful(optimiser, closure=None):
        bias = optimiser.param_groups[0]["params"][1]
        kept = bias.detach().clone()
        real(optimiser, closure)
        calls.append(1)
        if len(calls) % 4 == 3:
            bias.data.copy_(kept)

    monkeypatch.setattr(wend.optim.SGD, "step", forgetful)
    with pytest.raises(Differs, match=r"[23]: layer\.bias") as caught:
        check(program)
    small = smallest(caught.value).program
    assert len(small.runs) == 1 and "momentum" in small.source and "pass" not in small.source


def test_errors_in_the_middle_of_a_step_are_compared_by_kind(monkeypatch):
    pytest.importorskip("torch")
    program = a_loop(
        "try:",
        "    if step == 1:",
        "        data(3, (2,), torch.float64)[7]",
        "    loss = loss + 1",
        "except IndexError as error:",
        "    caught(step, error)",
    )
    assert check(program) == "agrees"

    def careless(x, index):
        raise ValueError("no index") if index == 7 else IndexError

    monkeypatch.setattr(wend.Tensor, "__getitem__", careless)
    with pytest.raises(Differs, match="one raises"):
        check(program)
    caught = program.source.replace("except IndexError", "except Exception")
    other = a_program(*(line[4:] for line in caught.split("\n")[1:-2]), kept=())
    with pytest.raises(Differs, match=r"errors: .*ValueError.* and .*IndexError") as found:
        check(other)
    small = smallest(found.value).program
    assert len(small.lines) < len(other.lines) - 4


def test_a_failure_inside_is_a_difference(planted_failure, monkeypatch):
    program = a_loop("pass")

    def failing(error):
        planted_failure.note(ValueError("planted"), "a kernel")
        return error

    monkeypatch.setattr(wend.Tensor, "tanh", lambda x: failing(wend.sin(x)))
    with pytest.raises(Differs, match=r"failures inside differ.*\n.*planted"):
        check(program)
    assert planted_failure.count() == 0


def fragments(texts):
    """The longest literal part of each text, as it stands in programs."""
    for text in texts:
        pieces = re.split(r"\{\w+\}|\n", text.replace("{{", "\n").replace("}}", "\n"))
        yield max(pieces, key=len).strip()


def test_all_kinds_of_statements_are_drawn():
    sources = "\n".join(program_of(1, i, "training").source for i in range(1500))
    texts = [*BETWEEN, *BACKWARDS, *FAULTS, *LOSSES, *OPTIMISERS, *ROUTES, *TREATMENTS, *UPDATES]
    texts += [layer.made for layer in LAYERS]
    for carrier in CARRIERS:
        if carrier.kind not in LEFT_OUT:
            texts += [*filter(None, [carrier.setup]), *carrier.between]
    missing = [piece for piece in fragments(texts) if piece not in sources]
    assert not missing


def test_what_is_left_out_has_a_reason_and_can_be_asked_for():
    kinds = {carrier.kind for carrier in CARRIERS if carrier.kind}
    assert set(LEFT_OUT) <= kinds and all(len(reason) > 20 for reason in LEFT_OUT.values())
