"""Progress that a snapshot does not see: results on the stacks of frames, and functions in C.

In `f(a) + g(b)` the result of `f` has no name while `g` runs, and in `sum(x for ...)` the sum so
far is known to C alone. Tensors are found all the same, as the run knows all of them. Numbers and
strings are not. They follow from answers, so the answers that may have made them belong to the
state.
"""

from __future__ import annotations

import dis
import inspect
from functools import cache
from types import CodeType, FrameType
from typing import NamedTuple

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


class StackState(NamedTuple):
    """The stack at an instruction.

    unseen: entries without a name, but the operands of the instruction
    statement: offset of the last instruction before which there were none
    turns: whether there is a loop in between     takes: whether it takes from a generator itself
    """

    unseen: int
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
    kept = makers[: max(0, len(makers) - operands)]
    unseen = sum([_has_no_name(*maker) for maker in kept])
    start = here
    while start > 0 and not _may_begin(row, depths, start, here):
        start -= 1
    turns = any(
        step.is_jump_target and any(
            back.argval == step.offset for back in row[here:] if "BACKWARD" in back.opname
        )
        for step in row[start + 1 : here + 1]
    )  # fmt: skip
    return StackState(unseen, row[start].offset, turns, step.opname.startswith(_TAKE))


class _Mark:
    """A frame.

    begin, start: answers before its first question, and before the first of its statement
    """

    __slots__ = ("begin", "key", "lasti", "start", "statement")

    def __init__(self, frame: FrameType, n: int) -> None:
        self.key = id(frame), frame.f_code
        self.lasti = self.statement = -1
        self.begin = self.start = n


class Unseen:
    """The answers of a run that unseen results may follow from."""

    def __init__(self) -> None:
        self.marks: list[_Mark] = []
        self.by_loops: list[bool] = []  # of each question, whether a loop asks for the next turn

    def follow(self, frames: list[FrameType], n: int, in_a_row: bool) -> None:
        """Note the frames at a question.

        n: answers so far     in_a_row: whether a function in C goes on to ask
        """
        marks = self.marks
        del self.by_loops[n:]
        self.by_loops.append(bool(frames) and held_at(frames[-1].f_code, frames[-1].f_lasti).takes)
        for k, frame in enumerate(frames):
            held, lasti = held_at(frame.f_code, frame.f_lasti), frame.f_lasti
            if k == len(marks) or marks[k].key != (id(frame), frame.f_code):
                del marks[k:]
                marks.append(_Mark(frame, n))
            mark = marks[k]
            is_last = k == len(frames) - 1
            again = lasti == mark.lasti and is_last and not in_a_row
            goes_on = held.statement == mark.statement and (
                held.turns or (lasti >= mark.lasti and not again)
            )
            if not goes_on:
                mark.start = n
                if lasti <= mark.lasti:  # perhaps another call
                    mark.begin = n
            if not goes_on or lasti != mark.lasti:
                del marks[k + 1 :]
            mark.lasti, mark.statement = lasti, held.statement

    def answers(
        self, frames: list[FrameType], answers: tuple[bool, ...]
    ) -> tuple[tuple[bool, ...], ...]:
        """The answers that unseen results may follow from, by frame."""
        rows = []
        for k, frame in enumerate(frames):
            held, mark = held_at(frame.f_code, frame.f_lasti), self.marks[k]
            is_last = k + 1 == len(frames)
            in_c = not is_last and not held.takes and _is_generator(frames[k + 1])
            if held.unseen or in_c:
                whole = is_last or in_c
                stop = len(answers) if whole else self.marks[k + 1].begin
                places = [i for i in range(mark.start, stop) if not self.by_loops[i]]
                rows.append(tuple([answers[i] for i in places]))
        return tuple(rows) if any(rows) else ()


def _is_generator(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR)
