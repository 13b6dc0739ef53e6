"""Who runs a flush: the executors are asked in one order, and those that decline say why."""

import numpy as np

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.runtime import flush
from wend._engine.runtime.flush_log import last_step


def asked():
    """{executor: why it declined} of the last flush; "" for the one that ran it."""
    return dict(last_step()[-1].asked)


def step(x):
    return (torch.tanh(x * 2) + 1).sum().item()


def test_executors_are_asked_in_this_order():
    names = [executor.name for executor in flush.EXECUTORS]
    assert names == ["ready plan", "groups of regions", "two parts", "plan", "levels"]
    assert all(executor.purpose for executor in flush.EXECUTORS)


def test_the_last_executor_takes_whatever_the_others_decline():
    assert flush.EXECUTORS[-1].why_not(None, []) == ""


def test_a_new_path_says_who_declined_and_why():
    with own_trie(), config.override(compile=True, wait=False):
        step(torch.tensor(np.arange(5.0)))
        assert asked() == {
            "ready plan": "its path is new",
            "groups of regions": "its path is on the trie, and may come back",
            "two parts": "it has no few ops that keep the others from groups",
            "plan": "",
        }
        text = str(torch.debug.explain())
    assert "declined: ready plan: its path is new\n" in text
    assert "declined: plan" not in text


def test_a_ready_plan_asks_nobody_else():
    with own_trie(), config.override(compile=True, wait=True):
        x = torch.tensor(np.arange(5.0))
        for _ in range(3):
            step(x)
        assert asked() == {"ready plan": ""}
        assert "declined" not in str(torch.debug.explain())


def test_groups_run_what_does_not_come_back():
    with own_trie(sealed=True), config.override(wait=False), torch.autobatch(True):
        x = torch.tensor(np.arange(6.0).reshape(2, 3))
        for _ in range(3):
            total = sum((torch.tanh(row * 2) for row in x), torch.zeros(3, dtype=torch.float64))
            total.sum().item()
        assert asked() == {"ready plan": "it is off the trie", "groups of regions": ""}
    with own_trie(sealed=True), torch.autobatch(False):
        step(torch.tensor(np.arange(7.0)))
        assert asked()["groups of regions"] == "work is not batched under these settings"
        assert asked()["plan"] == ""
