"""Exports of random programs that ask for sizes give no other result at other sizes."""

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from sizes import Program, run_ways, verdict

SHARES, SHARE = 20, 5
#: These have three loops within each other's branches, and take a minute each to explore.
LONG = {17, 80}
NUMBERS = [number for number in range(SHARES * SHARE + len(LONG)) if number not in LONG]


@pytest.mark.parametrize("share", range(SHARES))
def test_no_export_is_wrong_at_another_size(share):
    for number in NUMBERS[share * SHARE : (share + 1) * SHARE]:
        program = Program(2026, number)
        for way, counts in run_ways(program).items():
            assert verdict(counts) != "wrong", (
                f"python tests/fuzz/sizes.py --seed 2026 --first {number} --programs 1\n"
                f"{way}: {counts}\n{program.source}"
            )
