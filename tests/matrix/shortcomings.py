"""What cases of the matrix do not do yet, with the reason: a repair takes lines away."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

from matrix.cases import Case

#: See `program.TOLERANCE`.
TOLERANCE = 1e-4
#: The most calls of the compiler's passes: for the first kernels of a kind, and for each op that is
#: planned. Most cases take 400 to 600 an op.
AT_FIRST, FOR_EACH = 100_000, 1_000

#: (reason, fault, patterns of cases). Some of these cases do well at times: whether machine code is
#: there by the tenth step is a matter of time, as plans are made beside the program.
SHORTCOMINGS: list[tuple[str, str, list[str]]] = [
    (
        "the kernels of convolutions take a tenth more passes where vectors have 512 bits",
        "planning",
        ["conv1d,sgd,100,16,256,fixed", "conv2d,sgd,24,64,8,shuffled"],
    ),
    (
        "a loop over words is a path of its own for each length, which runs by the reference until "
        "the length has come three times",
        "reference",
        ["rnn_cell*,varying", "gru_cell*,varying", "lstm_cell*,varying"],
    ),
    (
        "each of three batches has come three times by the tenth step, and is planned beside the "
        "program from then on",
        "reference",
        [
            *["rnn_cell*,repeated", "gru_cell*,repeated", "lstm_cell*,repeated"],
            *["rnn_cell*,shuffled", "gru_cell*,shuffled", "lstm_cell*,shuffled"],
        ],
    ),
]


def faults(counts: dict[str, Any]) -> list[str]:
    """What is wrong with a case: names of faults."""
    if "ended" in counts:
        return ["ended"]
    found = []
    if counts["reference"]:
        found.append("reference")
    if counts["planning"] > AT_FIRST + FOR_EACH * counts["planned"]:
        found.append("planning")
    if not counts["apart"] <= TOLERANCE:
        found.append("numbers")
    return found


def listed(case: Case) -> dict[str, str]:
    """The faults that a case is known to have at times, with their reasons."""
    return {
        fault: reason
        for reason, fault, patterns in SHORTCOMINGS
        if any(fnmatch(str(case), pattern) for pattern in patterns)
    }


def unlisted(case: Case, counts: dict[str, Any]) -> str:
    """Text about faults that are not listed; "" for none."""
    known = listed(case)
    texts = [f"has the fault '{fault}'" for fault in faults(counts) if fault not in known]
    return f"{case} {' and '.join(texts)}: {counts}" if texts else ""
