"""Who runs a flush: the executors are asked in one order, and those that decline say why."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.core.step_log import NEVER_BACK
from wend._engine.runtime import flush
from wend._engine.runtime.executors import Executor, FlushRun
from wend._engine.runtime.flush_log import last_step
from wend._engine.runtime.parts import parts

#: Why a short path has no parts.
NO_PARTS = (
    "no part of it has come before, or its parts run in groups"
    if parts.CUTS
    else "autobatch(False), deterministic algorithms, WEND_COMPILE=0 or WEND_PURE=1 is on"
)


def asked():
    """{executor: why it declined} of the last flush; "" for the one that ran it."""
    return dict(last_step()[-1].asked)


def step(x):
    return (torch.tanh(x * 2) + 1).sum().item()


def test_six_executors_each_with_a_name_and_a_purpose():
    assert len({executor.name for executor in flush.EXECUTORS}) == 6
    assert all(executor.purpose for executor in flush.EXECUTORS)


def test_a_flush_is_computed_by_whoever_is_asked_first(monkeypatch):
    """The order of the list is the order of asking: reversed, NumPy computes a known path."""
    x = torch.tensor(np.arange(5.0))
    with own_trie(), config.override(compile=True, wait=True):
        expected = [step(x) for _ in range(3)]
        monkeypatch.setattr(flush, "EXECUTORS", flush.EXECUTORS[::-1])
        y = torch.tanh(x * 2)
        assert [step(x), (y + 1).sum().item()] == pytest.approx([expected[0]] * 2)
        assert asked() == {"NumPy": ""}


def test_an_executor_put_first_computes_and_is_in_the_report(monkeypatch):
    """A fifth executor is an entry of the list, and needs nothing else."""
    ran = []

    def run(a_run):
        ran.append(len(a_run.live))
        return flush.REFERENCE.run(a_run)

    mine = Executor("mine", "a test", lambda a_run: "" if a_run.job.args else "no numbers", run)
    monkeypatch.setattr(flush, "EXECUTORS", (mine, *flush.EXECUTORS))
    with own_trie():
        x = torch.tensor(np.arange(5.0))
        assert (x * 2).tolist() == [0, 2, 4, 6, 8]
        assert asked() == {"mine": ""} and ran == [1]
        torch.tanh(x).tolist()
        assert asked()["mine"] == "no numbers" and ran == [1]


def test_the_last_executor_takes_every_flush():
    assert flush.EXECUTORS[-1].why_not(FlushRun(None, [])) == ""


def test_a_new_path_says_who_declined_and_why():
    with own_trie(), config.override(compile=True, wait=False):
        step(torch.tensor(np.arange(5.0)))
        assert asked() == {
            "ready plan": "its path is new",
            "linked parts": "it is not in parts",
            "parts": NO_PARTS,
            "groups": "its path may come back: machine code is quicker",
            "machine code": "visit 1, compiled from visit 3 on",
            "NumPy": "",
        }
        text = str(torch.debug.explain())
    assert "declined: ready plan: its path is new\n" in text
    assert "declined: NumPy" not in text


def test_values_wanted_for_the_first_time_of_a_known_path_take_its_ready_plan():
    """A plan computes more than is wanted now; later flushes take the launcher's shortcut."""
    with own_trie(), config.override(compile=True, wait=True):
        x = torch.tensor(np.arange(5.0))
        for _ in range(3):
            y = x * 2
            (y + 1).sum().item()
            del y
        kept = x * 2
        (kept + 1).sum().item()
        del kept
        ((x * 2) + 1).sum().item()
        assert asked() == {"ready plan": ""}
        ((x * 2) + 1).sum().item()
        assert asked() == {"ready plan": ""}


def test_a_ready_plan_asks_nobody_else():
    with own_trie(), config.override(compile=True, wait=True):
        x = torch.tensor(np.arange(5.0))
        for _ in range(3):
            step(x)
        assert asked() == {"ready plan": ""}
        assert "declined" not in str(torch.debug.explain())


@pytest.mark.usefixtures("groups_alone")
def test_groups_run_what_does_not_come_back():
    with own_trie(sealed=True), config.override(wait=False), torch.autobatch(True):
        x = torch.tensor(np.arange(6.0).reshape(2, 3))
        for _ in range(3):
            total = sum((torch.tanh(row * 2) for row in x), torch.zeros(3, dtype=torch.float64))
            total.sum().item()
        assert asked() == {
            "ready plan": NEVER_BACK,
            "linked parts": NEVER_BACK,
            "parts": NO_PARTS,
            "groups": "",
        }
    with own_trie(sealed=True), config.override(compile=False), torch.autobatch(False):
        step(torch.tensor(np.arange(7.0)))
        assert asked()["groups"] == "autobatch(False) or deterministic algorithms are on"
        assert asked()["NumPy"] == ""


class Cut(BaseException):
    """What stops a program from outside."""


def test_a_path_that_was_cut_short_goes_on(monkeypatch):
    """The path counts as new when it comes back, and new paths keep composites whole."""

    def step():
        with torch.no_grad():
            x = torch.nn.functional.gelu(torch.ones(3), approximate="tanh")
        loss = torch.tanh(x * p).sum()
        loss.backward()
        return loss

    def cut(run):
        flush.take_plan(run)
        raise Cut

    p = torch.ones(3, requires_grad=True)
    with own_trie(), config.override(compile=False, wait=False), torch.autobatch(False):
        expected = step().item()
        p.grad = None
    with own_trie(), config.override(compile=False, wait=False), torch.autobatch(False):
        loss = step()
        with monkeypatch.context() as patch, pytest.raises(Cut):
            patch.setattr(flush, "EXECUTORS", (flush.REFERENCE._replace(run=cut),))
            loss.item()
        del loss
        p.grad = None
        assert (step() * 2).item() == pytest.approx(2 * expected)
