"""The queue of an accelerator: the ring of argument blocks, and forked processes."""

import os

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.runtime.devices import queue


def test_a_path_of_more_blocks_than_the_ring_holds(accelerator, monkeypatch):
    """Blocks are not written over before their kernels have run."""
    device = queue.accelerator_at(accelerator)
    monkeypatch.setattr(queue, "RING", 1024)
    device._next = 0
    x = torch.arange(12.0, device=accelerator).reshape(3, 4)
    made = x
    for k in range(40):  # each sum ends a kernel
        made = made + x.sum(k % 2, keepdim=True).exp() * 1e-9 * k
    array = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    expected = array
    for k in range(40):
        expected = expected + np.exp(array.sum(k % 2, keepdims=True)) * np.float32(1e-9 * k)
    np.testing.assert_allclose(made.cpu().numpy(), expected, rtol=1e-5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_is_told(accelerator):
    """A child cannot use what its parent has opened: it says so, instead of waiting for ever."""
    x = torch.ones(3, device=accelerator)
    assert (x + 1).sum().item() == 6
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        try:
            with own_trie():  # elsewhere a path may be known not to come back: NumPy computes those
                (x * 3).sum().item()
            os.write(sink, b"computed")
        except RuntimeError as error:
            os.write(sink, str(error).encode())
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    assert "forked process" in answer, answer
    assert (x + 1).sum().item() == 6
