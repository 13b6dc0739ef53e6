"""Looks at the clock between the rounds of a frame: each call is made once, in order."""

from types import SimpleNamespace

from wend._engine.runtime.compiled.argument_layout import CALL_WORDS
from wend._engine.runtime.measure.clocked_frames import clocked_steps


def test_a_look_comes_before_each_round_and_all_calls_are_made():
    blocks = {0: [[1, 2], [3]], 1: [[4, 5, 6]], 3: [[7]]}
    schedules = {
        k: SimpleNamespace(stages=[SimpleNamespace(blocks=found) for found in stages])
        for k, stages in blocks.items()
    }
    host = object()
    code = SimpleNamespace(steps=["first", "second", host, "last"])
    rounds = {0: [[(0, 0)], [(0, 1)], [(1, 0)]], 3: [[(3, 0)]]}
    skeleton = SimpleNamespace(code=code, rounds=rounds, schedules=schedules)
    made = clocked_steps([(0, 1000, 6), (1, host), (0, 3000, 1)], skeleton)
    calls = [step for step in made if step[0] == 0]
    assert calls == [(0, 1000, 3), (0, 1000 + 8 * CALL_WORDS * 3, 3), (0, 3000, 1)]
    looks = [
        (step[1].steps, step[1].first) for step in made if step[0] == 1 and step[1] is not host
    ]
    assert looks == [((0,), True), ((1,), False), ((2,), False), ((3,), False), ((), False)]
    assert made.index((1, host)) == 5
