"""Where a trace past its soft budget is flushed: on the program's own rhythm, once per turn.

A loop whose length does not divide the budget would otherwise be cut in another place each time.
Each piece would be a separate path. The trace ends at the op that it began with. Where that op lies
in an inner loop, the trace ends at an op of the outer loop instead, which comes more rarely; the
next trace then begins there.
"""

from __future__ import annotations

from collections import Counter
from types import CodeType
from typing import Any

from wend._engine.core import _hot
from wend._engine.core._hot import Trace
from wend._engine.core.provenance import user_site

Place = tuple[int, int]  # id of a code object, instruction

#: The places where the latest trace may end, by its serial.
_ENDINGS: dict[int, frozenset[Place]] = {}


def on_beat(trace: Trace, code: CodeType, lasti: int) -> bool:
    """Whether the op about to be recorded is where the program's loop begins anew."""
    for state in trace.states:
        if state.within:  # recorded by the package: a module, as a rule
            if trace.modules:
                return False
            return trace.n >= trace.soft_nodes or comes_again(trace, state, code, lasti)
        if state.code is not None:
            break
    else:
        return True
    ends = _ENDINGS.get(trace.serial)
    if ends is None:
        _ENDINGS.clear()
        ends = _ENDINGS[trace.serial] = endings(trace, (id(state.code), state.lasti))
    return (id(code), lasti) in ends


def comes_again(trace: Trace, first: Any, code: Any, lasti: int) -> bool:
    """Whether this line of the user's is in the trace; of the package's lines, the first alone.

    So a large step of training ends where its optimizer does, and not behind its model.
    """
    if not _hot.is_internal(code):
        place = (id(code), lasti)
        return any(line == place for line in places(trace, 0))
    if trace.site_code is not None:
        code, lasti = trace.site_code, trace.site_lasti
    else:
        code, lasti = user_site()
    return bool(code is first.code and lasti == first.lasti)


def endings(trace: Trace, first: Place) -> frozenset[Place]:
    """Places that recur, but far more rarely than `first`; that alone if there are none.

    If `first` does not recur either, the trace began before the loop: any of the rarest will do.
    """
    times = Counter(recent_places(trace))
    again = {place: n for place, n in times.items() if n > 1}
    if not again:
        return frozenset([first])
    # Counts of ops in a loop differ by 1 where the trace ends in the middle of a turn.
    limit = times[first] / 2 if times[first] else min(again.values()) + 2
    rare = frozenset(place for place, n in again.items() if n < limit)
    return rare or frozenset([first])


def recent_places(trace: Trace) -> list[Place]:
    """The user's lines behind the later half of a trace, where they called ops themselves."""
    return places(trace, len(trace.states) // 2)


def places(trace: Trace, start: int) -> list[Place]:
    """The lines behind a trace from a step on, where the user called ops, and no package did."""
    sites = trace.sites or {}
    lines = []
    for k, state in enumerate(trace.states[start:], start):
        if state.code is not None and not state.within:
            code, lasti = sites.get(k, (state.code, state.lasti))
            lines.append((id(code), lasti))
    return lines


_hot.set_slot("on_beat", on_beat)
