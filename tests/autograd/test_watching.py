"""Watchers of backward passes: each is told how a pass ends, even if another fails."""

import pytest

import wend
from wend._frontend.autograd.watching import watch


class Watcher:
    def __init__(self, fault=None):
        self.told, self.fault = [], fault

    def begin_pass(self):
        self.told.append("begin")

    def end_pass(self, kept):
        self.told.append("end")
        if self.fault:
            raise self.fault

    def cancel_pass(self):
        self.told.append("cancel")


def test_watchers_behind_a_failing_one_are_told_of_a_failed_pass():
    watchers = [Watcher(), Watcher(ValueError("a watcher's fault")), Watcher()]
    for watcher in watchers:
        watch(watcher)
    w = wend.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="a watcher's fault"):
        w.sum().backward()
    assert [watcher.told for watcher in watchers] == [
        ["begin", "end"], ["begin", "end"], ["begin", "cancel"]
    ]  # fmt: skip
    watchers[1].fault = None
    w.sum().backward()
    assert [watcher.told[2:] for watcher in watchers] == [["begin", "end"]] * 3


def test_watchers_are_told_of_a_failing_pass():
    watcher = Watcher()
    watch(watcher)
    with pytest.raises(RuntimeError):
        wend.ones(2).sum().backward()
    assert watcher.told == ["begin", "cancel"]
