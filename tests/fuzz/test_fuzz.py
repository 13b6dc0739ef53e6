"""Some hundred random programs give the same recorded, op by op, off the trie and in PyTorch.

`run.py` runs more of them. A failure shows a small program and a script to paste.
"""

import random

import pytest
from compare import Differs, check, execute
from hypothesis import HealthCheck, given, settings
from programs import Program, Run, drawn, programs
from reduce import smallest
from run import program_of
from ways import call, product_of

import wend

SHARES, SHARE = 16, 10


def runs_alike(program):
    """Fail with a small program and its script if two ways to run it part."""
    try:
        return check(program)
    except Differs as differs:
        small = smallest(differs)
    pytest.fail(f"{small}\nAs a script:\n\n{small.program.script}", pytrace=False)


@pytest.mark.parametrize("share", range(SHARES))
def test_random_programs(share):
    for number in range(share * SHARE, (share + 1) * SHARE):
        runs_alike(program_of(2026, number))


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
