"""Exports of random programs that ask for sizes give no other result at other sizes."""

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from sizes import Program, run_ways, verdict

SHARES, SHARE = 20, 5
#: These have three loops within each other's branches, and take a minute each to explore.
LONG = {17, 80}
NUMBERS = [number for number in range(SHARES * SHARE + len(LONG)) if number not in LONG]


#: Found by long runs (seed, number): an error that only some values lead to was left out; extents
#: of a point that several ways come to were those of one way.
FOUND = ((11, 50), (11, 207), (11, 218))


def check(seed, number):
    program = Program(seed, number)
    for way, counts in run_ways(program).items():
        assert verdict(counts) != "wrong", (
            f"python tests/fuzz/sizes.py --seed {seed} --first {number} --programs 1\n"
            f"{way}: {counts}\n{program.source}"
        )


@pytest.mark.parametrize("share", range(SHARES))
def test_no_export_is_wrong_at_another_size(share):
    for number in NUMBERS[share * SHARE : (share + 1) * SHARE]:
        check(2026, number)


@pytest.mark.parametrize(("seed", "number"), FOUND)
def test_programs_that_were_wrong(seed, number):
    check(seed, number)
