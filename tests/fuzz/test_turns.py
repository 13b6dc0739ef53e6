"""Random programs of an example give the same in turns as in a loop; others each week."""

import pytest
from test_fuzz import THIS_WEEK
from turns import Program, run_ways

SHARE = 8


@pytest.mark.parametrize(
    ("seed", "share"), [*[(2026, k) for k in range(6)], *[(THIS_WEEK, k) for k in range(4)]]
)
def test_in_turns_as_in_a_loop(seed, share):
    decided = 0
    for number in range(share * SHARE, (share + 1) * SHARE):
        program = Program(seed, number)
        found = run_ways(program)
        assert found in ("", "undecided"), (
            f"python tests/fuzz/turns.py --seed {seed} --first {number} --programs 1\n"
            f"{found}\n{program}"
        )
        decided += not found
    assert decided > SHARE // 2
