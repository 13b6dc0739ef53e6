"""`wend.debug.break_when`: stops at the user's line where a value fits."""

import io
import pdb  # noqa: T100
import sys

import numpy as np
import pytest

import wend as torch
from wend import debug, nn


class Squares(nn.Module):
    def forward(self, x):
        for _ in range(4):
            x = x * x
        return x


def test_the_line_and_the_variables_are_the_users():
    seen = []

    def look(frame, op):
        seen.append((frame.f_code.co_name, op, float(frame.f_locals["x"].numpy().max())))

    with debug.break_when(lambda value, op: np.max(value) > 1000, look):
        y = Squares()(torch.tensor([2.0, 3.0], dtype=torch.float64))
    assert [row[:2] for row in seen] == [("forward", "mul")] * 2
    assert seen[0][2] == 81.0  # before the assignment of the result: 81 * 81
    assert y.tolist() == [2.0**16, 3.0**16]


def test_only_what_fits_stops():
    seen = []
    with debug.break_when(lambda value, op: op == "exp", lambda frame, op: seen.append(op)):
        x = torch.ones(3)
        (x.sin() + x.exp()).sum()
    x.exp().tolist()
    assert seen == ["exp"]


def test_the_debugger_begins_at_the_next_line(monkeypatch, capsys):
    commands = io.StringIO("p float(h.sum())\np (h * 2).tolist()\ncontinue\n")
    plain = pdb.Pdb.__init__

    def make(self, *args, **kwargs):
        plain(self, *args, stdin=commands, stdout=sys.stdout, nosigint=True, **kwargs)

    monkeypatch.setattr(pdb.Pdb, "__init__", make)

    def function(x):
        h = x.log()
        return h + 1

    with debug.break_when(lambda value, op: op == "log" and np.isinf(value).any()):
        y = function(torch.tensor([1.0, 0.0]))
    shown = capsys.readouterr().out
    assert "break_when: the result of log at line" in shown
    assert "return h + 1" in shown and "-inf" in shown and "[0.0, -inf]" in shown
    assert y.tolist() == [1.0, -np.inf]


def test_errors_and_the_end():
    with pytest.raises(TypeError, match="expected condition to be a function"):
        debug.break_when(3).__enter__()

    def fails(value, op):
        raise KeyError(op)

    x = torch.ones(2)
    with pytest.raises(KeyError, match="add"), debug.break_when(fails):
        (x + 1).tolist()
    assert (torch.ones(2) + 2).tolist() == [3, 3]
