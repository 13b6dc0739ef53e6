"""Signals that come while kernels run: a handler's exception ends the run, and nothing is lost."""

import random
import signal
import traceback
from contextlib import contextmanager

import numpy as np
import pytest

import wend as torch
from interrupting import Check, Course, Cut, timer
from training_loops import Loop, data
from wend import nn
from wend._engine.base import config
from wend._engine.core._select import is_compiled
from wend._engine.runtime.native.launcher import launcher

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="there is no timer that sends signals here"
)
compiled = pytest.mark.skipif(
    not is_compiled(launcher), reason="uncompiled, each call of a kernel is a call of Python"
)


@pytest.fixture(autouse=True)
def at_once(own_trie):
    """Plans are compiled before their first run; each call of a kernel is a time for signals."""
    launcher.look_after(0)
    with config.override(compile=True, wait=True):
        yield
    launcher.look_after(200_000_000)


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


class Wide(Loop):
    """Steps of which nearly all time goes to kernels, with statistics and two kinds of state."""

    def make(self):
        first = nn.BatchNorm1d(128)  # its statistics are of the data: the same in each pass
        rest = [nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 64)]
        return nn.Sequential(first, *rest)

    def loss(self):
        return self.model(data(1, 400, 128)).pow(2).mean()

    def turn(self):
        """Each action computes what it has recorded; seldom, all is computed by the last one."""
        self.turns = getattr(self, "turns", 0) + 1
        for name, action in super().turn():

            def work(name=name, action=action):
                action()
                if name == "step" or self.turns % 4:
                    torch.synchronize()

            yield name, work


def in_kernels(error):
    """Whether an exception came while a plan's kernels ran."""
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return names[-1] == "ring" and names[-2].endswith((".launch", ".launch_at"))


@compiled
def test_a_run_ends_at_the_next_call(threads):
    """The product of the chain that is running is the last; later reads compute the rest."""
    w = torch.tensor(np.random.default_rng(0).normal(size=(400, 400)) / 20)

    def chain():
        x = w
        for _ in range(8):
            x = torch.tanh(x @ w)
        return x

    expected = chain().numpy().copy()
    ended, draw = 0, random.Random(0)
    for _ in range(400):
        x = chain()
        try:
            with timer(draw.uniform(1e-4, 2e-2), Cut()):
                x.numpy()
        except Cut as error:
            ended += in_kernels(error)
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-12)
        if ended == 5:
            break
    assert ended == 5


@compiled
def test_training_goes_on_after_runs_that_were_ended(threads):
    """Steps are made or are not, although optimizers write over their parameters."""
    course, draw = Course(Wide, 60), random.Random(1)
    check = Check(Wide, course)
    ended = []

    @contextmanager
    def around():
        try:
            with timer(10 ** draw.uniform(-4, -1.7), Cut()):
                yield
        except Cut as error:
            ended.append(in_kernels(error))
            raise

    for _ in range(50):
        check.turn(around)
    assert any(ended)
