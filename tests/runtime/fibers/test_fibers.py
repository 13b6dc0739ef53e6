"""Fibers: the thread's state while they run, and whose paths may come back."""

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.core import _hot
from wend._engine.runtime import flush
from wend._engine.runtime.fibers.fibers import _Surroundings


def test_all_of_a_threads_state_is_restored():
    """A fiber may be left while it explores a function, or in another mode."""
    trace = _hot.current_trace()
    kept = _Surroundings(trace)
    before = [getattr(kept, name) for name in _Surroundings.__slots__]
    try:
        trace.symbolic, trace.eager, trace.site_lasti = object(), not trace.eager, 7
        assert _Surroundings(trace).symbolic is not kept.symbolic
    finally:
        kept.enter(trace)
    after = _Surroundings(trace)
    assert [getattr(after, name) for name in _Surroundings.__slots__] == before


def test_the_path_of_a_single_call_comes_back():
    """What many calls have recorded together hardly comes back; a single call's path does."""
    run = torch.batched(lambda x: torch.tanh(x * 2).sum())
    # Machine code that is ready runs without a search for the plan, which is what is counted.
    with own_trie(), torch.autobatch(True), config.override(compile=False):
        found = []
        for turn in range(4):
            hits = flush.COUNTS["hits"]
            (y,) = run([torch.full((3,), float(turn))])
            y.item()
            found.append(flush.COUNTS["hits"] - hits)
    assert found[0] == 0 and all(found[2:])
