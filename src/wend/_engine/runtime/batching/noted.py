"""The last flushes that ran by groups, noted as they run, and why flushes do not run by regions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from wend._engine.core._types import LeafPrimitive
from wend._engine.core.provenance import Sites
from wend._engine.runtime.batching import _grouper_select
from wend._engine.runtime.batching.signatures import code as code_of

_grouper: ModuleType = _grouper_select.select()

#: Most flushes, and most ops of these together, that are remembered.  Records that are kept longer
#: are out of cache when freed, which takes time.
REMEMBERED, MOST_OPS = 32, 4_000


#: The groups of a flush, or a function that finds the groups when a report is made.
Groups = list[Any] | Callable[[], list[Any]]


class Noted(NamedTuple):
    """The record of a flush, which holds no values."""

    states: list[Any]
    sites: Sites | None
    #: (node, or an op's name, or None for all ops; members, rows, alone, first value)
    groups: Groups
    why: str  # why the flush ran op by op, if it did
    owners: Callable[[], dict[int, int]] | None  # finds by value the group that makes the value
    steps: list[Any]  # steps with `inputs` and `outputs`, if their values are not the states'
    n_ops: int = 0  # the number of states when the flush was remembered
    serial: int = 0  # counts the records, see `flush_log.Flush.records`

    def listed(self) -> list[Any]:
        """The groups."""
        return self.groups() if callable(self.groups) else self.groups

    @property
    def is_of_lanes(self) -> bool:
        """Whether the groups are lanes, each of which stands for a fiber."""
        return not callable(self.groups) and self.owners is None


NOTED: deque[tuple[Any, ...]] = deque()  # the fields of a `Noted` each
_n_noted = 0  # the number of ops of all that is in `NOTED`
_next = 0  # the serial of the next record


def next_record() -> int:
    """The serial that the next record of a flush will have."""
    return _next


def forget() -> None:
    """Remember no flush any more."""
    global _n_noted
    NOTED.clear()
    _n_noted = 0


def note(
    states: list[Any],
    sites: Sites | None,
    groups: Groups,
    why: str = "",
    owners: Callable[[], dict[int, int]] | None = None,
    steps: list[Any] | None = None,
) -> None:
    """Remember a flush; the parameters are the fields of `Noted`."""
    global _n_noted, _next
    NOTED.append((states, sites, groups, why, owners, steps or [], len(states), _next))
    _next += 1
    _n_noted += len(states)
    while len(NOTED) > REMEMBERED or (len(NOTED) > 1 and _n_noted > MOST_OPS):
        _n_noted -= NOTED.popleft()[-2]


def records(first: int, end: int) -> list[Noted]:
    """Return the records with serials from `first` on and before `end`, if still remembered."""
    return [found for row in list(NOTED) if first <= (found := Noted(*row)).serial < end]


def why_op_by_op(states: list[Any]) -> str:
    """Return why a flush off the trie did not run by regions, as far as the ops tell."""
    why = why_unsuited(states)
    return why or "hooks or retain_grad() need single ops, or most ops came in a new order"


def why_apart(states: list[Any]) -> str:
    """Return why calls did not run together, as far as the ops tell."""
    return why_unsuited(states) or "nothing like it was ready with it, or it did not pay"


def why_unsuited(states: list[Any]) -> str:
    """Return which op keeps a flush from being run by regions, and why; "" for none."""
    for state in states:
        if isinstance(state.prim, LeafPrimitive):
            continue
        if state.is_step:
            return "it holds a backward pass"
        if code_of(state.prim, state) == _grouper.UNSUITED:
            prim = state.prim
            if prim.facts.calls_user:
                return f"{prim.name} is a user's function"
            return f"{prim.name} writes into its operand"
    return ""
