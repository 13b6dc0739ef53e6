"""Random states: seeds, reservations, substreams, and Philox itself."""

import copy
import os
import pickle
import threading
from itertools import pairwise

import pytest

from wend._engine.base import random_state
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.base.random_state import RandomState, as_signed, normalize_seed, philox


@pytest.mark.smoke
def test_philox_gives_the_published_words():
    """Known answers for philox4x32 with 10 rounds, from the authors' Random123."""
    ones = 0xFFFFFFFF
    cases = [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ones,) * 4, (ones,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ]
    for counter, key, words in cases:
        assert philox(counter, key) == words


def test_seeds():
    assert normalize_seed(-1) == 2**64 - 1
    assert normalize_seed(7.0) == 7
    assert as_signed(2**64 - 1) == -1
    for bad in (2**64, -(2**63) - 1):
        with pytest.raises(ArgumentError, match="out of range"):
            normalize_seed(bad)
    for bad in ("7", None, 1.5, True):
        with pytest.raises(ArgumentTypeError, match="must be an int"):
            normalize_seed(bad)


def test_reservations_never_overlap():
    state = RandomState(5)
    spans = [(state.reserve(n)[1], n) for n in (3, 0, 1, 8, 5)]
    for (start, count), (after, _) in pairwise(spans):
        assert start + count <= after
        assert after % 2 == 0
    assert state.reserve(1)[0] == 5


def test_reservations_from_threads_never_overlap():
    state = RandomState(5)
    taken = []

    def work():
        taken.extend(state.reserve(2)[1] for _ in range(500))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(taken)) == 2000


def test_state_can_be_saved():
    state = RandomState(2**64 - 3)
    state.reserve(1000)
    saved = state.get_state()
    expected = state.reserve(5)
    state.set_state(saved)
    assert state.reserve(5) == expected
    for twin in (pickle.loads(pickle.dumps(state)), copy.deepcopy(state), state.clone()):
        assert (twin.seed, twin.offset) == (state.seed, state.offset)
    with pytest.raises(ArgumentError, match="16 bytes, and 3 were given"):
        state.set_state(b"abc")


def test_substreams_depend_on_seed_call_and_example_only():
    state = RandomState(9)
    first = state.substream(2, 3).seed
    state.reserve(100)
    assert state.substream(2, 3).seed == first
    seeds = {
        RandomState(s).substream(c, e).seed for s in range(3) for c in range(9) for e in range(9)
    }
    assert len(seeds) == 243


def test_swapped_state_is_this_threads_only():
    mine = RandomState(1)
    before = random_state.swap(mine)
    try:
        assert random_state.current() is mine
        seen = []
        thread = threading.Thread(target=lambda: seen.append(random_state.current()))
        thread.start()
        thread.join()
        assert seen == [random_state.default]
    finally:
        random_state.swap(before)
    assert random_state.current() is not mine


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_can_draw_while_the_parent_held_the_lock():
    read, write = os.pipe()
    with random_state.default._lock:
        child = os.fork()
        if child == 0:
            os.write(write, str(random_state.default.reserve(2)[1] % 2).encode())
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"0"
    os.close(read)
    os.close(write)
