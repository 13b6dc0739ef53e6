"""Ways of computing in which a bad value is met: `run` takes the numbers of several calls.

good, bad: numbers that keep all values finite, and that make a bad value, on the same path
"""

import wend as torch
from tries import own_trie
from wend._engine.base import config


def new_path(run, good, bad):
    """The first visit of a path is the bad one."""
    with own_trie():
        run([bad])


def planned(run, good, bad):
    """Machine code computes the bad visit."""
    with own_trie(), config.override(compile=True, wait=True):
        for _ in range(3):
            run([good])
        run([bad])


def batched(run, good, bad):
    """Structure off the trie: groups of like ops of several calls run together."""
    with own_trie(sealed=True), torch.autobatch(True):
        run([good, good, good])
        run([good, bad, good])


def fibers(run, good, bad):
    """Calls of `wend.batched`, of which one meets the bad value."""
    with config.override(weigh=False), own_trie():
        run([good, good, good], fibers=True)
        run([good, bad, good], fibers=True)


MODES = (new_path, planned, batched, fibers)
