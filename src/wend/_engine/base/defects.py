"""Failures inside Wend: counted, logged, told once, and raised where a setting asks for that.

An error is the user's if an op fails by a rule of its own, on the user's values. Any further
exception of an executor, a plan, a kernel, the planner or a background thread is a *defect*. The
program goes on: another executor computes the same from inputs that nobody has written to. A defect
costs time, never a result, and must not stay unseen:

- `note` counts and logs a defect, with the user's line. No error is raised; any thread may call.
- `tell` speaks of noted defects, where nothing is half done: by DefectError under `WEND_STRICT=1`
  or `WEND_VERIFY=1`, else by a warning, once per kind of defect.
"""

from __future__ import annotations

import threading
import warnings

from wend._engine.base import config
from wend._engine.base.errors import CompileError, DefectError, SymbolicError, WendError

#: At most so many kinds of defects are kept with their texts; all are counted.
MOST_KINDS = 64
_LOGGER = "wend.defects"


class Defect:
    """A kind of failure: the number of occurrences, and the first place.

    error: type and text     where: the part of Wend that failed     site: the user's line
    repaired: whether the results were computed in another way
    """

    def __init__(
        self,
        error: str,
        where: str,
        site: str,
        repaired: bool,
        fault: BaseException | None = None,
    ) -> None:
        self.error = error
        self.where = where
        self.site = site
        self.repaired = repaired
        self.fault = fault
        self.times = 1

    def __str__(self) -> str:
        times = f", {self.times} times" if self.times > 1 else ""
        outcome = (
            "the results were computed in another way, and are right"
            if self.repaired
            else "the results could not be computed"
        )
        place = f"\n  at {self.site}" if self.site else ""
        return f"{self.error}, in {self.where}{times}: {outcome}; this is a defect of Wend{place}"


_NEVER_BY_RULE = (DefectError, CompileError, SymbolicError)
_lock = threading.Lock()
_kinds: dict[tuple[str, str, str], Defect] = {}
#: Defects that were noted, and not told yet.
UNTOLD: list[Defect] = []
_count = 0


def by_rule(error: BaseException) -> bool:
    """Whether ops raise such an exception by their own rules: a fault of the values, not of Wend.

    Running out of memory or of stack is no defect either: both depend on the machine.
    """
    if isinstance(error, (MemoryError, RecursionError)):
        return True
    return isinstance(error, WendError) and not isinstance(error, _NEVER_BY_RULE)


def note(
    fault: BaseException, where: str = "", site: object = None, repaired: bool = True
) -> Defect:
    """Count and log a failure inside. Raises nothing; `tell` speaks of the failure later.

    where: the part of Wend; as a rule found in the traceback     site: the user's line
    Running out of memory or of stack is no defect, and is not counted.
    """
    global _count
    text = f"{type(fault).__name__}: {fault}"
    where = where or part_of(fault)
    place = "" if site is None else str(site)
    if isinstance(fault, (MemoryError, RecursionError)):
        return Defect(text, where, place, repaired)
    with _lock:
        _count += 1
        defect = _kinds.get((text, where, place))
        if defect is not None:
            defect.times += 1
            defect.repaired = defect.repaired and repaired
            if config.settings.strict:
                UNTOLD.append(defect)
            return defect
        # The traceback would keep the frames of this flush, and all arrays of these frames.
        defect = Defect(text, where, place, repaired, fault=_bare(fault))
        if len(_kinds) < MOST_KINDS:
            _kinds[text, where, place] = defect
        if len(UNTOLD) < MOST_KINDS:
            UNTOLD.append(defect)
    _log(defect, fault)
    return defect


def part_of(fault: BaseException) -> str:
    """The module and function of Wend's that raised an exception."""
    part, at = "machine code", fault.__traceback__
    while at is not None:
        frame = at.tb_frame
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] == "wend":
            part = f"{module}.{frame.f_code.co_name}"
        at = at.tb_next
    return part


#: Packages that Wend calls: errors there are raised for the caller.
_CALLED = frozenset({"numpy", "scipy", "llvmlite", "ml_dtypes", "greenlet"})
#: Layers that meet a user only through errors of Wend's own: any other error is a defect.
_ENGINE = "_engine"


def came_from_inside(fault: BaseException) -> bool:
    """Whether an exception is of the inner layers, and no rule of an op: not of the user's code.

    Hooks, functions and modules of users run in the middle of a backward pass, say.
    """
    if by_rule(fault) or isinstance(fault, DefectError):
        return False
    inside, at = False, fault.__traceback__
    while at is not None:
        package, *inner = str(at.tb_frame.f_globals.get("__name__", "")).split(".")
        if package not in _CALLED:
            inside = package == "wend" and inner[:1] == [_ENGINE]
        at = at.tb_next
    return inside


def _bare(fault: BaseException) -> BaseException:
    """The exception by itself; with its traceback only where it is going to be raised."""
    if config.settings.strict or config.settings.verify:
        return fault
    fault.__context__ = fault.__cause__ = None
    return fault.with_traceback(None)


def _log(defect: Defect, fault: BaseException) -> None:
    import logging  # loaded when there is something to say

    logger = logging.getLogger(_LOGGER)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.error("%s", defect, exc_info=(type(fault), fault, fault.__traceback__))


def tell(stacklevel: int = 2) -> None:
    """Raise or warn of defects noted and not told yet. To be called where nothing is half done.

    Raises DefectError under WEND_STRICT=1 or WEND_VERIFY=1.
    """
    if not UNTOLD:
        return
    with _lock:
        defects = list(UNTOLD)
        UNTOLD.clear()
    if config.settings.strict or config.settings.verify:
        raise DefectError("\n".join(dict.fromkeys(map(str, defects)))) from defects[0].fault
    for defect in defects:
        warnings.warn(
            f"wend: {defect}. WEND_STRICT=1 raises the error",
            RuntimeWarning,
            stacklevel=stacklevel + 1,
        )


def count() -> int:
    """How many failures inside this process has met."""
    return _count


def known() -> list[Defect]:
    """The kinds of failures that this process has met, oldest first."""
    with _lock:
        return list(_kinds.values())


def summary() -> str:
    """A line for reports: how many, and of which kinds."""
    kinds = known()
    if not kinds:
        return "none"
    return f"{_count}: " + "; ".join(f"{d.error} in {d.where} ({d.times})" for d in kinds)


def reset() -> None:
    """Forget all that was counted: for tests that plant failures."""
    global _count
    with _lock:
        _count = 0
        _kinds.clear()
        UNTOLD.clear()
