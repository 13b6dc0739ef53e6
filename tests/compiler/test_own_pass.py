"""A pass and an executor of one's own: those that CONTRIBUTING shows, put where it says."""

import sys
import types

import loop_graphs
import numpy as np
import pytest
from test_own_kernel import files_of_page

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler import pipeline, verifier
from wend._engine.runtime import flush
from wend._engine.runtime.flush_log import last_step


def module_of_page(name, monkeypatch):
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(files_of_page()[name], vars(module))
    return module


@pytest.fixture
def dead(monkeypatch):
    """The passes with the page's pass after `lower`, and its check."""
    module = module_of_page("wend._engine.compiler.dead_ops", monkeypatch)
    mine = pipeline.Pass(
        "dead", "ops that nobody reads", module.drop_dead, lambda v: repr(v.function)
    )
    first, second, *others = pipeline.PASSES
    monkeypatch.setattr(pipeline, "PASSES", (first, second, mine, *others))
    checks = {**verifier.CHECKS, "dead": lambda value: verifier.check_function(value.function)}
    monkeypatch.setattr(verifier, "CHECKS", checks)
    return mine


def test_values_with_one_more_pass_are_right(dead):
    names = []
    for seed in range(4):
        loop_graphs.check(
            seed, lambda done, value: (names.append(done.name), verifier.check(done, value))
        )
    assert names[:4] == ["inline", "lower", "dead", "fuse"]


def test_machine_code_with_one_more_pass_and_its_text(dead):
    x = torch.tensor(np.arange(6.0))
    with own_trie(), config.override(compile=True, wait=True, verify=True):
        assert (torch.tanh(x) * 2).sum().item() == pytest.approx(2 * np.tanh(np.arange(6.0)).sum())
        shown = {text.name: text.text for text in torch.debug.explain().passes()}
    assert shown["dead"] == shown["lower"] != ""


def test_an_executor_of_the_page_computes_what_it_is_for(monkeypatch):
    single = module_of_page("wend._engine.runtime.single_ops", monkeypatch).SINGLE
    ready, *others = flush.EXECUTORS
    monkeypatch.setattr(flush, "EXECUTORS", (ready, single, *others))
    x = torch.tensor(np.arange(5.0))
    with own_trie():
        assert (x * 2).tolist() == [0, 2, 4, 6, 8]
        assert last_step()[-1].asked[-1] == ("single op", "")
        torch.tanh(x * 2).tolist()
        assert ("single op", "it has several ops") in last_step()[-1].asked
