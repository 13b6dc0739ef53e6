"""Programs that run under Wend and, where it is installed, under PyTorch, and must agree."""

import sys
from pathlib import Path

import pytest

import wend
import wend.autograd
import wend.utils.checkpoint

sys.path.insert(0, str(Path(__file__).parent))  # for `agreement`, which lies beside the tests


@pytest.fixture
def agree():
    """agree(program): program(lib) gives the same under both libraries; returns Wend's result.

    The program is run under Wend in three ways: as it stands, again (a known path), and with a
    flush after every op.
    """
    from agreement import check, plain, torch  # here: the smoke tests do without PyTorch

    def run(program):
        found = plain(program(wend))
        check(plain(program(wend)), found, "the second run")
        with wend.eager():
            check(plain(program(wend)), found, "run op by op")
        if torch is not None:
            check(found, plain(program(torch)))
        return found

    return run
