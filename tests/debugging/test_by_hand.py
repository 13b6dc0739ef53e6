"""Debugging by hand: `breakpoint()` and pdb in a forward pass, conditions, `wend.eager`."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import wend
from wend import nn
from wend._engine.core import _hot, _select

PROGRAM = """
import wend
from wend import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(2, 2), nn.Linear(2, 1)

    def forward(self, x):
        h = self.enter(x)
        STOP
        h = h.relu()  # first
        h = h * 2  # second
        return self.leave(h)

wend.manual_seed(0)
model = Model()
with wend.no_grad():
    for p in model.parameters():
        p.fill_(0.5)
for k in range(4):
    y = model(wend.full((1, 2), float(k)))
    y.sum().backward()
print("result", y.tolist(), model.enter.bias.grad.tolist())
"""
RESULT = "result [[7.5]] [4.0, 4.0]"


def line_of(text):
    return next(k for k, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith(text))


def debugged(tmp_path, commands, stop="pass", through=()):
    """What a program and its debugger print; the commands are typed in."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.replace("STOP", stop), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *through, str(script)], input=textwrap.dedent(commands), text=True,
        capture_output=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_breakpoint_in_a_forward_pass(tmp_path):
    commands = "p h\np list(h.shape)\nnext\np h.tolist()\nnext\np h.tolist()\nwhere\n"
    commands += "p h.grad_fn.name()\ncontinue\n" + "continue\n" * 3
    said = debugged(tmp_path, commands, "breakpoint()")
    assert "tensor([[0.5000, 0.5000]]" in said and "[1, 2]" in said
    assert "[[1.0, 1.0]]" in said  # doubled, one step on
    assert "MulBackward0" in said
    assert "program.py" in said and "forward()" in said
    assert RESULT in said


def test_steps_enter_and_leave_modules(tmp_path):
    """`step` at a call of a layer stops inside of it; `up` leads back."""
    commands = "next\nnext\nstep\nwhere\np input.tolist()\nup\np h.tolist()\ncontinue\n"
    if not _select.is_compiled(_hot):
        pytest.skip("calls of modules are functions of Python, where `step` stops too")
    said = debugged(tmp_path, commands, "breakpoint() if x.sum() == 0 else None")
    assert "linear.py" in said and "def forward(self, input" in said
    assert said.count("[[1.0, 1.0]]") >= 2
    assert RESULT in said


def test_a_change_by_hand_counts(tmp_path):
    commands = "!h = h + 1\n" + "continue\n" * 4
    said = debugged(tmp_path, commands, "breakpoint() if x.sum() == 6 else None")
    assert "result [[9.5]] [4.0, 4.0]" in said


def test_a_breakpoint_that_waits_for_a_value(tmp_path):
    """The condition is a tensor of one element, which Python takes as true or false."""
    commands = f"break {line_of('# second')}, h.max() > 2\ncontinue\np h.tolist()\ncontinue\n"
    commands += "continue\nquit\n"
    said = debugged(tmp_path, commands, through=("-m", "pdb"))
    assert said.count(f"program.py({line_of('# second')})forward()") == 2  # of four passes
    assert "[[2.5, 2.5]]" in said
    assert RESULT in said


def test_lines_are_computed_at_once_in_eager():
    x = wend.ones(3, requires_grad=True)
    assert (x * 2).value.buffer is None
    with wend.eager():
        y = x * 2
        assert y.value.buffer is not None
        z = y.exp()
        assert z.value.buffer is not None
    z.sum().backward()
    assert np.allclose(x.grad.numpy(), 2 * np.exp(2.0), rtol=1e-6)


def test_eager_raises_on_the_line():
    places, rows = wend.arange(4) * 2, []
    with pytest.raises(IndexError, match="index 4 is out of bounds") as caught, wend.eager():
        rows.append(wend.ones(4)[places])
        rows.append("behind")
    assert rows == []
    entry = next(entry for entry in caught.traceback if entry.path == Path(__file__))
    assert "wend.ones(4)[places]" in str(entry.statement)


@pytest.mark.parametrize("way", ["recorded", "eager"])
def test_prints_in_a_forward_pass_change_nothing(way, capsys):
    """A print computes; results and gradients stay the same."""

    class Loud(nn.Module):
        def __init__(self, loud):
            super().__init__()
            self.enter, self.leave, self.loud = nn.Linear(3, 4), nn.Linear(4, 2), loud

        def forward(self, x):
            h = self.enter(x).tanh()
            if self.loud:
                print("h:", h[0, 0].item(), h.shape)
            return self.leave(h)

    quiet, loud = Loud(False), Loud(True)
    loud.load_state_dict(quiet.state_dict())
    x = wend.randn(5, 3)
    with wend.eager(way == "eager"):
        for model in (quiet, loud):
            model(x).square().sum().backward()
    assert re.fullmatch(r"h: -?\d.* torch.Size\(\[5, 4\]\)\n", capsys.readouterr().out)
    for a, b in zip(quiet.parameters(), loud.parameters(), strict=True):
        assert np.allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5, atol=1e-6)
