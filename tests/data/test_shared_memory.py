"""Tensors between processes: shared memory, `spawn`, errors that come back."""

from __future__ import annotations

import os

import pytest

import wend
from wend import multiprocessing as mp

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no files without a name")


def train(i, model, counts):
    """Three steps on a shared model."""
    optimizer = wend.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(wend.ones(1, 2)).sum().backward()
        optimizer.step()
    counts[i] += 10 + i
    wend.synchronize()


def fail(i):
    if i == 1:
        raise ValueError("as planned")


def leave(i):
    os._exit(3)


def answer(i, queue, done):
    """Send shared and other tensors, and wait until they have been read."""
    shared = wend.arange(4.0).share_memory_()
    queue.put((shared, shared[1:3], wend.arange(3)))
    done.wait(30)
    assert shared.tolist() == [0.0, 7.0, 2.0, 3.0]


def test_memory_is_shared_when_asked_for():
    x = wend.arange(4.0)
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.is_shared()
    assert x[1:].is_shared()
    x[1:] += 1
    assert x.tolist() == [0.0, 2.0, 3.0, 4.0]
    assert not (x + 1).is_shared()
    model = wend.nn.Linear(2, 1).share_memory()
    assert all(p.is_shared() and p.is_leaf for p in model.parameters())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_train_a_shared_model(method):
    model = wend.nn.Linear(2, 1).share_memory()
    before = model.bias.item()
    counts = wend.zeros(1).share_memory_()
    mp.start_processes(train, (model, counts), nprocs=1, start_method=method)
    assert counts.tolist() == [10.0]
    assert model.bias.item() == pytest.approx(before - 0.3, abs=1e-6)


def test_errors_come_back():
    with pytest.raises(mp.ProcessRaisedException, match="as planned") as caught:
        mp.start_processes(fail, nprocs=2, start_method="fork")
    assert caught.value.error_index == 1
    with pytest.raises(mp.ProcessExitedException, match="exit code 3") as caught:
        mp.start_processes(leave, nprocs=1, start_method="fork")
    assert caught.value.exit_code == 3


def test_queues_hand_memory_over():
    context = mp.get_context("fork")
    queue, done = context.Queue(), context.Event()
    started = mp.start_processes(answer, (queue, done), join=False, start_method="fork")
    shared, part, other = queue.get(timeout=30)
    assert (shared.is_shared(), part.is_shared(), other.is_shared()) == (True, True, False)
    assert (part.tolist(), other.tolist()) == ([1.0, 2.0], [0, 1, 2])
    shared[1] = 7.0
    wend.synchronize()
    assert part.tolist() == [7.0, 2.0]
    done.set()
    while not started.join():
        pass
    with pytest.raises(RuntimeError, match="non-leaf"):
        mp.reduce_tensor(wend.ones(1, requires_grad=True) * 2)
