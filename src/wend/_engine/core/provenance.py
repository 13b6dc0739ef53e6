"""Where in the user's program an op was recorded: file, line, function, module path."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from wend._engine.base.errors import ExecutionError, OutOfMemory, WendError
from wend._engine.base.tracebacks import entry_of
from wend._engine.core import _hot, _modules
from wend._engine.core._hot import State
from wend._engine.core.holdings import describe_holdings

if TYPE_CHECKING:
    from wend._engine.core.graph import PathGraph

#: The user's lines of a visit that differ from those of the path, by step: (code, instruction).
Sites: TypeAlias = "Mapping[int, tuple[CodeType | None, int]]"


class PathRun(Protocol):
    """A run of a path: a flush, or what is kept of one."""

    @property
    def states(self) -> Sequence[State]: ...
    @property
    def sites(self) -> Sites | None: ...


class Site:
    """A place in the user's program."""

    __slots__ = ("code", "lasti", "module")

    def __init__(self, code: CodeType | None, lasti: int, module: str = "") -> None:
        self.code = code
        self.lasti = lasti
        self.module = module

    @property
    def line(self) -> int:
        """Line number of the instruction."""
        if self.code is None:
            return 0
        positions = list(self.code.co_positions())
        index = self.lasti // 2
        if 0 <= index < len(positions) and positions[index][0] is not None:
            return int(positions[index][0] or 0)
        return int(self.code.co_firstlineno)

    def __str__(self) -> str:
        if self.code is None:
            return "an unknown place"
        text = f"{shown_name(self.code.co_filename)}:{self.line} in {self.code.co_qualname}"
        return f"{text} ({self.module})" if self.module else text


def shown_name(file: str) -> str:
    """A file's name for people; for a cell of a notebook the cell's, as in "Cell In[3]"."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None or os.path.exists(file) else ipython.get_ipython()
    named = None if shell is None else shell.compile.format_code_name(file)
    return file if named is None else " ".join(named)


def user_site() -> tuple[Any, int]:
    """(code, instruction) of the innermost frame outside the package."""
    frame = sys._getframe(1)
    while frame is not None:
        if not _hot.is_internal(frame.f_code):
            return frame.f_code, frame.f_lasti
        frame = frame.f_back  # type: ignore[assignment]
    return None, 0


class one_site(_modules.SiteBlock):
    """While this is entered the user's line is looked up once, not for each op of a thread."""

    __slots__ = ()


_hot.set_slot("user_site", lambda: user_site())


def user_level() -> int:
    """The `stacklevel` at which a warning of the caller's names the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _hot.is_internal(frame.f_code):
        frame, level = frame.f_back, level + 1
    return level


def current_site() -> Site:
    """The user's line that is running, with the module path if a module is being called."""
    code, lasti = user_site()
    return Site(code, lasti, module_path(_hot.current_trace().modules))


def module_path(modules: list[Any]) -> str:
    """Dotted names of the modules being called, outermost first, as far as known."""
    names: list[str] = []
    for outer, inner in pairwise(modules):
        name = next((k for k, m in outer._modules.items() if m is inner), None)
        if name is None:
            name = next((k for k, m in outer.named_modules() if m is inner), type(inner).__name__)
        names.append(name)
    return ".".join(names)


def step_site(states: Sequence[State], sites: Sites | None, k: int) -> Site:
    """The user's line of step k of a path.  sites: those of this visit that differ, by step"""
    if sites and k in sites:
        return Site(*sites[k])
    return Site(states[k].code, states[k].lasti)


def step_of(batch: PathRun, index: int, path: PathGraph) -> int | None:
    """The step that produced the dense value `index`, or that a temporary is part of."""
    for k, state in enumerate(batch.states):
        inside = index < 0 and any(index in node.outputs for node in path.nodes_of(k))
        if inside or state.first <= index < state.first + state.n_out:
            return k
    return None


def site_of(batch: PathRun, index: int, path: PathGraph) -> Site:
    """The site of the op that produced the dense value `index` (or that a temporary is part of)."""
    k = step_of(batch, index, path)
    return Site(None, 0) if k is None else step_site(batch.states, batch.sites, k)


def _name_call(error: WendError, op: str, called: Any) -> None:
    """Speak of the op that was called, where an op inside of it has failed."""
    error.name_call(op, called.name)
    facts = getattr(called, "torch", None)  # a backward pass has none
    operand, index = facts and facts.indices, getattr(error, "index", None)
    before, _, fault = str(error.args[0] if error.args else "").partition(": ")
    if operand and index is not None and before == called.name:
        error.args = (f"{before}: {operand} {index} is out of bounds: {fault}", *error.args[1:])


def last_site(states: Sequence[State], sites: Sites | None = None) -> Site | None:
    """The user's line of the last op of a path.  sites: those of this visit that differ"""
    for k in range(len(states) - 1, -1, -1):
        if sites and k in sites:
            return Site(*sites[k])
        if states[k].code is not None:
            return Site(states[k].code, states[k].lasti)
    return None


def locate(
    error: BaseException, op: str, batch: PathRun, index: int, path: PathGraph
) -> BaseException:
    """The error of a failing op, with the user's line, and the op that was called there."""
    site = site_of(batch, index, path)
    if isinstance(error, WendError):
        step = step_of(batch, index, path)
        if step is not None:
            _name_call(error, op, batch.states[step].prim)
        if error.site is None:
            error.site = site
        return error
    wrapped: ExecutionError
    if isinstance(error, MemoryError):
        wrapped = OutOfMemory(f"{op}: out of memory: {error}\n{describe_holdings(site_of)}")
    else:
        wrapped = ExecutionError(f"{op}: {type(error).__name__}: {error}")
    wrapped.site = site
    wrapped.__cause__ = error
    return wrapped


def surface(error: BaseException) -> None:
    """Shorten the traceback of an error that leaves a flush; its own line gets a frame.

    Not if that line is running: then Python adds the frame.
    """
    if not (isinstance(error, WendError) and error.is_short):
        return
    error.shorten()
    site = error.site
    if error.__traceback__ is None and isinstance(site, Site) and site.code is not None:
        code, lasti = user_site()
        if code is not site.code or Site(code, lasti).line != site.line:
            error.__traceback__ = entry_of(site.code, site.lasti)


_hot.set_slot("user_site", user_site)
_hot.set_slot("surface", surface)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_hot.INTERNAL_PREFIX[0] = _PACKAGE + os.sep
