"""`wend verify`: a script is run several times, and the first place where runs part is told.

The script runs as it is on Wend and op by op on the NumPy executor, from the same seed: equal
draws, equal weights. Where PyTorch is installed, there are two more runs, on Wend and on PyTorch,
with draws and initial weights in common (`draws.py`). Wend and PyTorch have separate streams of
random numbers. Each run writes a journal (`journal.py`) of losses, gradients, parameters and
printed lines. Journals are compared in order, by a tolerance for each dtype.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from wend._frontend.progress import ProgressLine

__all__ = ["Parting", "compare", "main"]

#: How far elements may be apart, relative to the tensor's largest element: rounding of many steps.
TOLERANCE = {
    "float64": 1e-6,
    "complex128": 1e-6,
    "float32": 1e-3,
    "complex64": 1e-3,
    "float16": 5e-2,
    "bfloat16": 5e-2,
}
#: A gradient below this, relative to the largest of the step, is rounding.
ROUNDING = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2}
PRINTED = 1e-3  # of numbers in a printed line
_LOOK_SECONDS = 0.5  # between two looks at a run
USAGE = """\
usage: wend verify [OPTIONS] SCRIPT [ARGS ...]
  --torch            compare with PyTorch as well; fails if it is not installed
  --no-torch         do not (without either: where PyTorch is installed)
  --tolerance T      for all dtypes, or DTYPE=T for one; may be repeated
exit status: 0 equal, 1 the runs part, 2 a run failed or the command was called wrongly
"""
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)")
_OF_TIME = re.compile(r"\btime|elapsed|\d\s?(s|ms|us|sec|min)\b|seconds|it/s|/s\b|\d:\d\d", re.I)


@dataclass
class Options:
    """The options given to the command."""

    script: list[str]
    torch: bool | None = None  # None: where PyTorch is installed
    tolerance: dict[str, float] = field(default_factory=lambda: dict(TOLERANCE))


@dataclass
class Parting:
    """The first place where two runs part."""

    step: int
    name: str
    line: str
    how: str

    def __str__(self) -> str:
        place = f"\n  at {self.line}" if self.line else ""
        return f"step {self.step}: {self.name}: {self.how}{place}"


# -- the command --------------------------------------------------------------------------------


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    if list(words[:1]) in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    try:
        options = parse(list(words))
    except ValueError as fault:
        # The command line is wrong: said with the usage on standard error, exit status 2.
        print(f"wend verify: {fault}\n{USAGE}", end="", file=sys.stderr)
        return 2
    installed = importlib.util.find_spec("torch") is not None
    if options.torch and not installed:
        print("wend verify: --torch was given, and PyTorch is not installed", file=sys.stderr)
        return 2
    pairs = [("asis", "reference")]
    if options.torch or (options.torch is None and installed):
        pairs.append(("shared", "torch"))
    with tempfile.TemporaryDirectory(prefix="wend-verify-") as folder:
        return verify(options, pairs, folder)


def parse(words: list[str]) -> Options:
    """The options and the script. Raises ValueError."""
    options = Options([])
    while words and words[0].startswith("-"):
        name = words.pop(0)
        if name in ("--torch", "--no-torch"):
            options.torch = name == "--torch"
        elif name.partition("=")[0] == "--tolerance":
            value = name.partition("=")[2] or (words.pop(0) if words else "")
            set_tolerance(options.tolerance, value)
        else:
            raise ValueError(f"there is no option {name!r}; options of the script go behind it")
    if not words:
        raise ValueError("a script is needed")
    options.script = words
    return options


def set_tolerance(tolerance: dict[str, float], text: str) -> None:
    """Take over `T` or `DTYPE=T`. Raises ValueError."""
    dtype, _, number = text.rpartition("=")
    if dtype and dtype not in tolerance:
        raise ValueError(f"--tolerance: {dtype!r} is none of {', '.join(tolerance)}")
    try:
        value = float(number)
    except ValueError:
        raise ValueError(f"--tolerance: {text!r} is no number") from None
    if not value >= 0:
        raise ValueError(f"--tolerance: {text!r} is negative")
    for name in [dtype] if dtype else list(tolerance):
        tolerance[name] = value


TITLES = {
    "asis": "as it is",
    "reference": "op by op on the NumPy executor",
    "shared": "on Wend, draws and initial weights in common",
    "torch": "on PyTorch, draws and initial weights in common",
}


def verify(options: Options, pairs: list[tuple[str, str]], folder: str) -> int:
    """Run the script in each way, compare, and print the result."""
    status = number = 0
    for first, second in pairs:
        for kind in (first, second):
            number += 1
            failure = run(kind, options.script, folder, f"run {number} of {2 * len(pairs)}")
            if failure is not None:
                print(f"wend verify: the run {TITLES[kind]} failed: {failure}")
                return 2
        ours, theirs = (list(events(journal(kind, folder))) for kind in (first, second))
        print(f"{options.script[0]}, {TITLES[first]} and {TITLES[second]}:")
        parting, counts = compare(ours, theirs, options.tolerance)
        print(f"  {counts}")
        for note in apart(ours, theirs):
            print(f"  not in common, and so not to be compared behind it: {note}")
        if parting is None:
            print("  equal")
            continue
        print("  they part at " + str(parting).replace("\n", "\n  "))
        status = 1
    return status


def journal(kind: str, folder: str) -> str:
    """The file of a run. The two runs of a pair share the weights beside the file."""
    pair = "common" if kind in ("shared", "torch") else "own"
    return os.path.join(folder, f"{pair}.{kind}")


def run(kind: str, script: list[str], folder: str, place: str) -> str | None:
    """Run the script in a single way; returns why the run failed, or None.

    place: the run among all runs, for a line of progress
    """
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "wend._tools.journal", kind, journal(kind, folder), *script]
    with (
        ProgressLine(f"wend verify: {place}, {TITLES[kind]}") as line,
        subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True) as process,
    ):
        while True:
            try:
                _, said = process.communicate(timeout=_LOOK_SECONDS)
                break
            except subprocess.TimeoutExpired:  # the run goes on
                line.tell()
            except BaseException:
                process.kill()
                raise
    return None if process.returncode == 0 else f"exit status {process.returncode}\n{said[-4000:]}"


def events(path: str) -> Iterator[dict[str, Any]]:
    """The events of a journal."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def apart(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[str]:
    """Draws made in ways that the runs do not have in common, and where first."""
    messages: dict[str, str] = {}
    for event in (*ours, *theirs):
        if event["what"] == "apart":
            messages.setdefault(event["name"], f"{event['name']} at {event['line']}")
    return list(messages.values())


# -- comparing ----------------------------------------------------------------------------------


def compare(
    ours: list[dict[str, Any]], theirs: list[dict[str, Any]], tolerance: dict[str, float]
) -> tuple[Parting | None, str]:
    """The first parting of two journals, if there is any, and a count of the compared events."""
    counts = dict.fromkeys(("loss", "gradient", "parameter", "printed"), 0)
    mine, its = ([e for e in events if e["what"] != "apart"] for events in (ours, theirs))
    largest = largest_gradients([*mine, *its])
    rounding: dict[str, set[int]] = {}  # by parameter, the elements `rounded` so far
    parting, steps, timed = None, 0, 0
    for a, b in zip_longest(mine, its):
        if a and b and a["what"] == b["what"] == "gradient" and a["name"] == b["name"]:
            rounding.setdefault(a["name"], set()).update(rounded(a, b, largest))
        parting = part(a, b, tolerance, rounding)
        if parting is not None:
            break
        steps = max(steps, a["step"] - (a["what"] != "parameter"))
        if a["what"] == "printed" and a["text"] != b["text"] and _OF_TIME.search(a["text"]):
            timed += 1
        elif a["what"] in counts:
            counts[a["what"]] += 1
    said = [
        f"compared over {steps} steps: {counts['loss']} losses, {counts['gradient']} gradients, "
        f"{counts['parameter']} parameters, {counts['printed']} printed lines"
    ]
    if timed:
        said.append(f"{timed} lines that tell of time were left out")
    left_out = sorted([name for name, elements in rounding.items() if elements])
    if left_out:
        names = ", ".join(left_out[:4]) + (", ..." if len(left_out) > 4 else "")
        said.append(f"left out, as their gradients are nothing but rounding: {names}")
    return parting, "; ".join(said)


def largest_gradients(events: list[dict[str, Any]]) -> dict[int, float]:
    """The largest element of all gradients, by step."""
    largest: dict[int, float] = {}
    for event in events:
        if event["what"] == "gradient":
            largest[event["step"]] = max(largest.get(event["step"], 0.0), event["largest"])
    return largest


def rounded(a: dict[str, Any], b: dict[str, Any], largest: dict[int, float]) -> list[int]:
    """The elements of two gradients that should be 0 and are rounding, and differ.

    So are a bias's before a batch norm, and the keys' part of the bias before attention.  An
    optimizer that divides by the gradient's size (Adam) makes steps of these, of any direction.
    """
    most = ROUNDING.get(a["dtype"], 0.0) * largest[a["step"]]
    return [
        k
        for k, (x, y) in enumerate(zip(*samples(a, b), strict=False))
        if 0 < max(abs(x), abs(y)) < most and not near(x, y, 1e-3 * max(abs(x), abs(y)))
    ]


def samples(*events: dict[str, Any]) -> list[Any]:
    """The elements that were written down."""
    return [array("d", base64.b64decode(event["data"])) for event in events]


def part(
    a: Any, b: Any, tolerance: dict[str, float], rounding: dict[str, set[int]]
) -> Parting | None:
    """How two events part; None for equal events.

    rounding: by parameter, the elements that are not compared
    """
    if a is None or b is None or (a["what"], a["name"]) != (b["what"], b["name"]):
        here, there = (described(e) for e in (a, b))
        event = a or b
        ways = f"the runs go other ways: {here} in the first one, {there} in the second"
        return Parting(event["step"], event["name"], event["line"], ways)
    how: str | None
    if a["what"] == "printed":
        how = part_of_lines(a["text"], b["text"])
    elif "data" in a:
        how = part_of_tensors(a, b, tolerance, rounding.get(a["name"], set()))
    else:
        return None
    name = a["name"] if a["what"] != "gradient" else f"the gradient of {a['name']}"
    return None if how is None else Parting(a["step"], name, a["line"], how)


def described(event: dict[str, Any] | None) -> str:
    """An event in a message."""
    if event is None:
        return "nothing more"
    text = f" {event['text']!r}" if event["what"] == "printed" else ""
    return f"{event['what']} ({event['name']}{text}, {event['line']})"


def part_of_lines(a: str, b: str) -> str | None:
    """How two printed lines part: numbers may be apart by rounding, and tell of time."""
    if a == b or _OF_TIME.search(a):
        return None
    same = _NUMBER.sub("#", a) == _NUMBER.sub("#", b)
    numbers = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=False)
    if same and all(near_as_printed(x, y) for x, y in numbers):
        return None
    return f"{a!r}, and {b!r} in the second run"


def near_as_printed(x: str, y: str) -> bool:
    """Whether two printed numbers are equal up to rounding; whole numbers must be equal."""
    if x == y:
        return True
    if x.lstrip("+-").isdigit() and y.lstrip("+-").isdigit():
        return False
    a, b = Decimal(x), Decimal(y)
    if not (a.is_finite() and b.is_finite()):
        return False
    last = max(10.0 ** int(n.as_tuple().exponent) for n in (a, b))  # of the last digit
    return abs(float(a - b)) <= PRINTED * float(max(abs(a), abs(b))) + last * 1.01


def part_of_tensors(
    a: dict[str, Any], b: dict[str, Any], tolerance: dict[str, float], left_out: set[int]
) -> str | None:
    """How two tensors part, with the numbers."""
    if (a["dtype"], a["shape"]) != (b["dtype"], b["shape"]):
        return f"{a['dtype']}{a['shape']}, and {b['dtype']}{b['shape']} in the second run"
    xs, ys = samples(a, b)
    limit = tolerance.get(a["dtype"], 0.0)
    scale = max(a["largest"], b["largest"])
    room = limit * scale
    for k, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if k not in left_out and not near(x, y, room):
            at = place(k * a["stride"], a["shape"])
            return f"{x:.9g}, and {y:.9g} in the second run, at {at} of {a['dtype']}{a['shape']}"
    # A sum has errors of all elements, of which few are written down where there are many.
    more = len(xs) * a["stride"] > len(xs) and not left_out
    if more and not near(a["sum"], b["sum"], room * (len(xs) * a["stride"]) ** 0.5 * 4):
        return f"a sum of {a['sum']:.9g}, and of {b['sum']:.9g} in the second run"
    return None


def near(x: float, y: float, room: float) -> bool:
    """Whether two numbers are equal up to `room`; nan is equal to nan."""
    return x == y or abs(x - y) <= room or (x != x and y != y)


def place(k: int, shape: list[int]) -> list[int]:
    """The indices of element k."""
    indices: list[int] = []
    for n in reversed(shape):
        indices.append(k % n)
        k //= n
    return indices[::-1]
