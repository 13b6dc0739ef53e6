"""Gradients and switches in several threads."""

import gc
import threading

import numpy as np
import pytest

import wend as torch
from wend._engine.core import _hot, _modules, _siblings
from wend._engine.core._select import is_compiled


def leaf(*numbers):
    return torch.tensor(list(numbers), requires_grad=True)


def test_backward_through_another_threads_graph():
    x = leaf(1.0, 2.0)
    made = []

    def forward():
        made.append((x * x).exp())

    for _ in range(3):
        thread = threading.Thread(target=forward)
        h = x * 3
        thread.start()
        thread.join()
        y = (made.pop() * h).sum()
        (g,) = torch.autograd.grad(y, x)
        v = np.array([1.0, 2.0])
        e = np.exp(v * v)
        np.testing.assert_allclose(g.numpy(), 3 * e + 3 * v * 2 * v * e, rtol=1e-5)


def test_threads_have_switches_of_their_own():
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_backward_in_several_threads():
    w = leaf(2.0)
    failed = []

    def work(k):
        try:
            for i in range(50):
                x = torch.tensor([float(k + i)])
                (g,) = torch.autograd.grad((w * w * x).sum(), w)
                np.testing.assert_allclose(g.numpy(), [4.0 * (k + i)], rtol=1e-4)
        except Exception as error:  # shown by the assertion below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_thread_that_ends_leaves_no_switch_to_the_next():
    """The next thread may have the same number."""
    seen = []

    def work():
        seen.append(torch.is_grad_enabled())
        torch.set_grad_enabled(False)
        torch.ones(2) + 1  # pending to the end

    for _ in range(4):
        in_a_thread(work)
    assert seen == [True] * 4


def test_what_a_thread_had_pending_is_let_go_with_it():
    for _ in range(5):
        in_a_thread(lambda: torch.ones(3) * 2)
    torch.ones(2).tolist()
    gc.collect()
    assert not _hot.several()
    assert len(_siblings.traces()) == 1


def test_what_a_thread_had_pending_is_computed_when_it_is_read():
    kept = []
    in_a_thread(lambda: kept.append(torch.ones(3) * 2 + 1))
    gc.collect()
    assert kept[0].tolist() == [3.0, 3.0, 3.0]
    kept.clear()
    gc.collect()
    assert not _hot.several()


@pytest.mark.skipif(not is_compiled(_hot), reason="each step of the uncompiled core is a turn")
def test_a_walk_does_not_wait_for_a_thread_that_writes():
    """The writer goes on only when the backward pass, which is walked for its hook, has ended."""
    writes, done, seen = threading.Event(), threading.Event(), []

    def write():
        torch.ones(1).tolist()  # a thread that records
        with _modules.WriteBlock():
            writes.set()
            done.wait(60)

    def work():
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: seen.append(g.tolist()))
        (y * 3).sum().backward()
        seen.append(x.grad.tolist())
        done.set()

    threads = [threading.Thread(target=write), threading.Thread(target=work)]
    threads[0].start()
    assert writes.wait(60)
    threads[1].start()
    in_time = done.wait(30)
    done.set()
    for thread in threads:
        thread.join()
    assert in_time
    assert seen == [[3.0] * 3, [6.0] * 3]
