"""Interrupts at any place of Wend, and what a training loop must be after each of them."""

import dis
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import wend
from training_loops import Loop

INSIDE = (str(Path(wend.__file__).parent), str(Path(__file__).parent / "training_loops.py"))
#: What no Python code calls: the interpreter drops what is raised there.
CALLED_BACK = ("CollectionSeldom", "CollectionPaused.__del__", "leave_base")
#: Where a block ends the uncompiled core cannot do without Python code. The compiled one does.
ENDS = {f"{name}Block.__exit__" for name in ("Mode", "Site", "Whole", "Write")}
CALLS = {dis.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX")}


class Cut(BaseException):
    """The interrupt of these tests."""


class Knife:
    """Raises `Cut` at the n-th place of Wend and of a training loop at which the interpreter could.

    It looks for signals when a function begins, behind a call, and where a loop turns back.
    """

    def __init__(self, n: int, error: BaseException | None = None) -> None:
        self.left = n
        self.places = 0  # met
        self.error = error or Cut()
        self.where = ""  # it has been raised
        self._calls: dict[Any, frozenset[int]] = {}

    @contextmanager
    def drawn(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self.begin)
        try:
            yield
        finally:
            sys.settrace(before)

    def begin(self, frame: Any, event: str, arg: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(INSIDE) or code.co_qualname.startswith(CALLED_BACK):
            return None
        calls = self._calls.get(code)
        if calls is None:
            calls = self._calls[code] = frozenset(
                at.offset for at in dis.get_instructions(code) if at.opcode in CALLS
            )
        if code.co_qualname not in ENDS:
            self.meet(frame)
        last = -1

        def follow(frame: Any, event: str, arg: Any) -> Any:
            nonlocal last
            if event == "opcode":
                at = frame.f_lasti
                if last in calls or at < last:
                    last = at
                    self.meet(frame)
                last = at
            return follow

        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return follow

    def meet(self, frame: Any) -> None:
        self.places += 1
        if self.places == self.left:
            self.where = f"{frame.f_code.co_filename[len(INSIDE) :]}:{frame.f_lineno}"
            raise self.error


@contextmanager
def timer(seconds: float, error: BaseException) -> Iterator[None]:
    """Raise `error` from a signal handler after so many seconds, if the block takes as long."""
    armed = True

    def ring(number: int, frame: Any) -> None:
        if armed:
            raise error

    before = signal.signal(signal.SIGALRM, ring)
    # Again and again: where the collector calls something, what is raised is dropped.
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.2)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def equal(a: list[Any], b: list[Any]) -> bool:
    """Whether two lists of arrays (or None) are the same, up to rounding."""
    return len(a) == len(b) and all(
        (x is None) == (y is None) and (x is None or np.allclose(x, y, rtol=1e-6, atol=1e-9))
        for x, y in zip(a, b, strict=True)
    )


class Course:
    """What a loop's state is after each of its actions, if nothing interrupts it."""

    def __init__(self, kind: type[Loop], steps: int) -> None:
        loop = kind()
        self.weights = [loop.weights()]
        self.gradients: list[list[Any]] = []  # of each step, all that there are in its course
        self.buffers = [loop.buffers()]
        for _ in range(steps):
            found = []
            for name, action in loop.turn():
                action()
                if name in ("backward", "zero"):
                    found.append(loop.gradients())
                if name == "forward":
                    self.buffers.append(loop.buffers())
            self.gradients.append(found)
            self.weights.append(loop.weights())


class Check:
    """A loop that is interrupted again and again, compared with its undisturbed course."""

    def __init__(self, kind: type[Loop], course: Course) -> None:
        self.kind, self.course = kind, course
        self.loop = kind()
        self.steps = self.passes = 0

    def turn(self, around: Callable[[], Any]) -> bool:
        """One step, with `around()` as context of each of its actions; whether one was cut."""
        gradients = self.loop.gradients()
        for name, action in self.loop.turn():
            cut = False
            done = False
            try:
                with around():
                    action()
                    done = True
            except (Cut, MemoryError, RecursionError, TimeoutError, KeyboardInterrupt):
                cut = True
            self.look(name, done, gradients)
            if name in ("backward", "zero"):
                gradients = self.loop.gradients()
            if cut:
                return True
        return False

    def look(self, name: str, done: bool, gradients: list[Any]) -> None:
        """Compare the state after an action; one that was cut has been done, or has not been."""
        course, loop = self.course, self.loop
        weights = loop.weights()
        if name == "step" and (done or not equal(weights, course.weights[self.steps])):
            self.steps += 1
        assert equal(weights, course.weights[self.steps]), f"{name}: parameters are not whole"
        buffers = loop.buffers()
        if name == "forward" and (done or not equal(buffers, course.buffers[self.passes])):
            self.passes += 1
        assert equal(buffers, course.buffers[self.passes]), f"{name}: buffers are not whole"
        found = loop.gradients()
        if name == "zero" and done:
            assert all(g is None or not g.any() for g in found), "zero: gradients are left"
        if name == "backward":
            known = course.gradients[self.steps] + [gradients] * (not done)
            assert any(equal(found, g) for g in known), "backward: gradients are not whole"
