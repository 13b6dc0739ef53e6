"""The bar of an example: drawn in a terminal, and nowhere else."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

COMMAND = [
    sys.executable, "-m", "wend", "run", str(ROOT / "examples" / "sizes.py"), "--steps", "3"
]  # fmt: skip


def test_no_bar_in_a_file(run_example):
    metrics, printed = run_example("wend", "sizes", "--steps", 3)
    assert len(metrics["losses"]) == 3 and "it/s" not in printed


def test_a_bar_in_a_terminal():
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    each = {**os.environ, "TQDM_MININTERVAL": "0"}  # the bar is drawn at each step
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=theirs, env=each) as process:
        os.close(theirs)
        drawn = b""
        try:
            while piece := os.read(ours, 4096):
                drawn += piece
        except OSError:  # the other end is closed
            pass
        printed = process.stdout.read()
        assert process.wait(timeout=120) == 0
    os.close(ours)
    assert b"training" in drawn and b"3/3" in drawn
    assert b"training:" not in printed and b"training, sizes taking turns" in printed
