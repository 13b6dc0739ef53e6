"""The queue of an accelerator: the ring of argument blocks, and forked processes."""

import ctypes
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.core._select import plain_loader
from wend._engine.runtime.devices import _ring_select, queue


def ring_of(device, size):
    """A ring that begins where the device's begins."""
    whole = device._ring
    device.wait()
    return type(whole)(whole.address, size, whole.launches, whole.most, whole.most_groups)


def test_a_path_of_more_blocks_than_the_ring_holds(accelerator, monkeypatch):
    """Blocks are not written over before their kernels have run."""
    device = queue.accelerator_at(accelerator)
    monkeypatch.setattr(device, "_ring", ring_of(device, 1024))
    x = torch.arange(12.0, device=accelerator).reshape(3, 4)
    made = x
    for k in range(40):  # each sum ends a kernel
        made = made + x.sum(k % 2, keepdim=True).exp() * 1e-9 * k
    array = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    expected = array
    for k in range(40):
        expected = expected + np.exp(array.sum(k % 2, keepdims=True)) * np.float32(1e-9 * k)
    np.testing.assert_allclose(made.cpu().numpy(), expected, rtol=1e-5)


# -- the ring, compiled and not ---------------------------------------------------------------

RINGS = {"compiled": _ring_select.select(), "plain": SimpleNamespace()}
_NAME = "wend._engine.runtime.devices._ring"
RINGS["plain"].__dict__.update(_ring_select.STAND_INS)
exec(plain_loader(_NAME).get_source(_NAME), RINGS["plain"].__dict__)

#: Facts about functions: handle, items, whether turns take groups, words, sizes (word, unit).
FACTS = [
    [501, 64, 0, 3, 1, 0, 1],
    [502, 128, 1, 5, 2, 0, 4, 3, 1],
    [503, 1, 0, 2, 0],
]  # fmt: skip


class Calls:
    """The memory of rounds of calls: (function, [(words, scratch word or None), ...]) each."""

    def __init__(self, rounds):
        self.kept, words = [], []
        for function, calls in rounds:
            for k, (block, scratch) in enumerate(calls):
                block = np.array(block, np.int64)
                pairs = np.zeros(0, np.int64)
                if scratch is not None:
                    pairs = np.array([block.ctypes.data + 8 * scratch, 256], np.int64)
                self.kept += [block, pairs]
                number = len(calls) if k == 0 else 0
                words += [function, block.ctypes.data, number, pairs.ctypes.data, len(pairs) // 2]
        self.words = np.array(words, np.int64)
        self.facts = [np.array(row, np.int64) for row in FACTS]
        self.functions = np.array([row.ctypes.data for row in self.facts], np.int64)


def launches_of(make, rounds, size, most):
    """Each launch: (handle, groups, items, number, guard, [(first group, words), ..], groups)."""
    memory, listed = np.zeros(size // 8, np.int64), np.zeros(5 * most, np.int64)
    ring = make(memory.ctypes.data, size, listed.ctypes.data, most, 1 << 14)
    calls = Calls(rounds)
    ring.at = calls.words.ctypes.data
    end = ring.at + calls.words.nbytes
    found = []
    while ring.at < end:
        before = ring.at
        ring.add_rounds(end, calls.functions.ctypes.data, 1000, 77)
        for handle, place, groups, items, number in listed[: 5 * ring.count].reshape(-1, 5):
            guard, n = memory[place // 8 : place // 8 + 2]
            table = memory[place // 8 + 2 :]
            length = FACTS[number][3]
            blocks = [
                (int(table[2 * k]), memory[int(table[2 * k + 1]) // 8 :][:length].tolist())
                for k in range(n)
            ]
            facts = (int(handle), int(groups), int(items), int(number), int(guard))
            found.append((*facts, blocks, int(table[2 * n])))
        assert ring.next <= size and (ring.at > before or ring.next > 0)
        if ring.count < most:
            ring.next = 0
        ring.count = 0
    return found


ROUNDS = [
    (0, [([100, 1, 2], None), ([0, 1, 2], None), ([64, 3, 4], 2)]),
    (1, [([9, 1, 2, 5, 4], 4)]),
    (2, [([k, k], None) for k in range(40)]),
    (0, [([0, 7, 7], 1)]),
    (1, [([1 << 40, 1, 2, 5, 4], None)]),
]  # fmt: skip


@pytest.mark.parametrize("kind", RINGS)
def test_launches_have_the_blocks_and_groups_of_their_calls(kind):
    found = launches_of(RINGS[kind].Ring, ROUNDS, 1 << 14, 16)
    assert found == [
        (501, 3, 64, 0, 77, [(0, [100, 1, 2]), (2, [64, 3, 1256])], 3),
        (502, 15, 128, 1, 77, [(0, [9, 1, 2, 5, 1256])], 15),
        (503, 40, 1, 2, 77, [(k, [k, k]) for k in range(40)], 40),
        (502, 1 << 14, 128, 1, 77, [(0, [1 << 40, 1, 2, 5, 4])], 1 << 14),
    ]


@pytest.mark.parametrize("kind", RINGS)
@pytest.mark.parametrize(("size", "most"), [(256, 16), (512, 2), (1 << 14, 1)])
def test_a_small_ring_takes_rounds_in_parts(kind, size, most):
    found = launches_of(RINGS[kind].Ring, ROUNDS, size, most)
    whole = launches_of(RINGS[kind].Ring, ROUNDS, 1 << 14, 16)

    def blocks(launches):
        return [(row[0], words) for row in launches for _, words in row[5]]

    assert blocks(found) == blocks(whole)
    assert sum(row[1] for row in found) == sum(row[1] for row in whole)


def test_a_block_larger_than_the_ring_is_refused(accelerator, monkeypatch):
    unit = queue.accelerator_at(accelerator)
    monkeypatch.setattr(unit, "_ring", ring_of(unit, 64))
    x = torch.ones(3, device=accelerator)
    with own_trie(), pytest.raises(RuntimeError, match="an argument block is larger than 64 B"):
        (x + 1).sum().item()


@pytest.mark.parametrize("kind", RINGS)
@pytest.mark.parametrize("fails_at", [None, 1])
def test_drivers_get_each_launch_of_a_list(kind, fails_at):
    seen = []

    def cuda(function, x, y, z, items, *rest):
        words = (ctypes.c_int64 * 1).from_address(ctypes.c_int64.from_address(rest[4] + 8).value)
        ring = (ctypes.c_int64 * 1).from_address(ctypes.c_int64.from_address(rest[4]).value)
        seen.append((function, x, items, rest[3], ring[0], words[0]))
        return 9 if len(seen) - 1 == fails_at else 0

    rows = np.array([[11, 64, 3, 128, 0], [12, 192, 1, 32, 0], [13, 256, 2, 1, 0]], np.int64)
    pointer = _ring_select.CUDA_LAUNCH(cuda)
    address = ctypes.cast(pointer, ctypes.c_void_p).value
    status = RINGS[kind].by_cuda(address, 5, 4096, rows.ctypes.data, 3)
    launches = [(11, 3, 128, 5, 4096, 64), (12, 1, 32, 5, 4096, 192), (13, 2, 1, 5, 4096, 256)]
    assert (status, seen) == ((0, launches) if fails_at is None else (9, launches[:2]))


def test_the_uncompiled_core_trains_on_a_device(accelerator):
    """In a process of its own: a process has one core."""
    program = f"""
import wend as torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
net.to({str(accelerator)!r})
x = torch.arange(12.0).reshape(4, 3).to({str(accelerator)!r}) / 12
optimizer = torch.optim.Adam(net.parameters(), 0.01)
for _ in range(5):
    optimizer.zero_grad()
    loss = (net(x) - 1).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
    said = [
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "WEND_PURE": pure},
            check=True, capture_output=True, text=True,
        ).stdout
        for pure in ("", "1")
    ]  # fmt: skip
    assert said[0] == said[1]
    assert len(said[0].split()) == 5


# -- forked processes -------------------------------------------------------------------------


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
