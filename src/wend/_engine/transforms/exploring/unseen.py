"""Progress that a snapshot does not see: results on the stacks of frames, and functions in C.

In `f(a) + g(b)` the result of `f` has no name while `g` runs. In `sum(x for ...)`, `max(xs, key=f)`
and `sorted(tensors)` the progress is known to C alone. Tensors are found all the same, as the run
knows all of them. Numbers and strings are not. They follow from answers, so the answers that may
have made them belong to the state.

C holds results of calls that have ended, while an instruction of the calling frame is carried out.
So the answers of ended calls count, until the frame goes on. The answers of the call that is
running do not: that call has a frame of its own. Inside of a loop a frame may come to the same
instruction again. Where nothing else tells, the lines that the frame begins are counted.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

#: Instructions that leave nothing on the stack, or nothing new.
_LEAVE_NOTHING = (
    "STORE_", "POP_", "DELETE_", "LIST_", "SET_ADD", "SET_UPDATE", "MAP_ADD", "DICT_", "JUMP",
    "RETURN_", "RERAISE", "RAISE_", "NOP", "RESUME", "PRECALL", "CACHE", "KW_NAMES", "END_FOR",
    "COPY_FREE", "MAKE_CELL", "SETUP_", "SWAP", "EXTENDED_ARG",
)  # fmt: skip
#: Instructions that put on the stack what has a name, or what goes on by itself.
_SEEN = (
    "LOAD_", "PUSH_", "GET_ITER", "GET_YIELD", "BEFORE_", "MAKE_FUNCTION", "IMPORT_", "RETURN_GEN",
)  # fmt: skip
#: Instructions behind which Python does not go on.
_END = ("JUMP_FORWARD", "JUMP_BACKWARD", "RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_")
_ITERATORS = ("GET_ITER", "GET_YIELD", "BEFORE_", "PUSH_EXC")
#: Instructions of Python's own loops, which take from a generator.
_TAKE = ("FOR_ITER", "SEND", "YIELD_FROM", "UNPACK_")
#: Instructions that ask for the truth of an object: once.
_ASK_ONCE = ("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT")


class StackState(NamedTuple):
    """The stack at an instruction.

    unseen: entries without a name, but the operands of the instruction     operands: these
    statement: offset of the last instruction before which there were none
    turns: whether there is a loop in between     takes: whether it takes from a generator itself
    """

    unseen: int
    operands: int
    statement: int
    turns: bool
    takes: bool


@cache
def _depths(code: CodeType) -> tuple[list[dis.Instruction], dict[int, int]]:
    """The instructions, and by offset how many entries the stack has before each."""
    row = list(dis.get_instructions(code))
    at = {step.offset: k for k, step in enumerate(row)}
    depths: dict[int, int] = {}
    waiting = [(0, 0)]
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        waiting.append((at.get(entry.target, 0), entry.depth + 1 + bool(entry.lasti)))
    while waiting:
        k, depth = waiting.pop()
        while k < len(row) and row[k].offset not in depths:
            step = row[k]
            depths[step.offset] = depth
            if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
                there = at.get(step.argval)
                if there is not None:
                    waiting.append((there, depth + _effect(step, True)))
            if step.opname.startswith(_END):
                break
            depth += _effect(step, False)
            k += 1
    return row, depths


def _effect(step: dis.Instruction, jump: bool) -> int:
    arg = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
    try:
        return dis.stack_effect(step.opcode, arg, jump=jump)
    except ValueError:  # an instruction that is none of Python's has no effect that is known
        return 0


def _makers(
    row: list[dis.Instruction], depths: dict[int, int], k: int
) -> list[tuple[dis.Instruction, bool]]:
    """The instruction that has made each entry of the stack before instruction k, lowest first.

    Each with whether other instructions may have made the entry: paths have met in between.
    """
    makers: list[tuple[dis.Instruction, bool]] = []
    wanted, merged = depths.get(row[k].offset, 0), row[k].is_jump_target
    for step in reversed(row[:k]):
        if wanted == 0:
            break
        there = depths.get(step.offset)
        leaves = not step.opname.startswith(_LEAVE_NOTHING) and "JUMP" not in step.opname
        if there is not None and leaves:
            after = there + _effect(step, False)
            first = min(there, after - 1)  # of the entries that are new
            while first < wanted <= after:
                makers.append((step, merged))
                wanted -= 1
        merged = merged or step.is_jump_target
    return makers[::-1]


def _has_no_name(step: dis.Instruction, merged: bool) -> bool:
    """Whether an entry that an instruction has made is unseen; merged: others may have made it."""
    return not _goes_on(step) and (merged or not step.opname.startswith(_SEEN))


def _goes_on(step: dis.Instruction) -> bool:
    """Whether an instruction has made what statements inside a loop or `with` find on the stack."""
    return step.opname.startswith(_ITERATORS) or step.argval == ".0"


def _may_begin(row: list[dis.Instruction], depths: dict[int, int], k: int, here: int) -> bool:
    """Whether the statement of an instruction may begin with instruction k.

    The last arm of a choice has an empty stack too, but earlier arms are left for behind it.
    """
    begin, end = row[k].offset, row[here].offset
    jumps = (step.argval for step in row[:k] if "JUMP" in step.opname)
    return all(_goes_on(step) for step, _ in _makers(row, depths, k)) and not any(
        begin < target <= end for target in jumps
    )


@cache
def held_at(code: CodeType, lasti: int) -> StackState:
    """The stack at an instruction of a function."""
    row, depths = _depths(code)
    here = max((k for k, step in enumerate(row) if step.offset <= lasti), default=0)
    step = row[here]
    makers = _makers(row, depths, here)
    effect = _effect(step, False)
    nothing = step.opname.startswith(_LEAVE_NOTHING)
    operands = 1 if "JUMP" in step.opname else -effect if nothing else max(0, 1 - effect)
    kept = max(0, len(makers) - operands)
    no_names = [_has_no_name(*maker) for maker in makers]
    start = here
    while start > 0 and not _may_begin(row, depths, start, here):
        start -= 1
    turns = any(
        step.is_jump_target and any(
            back.argval == step.offset for back in row[here:] if "BACKWARD" in back.opname
        )
        for step in row[start + 1 : here + 1]
    )  # fmt: skip
    unseen, taken = sum(no_names[:kept]), sum(no_names[kept:])
    return StackState(unseen, taken, row[start].offset, turns, step.opname.startswith(_TAKE))


@cache
def _loops(code: CodeType) -> tuple[tuple[int, int], ...]:
    """The first and the last offset of each loop."""
    return tuple(
        [
            (step.argval, step.offset)
            for step in dis.get_instructions(code)
            if "JUMP_BACKWARD" in step.opname
        ]
    )


@cache
def _starts(code: CodeType) -> dict[int, str]:
    """The names of the instructions by offset."""
    return {step.offset: step.opname for step in dis.get_instructions(code)}


class LineCount:
    """The trace function of a frame: counts the lines begun. Jumps back begin a line, too.

    further: the trace function of a debugger, say
    """

    __slots__ = ("count", "further")

    def __init__(self) -> None:
        self.count = 0
        self.further: Callable[..., Any] | None = None

    def __call__(self, frame: FrameType, event: str, arg: object) -> LineCount:
        """Note an event of the frame."""
        self.count += event == "line"
        if self.further is not None:
            self.further = self.further(frame, event, arg)
        return self


@contextmanager
def counted_lines(engine: tuple[str, ...]) -> Iterator[None]:
    """Inside the block each new frame of the user's code counts lines.

    engine: how the names of files begin that have no user's code
    """
    before = sys.gettrace()

    def begins(frame: FrameType, event: Any, arg: object) -> Any:
        further = before(frame, event, arg) if before is not None else None
        if frame.f_code.co_filename.startswith(engine):
            return further
        lines = frame.f_trace  # of a generator that goes on
        lines = lines if type(lines) is LineCount else LineCount()
        lines.further = further
        return lines

    sys.settrace(begins)
    try:
        yield
    finally:
        sys.settrace(before)


#: The answers before a question, which of them loops over sizes have asked for, and the marks.
History = tuple[tuple[bool, ...], tuple[bool, ...], tuple[tuple[int, int, int], ...]]


class NotCounted(Exception):
    """Whether a frame goes through a loop is not known without a count of the lines."""


class _Mark:
    """A frame of which a question has been asked.

    begin: answers before the first question since the frame has come onto the stack
    start, call: answers before the first question of the statement, and of the instruction
    lines: how many the frame had begun at the last question
    """

    __slots__ = ("begin", "call", "frame", "lasti", "lines", "start", "statement")

    def __init__(self, frame: FrameType, n: int) -> None:
        self.frame = frame
        self.lasti = self.statement = -1
        self.lines: int | None = None
        self.begin = self.start = self.call = n

    def goes_again(self, child: FrameType | None, is_same: bool) -> bool:
        """Whether the frame comes to the instruction of the last question again.

        child: the frame that was called     is_same: whether it is that of the last question
        Raises NotCounted where only a count of lines could tell.
        """
        frame, code, at = self.frame, self.frame.f_code, self.frame.f_lasti
        if not any(first <= at <= last for first, last in _loops(code)):
            return False
        if child is not None and is_same and not _is_generator(child):
            return False
        if _calls_itself(frame, child):
            return True
        name = _starts(code).get(at)
        if name is not None and name.startswith(_ASK_ONCE):
            return True
        if name == "FOR_ITER" and (child is None or (_is_generator(child) and is_same)):
            return True
        lines = frame.f_trace
        if type(lines) is not LineCount:
            raise NotCounted
        return lines.count != self.lines


class Unseen:
    """The answers of a run that unseen results may follow from.

    engine: how the names of files begin that have no user's code
    """

    def __init__(self, engine: tuple[str, ...]) -> None:
        self.engine = engine
        self.marks: list[_Mark] = []
        self.answered: list[bool] = []  # the answers so far
        self.by_loops: list[bool] = []  # of each question, whether a loop asks for the next turn

    def keep(self, frames: list[FrameType]) -> None:
        """Let go of frames that have ended, and of all that these refer to."""
        n = 0
        for mark, frame in zip(self.marks, frames, strict=False):
            if mark.frame is not frame:
                break
            n += 1
        del self.marks[n:]

    def history(self) -> History:
        """The answers before a question, and the places among these."""
        rows = tuple([(mark.begin, mark.start, mark.call) for mark in self.marks])
        return tuple(self.answered), tuple(self.by_loops), rows

    def adopt(self, history: History) -> None:
        """Go on as the run that has come to this question first."""
        answered, by_loops, rows = history
        self.answered, self.by_loops = list(answered), list(by_loops)
        for mark, row in zip(self.marks, rows, strict=True):
            mark.begin, mark.start, mark.call = row

    def follow(self, frames: list[FrameType], by_loop: bool) -> None:
        """Note the frames at a question.

        by_loop: whether a loop over a size asks for the next turn
        """
        self.keep(frames)
        marks, known, n = self.marks, len(self.marks), len(self.answered)
        self.by_loops.append(by_loop)
        marks += [_Mark(frame, n) for frame in frames[known:]]
        for k, (mark, frame) in enumerate(zip(marks, frames, strict=True)):
            if frame.f_code.co_filename.startswith(self.engine):
                continue
            held, lasti = held_at(frame.f_code, frame.f_lasti), frame.f_lasti
            child = frames[k + 1] if k + 1 < len(frames) else None
            again = lasti == mark.lasti and mark.goes_again(child, k + 1 < known)
            if held.statement != mark.statement or not (
                held.turns or (lasti >= mark.lasti and not again)
            ):
                mark.start = n
            if lasti != mark.lasti or again:
                mark.call = n
            mark.lasti, mark.statement = lasti, held.statement
            lines = frame.f_trace
            mark.lines = lines.count if type(lines) is LineCount else None

    def answers(self, frames: list[FrameType]) -> tuple[tuple[int, tuple[bool, ...]], ...]:
        """The answers that unseen results may follow from, by frame."""
        rows = []
        answers = self.answered
        for k, (mark, frame) in enumerate(zip(self.marks, frames, strict=True)):
            if frame.f_code.co_filename.startswith(self.engine):
                continue
            held = held_at(frame.f_code, frame.f_lasti)
            child = frames[k + 1] if k + 1 < len(frames) else None
            in_c = not _calls_itself(frame, child)  # a function's own frame has the operands
            first = mark.start if held.unseen or (held.operands and in_c) else mark.call
            last = max(mark.call, self._ended(k, held.takes, len(answers)))
            row = [answers[i] for i in range(first, last) if not self.by_loops[i]]
            if row:
                rows.append((k, tuple(row)))
        return tuple(rows)

    def _ended(self, k: int, takes: bool, n: int) -> int:
        """The number of answers before the call that frame k waits for.

        A generator that C calls has given C results before, while the same frame runs.
        """
        for mark in self.marks[k + 1 :]:
            if takes or not _is_generator(mark.frame):
                return mark.begin
        return n


def _calls_itself(frame: FrameType, child: FrameType | None) -> bool:
    """Whether Python, and not C, has called a function, as far as that is known.

    Up to Python 3.12 the place of the frame then is behind the first part of an instruction.
    """
    return (
        child is not None and child.f_back is frame and frame.f_lasti not in _starts(frame.f_code)
    )


def _is_generator(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR)
