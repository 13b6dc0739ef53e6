"""Whether groups run a flush, and which plan is awaited meanwhile.

Each flush asks this module. `executor.py` runs the groups, and is loaded for the first groups.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

from wend._engine.base import config
from wend._engine.core import _hot, _trie_policy
from wend._engine.core._hot import FlushJob, State, Value
from wend._engine.core._select import is_compiled
from wend._engine.runtime.tiers import MOST_AWAITED, TieredPlan, is_making_others

_UNCOMPILED = not is_compiled(_hot)
#: A path of at least so many ops is run by groups the first time, as if off the trie.
LONG = 200
#: A path of fewer ops, which are so many primitives, is run by groups from the third time on, until
#: its plan has machine code.
MANY = 300
#: The key, among the plans of a path, of the share of grouped ops that ran in large groups; and the
#: least share for which a path that comes back is run by groups again.
SHARE, ENOUGH = "share in large groups", 0.5
#: The key, among the plans of a path, of the `Awaited` plan of what follows on it.
AWAITED = "plan in the making"
#: About how many ops a path and its backward pass have together, for each op of the path. A path
#: whose backward pass is too long to be planned stays with groups, which run both.
WITH_BACKWARD = 3
#: So many visits run in parts, until a visit shows whether several backward passes that were
#: planned as a whole have followed on each other again.
GUESSES = 4
#: The visit by groups from which on the duration counts: earlier visits make templates. Until the
#: second number, the duration does not count while machine code of templates is in the making.
SETTLED, SETTLED_ANYWAY = 4, 40
#: So many visits in a row that take longer than the reference are the last ones by groups.
SLOWER = 4
#: Seconds without a visit after which a long path that is being planned holds up no other.
FORGOTTEN = 5.0
#: Backward passes that flushes are to run, by the id of the flush's list of values: (number of
#: values, (execution, seeds, list for the gradients)).  The number is compared, because another
#: thread or fiber may record more ops before the flush runs.
ASKED: dict[int, Any] = {}


class Awaited:
    """A long path's plan that has no machine code yet; groups run the path until it has.

    The plan is that of the pending ops together with the step of their backward pass. While the
    plan is awaited, no such step is recorded.
    """

    __slots__ = (
        "guess",
        "plan",
        "planning",
        "reference",
        "refused",
        "seconds",
        "slower",
        "visits",
        "waits",
    )

    def __init__(self, plan: TieredPlan) -> None:
        #: The trie may let go of the plan.
        self.plan: Callable[[], TieredPlan | None] = weakref.ref(plan)
        self.reference = plan.seconds  # duration of the visit by the plan without machine code
        self.refused = False  # whether groups have turned out not to run the path, or more slowly
        self.seconds = 0.0  # duration of the last visit by groups, without planning
        self.planning = 0.0  # duration of planning in the visit that is under way
        self.visits = 0
        self.slower = 0  # how many visits in a row have taken longer than the reference
        self.waits = False  # whether groups are to run the visit that is under way
        #: The end of the planned path, and its visits, if the path has several backward passes:
        #: other batches may follow next time. None once the same have followed.
        self.guess: tuple[Any, int] | None = None

    def goes_on(self) -> bool:
        """Go on with planning; return whether groups are to run this visit as well."""
        if self.guess is not None and self.visits >= GUESSES:
            return self.verify()
        plan = None if self.refused else self.plan()
        start = time.perf_counter()
        self.waits = plan is not None and plan.awaited(self.seconds)
        self.planning = time.perf_counter() - start
        return self.waits

    def verify(self) -> bool:
        """Let a visit run as a whole, to see whether what was planned follows; returns False.

        Where something else has followed, the plan is awaited no more.
        """
        assert self.guess is not None
        end, passed = self.guess
        state = end()
        if self.visits > GUESSES:
            self.guess = None
            if state is None or state.passed <= passed:
                self.plan = _no_plan
        elif state is not None:
            self.guess = end, state.passed
        self.visits += 1
        return False

    def end_visit(self, ran: bool, seconds: float) -> None:
        """Note how a visit has ended.

        ran: whether groups have run the path
        seconds: duration of the visit
        """
        if self.waits:
            self.visits += 1
            seconds -= self.planning
            slow = seconds > self.reference and self.is_settled()
            self.slower = self.slower + 1 if slow else 0
            refused = not ran or self.slower >= SLOWER
            self.waits, self.refused, self.seconds = False, refused, seconds

    def is_settled(self) -> bool:
        """Return whether the duration of a visit counts."""
        if self.visits < SETTLED_ANYWAY and is_making_others(self.plan()):
            return False
        return self.visits >= SETTLED


def _no_plan() -> TieredPlan | None:
    """Stand in for a reference to a plan."""
    return None


def awaited_behind(state: State | None) -> Awaited | None:
    """Return the plan that is awaited for what follows on a path, if any."""
    found: Awaited | None = None if state is None else (state.plans or {}).get(AWAITED)
    return found


def open_among(values: list[Value], live: list[int]) -> list[int]:
    """The results of a flush that a later backward pass may begin at."""
    return [i for i in live if values[i].requires_grad and values[i].leaf is None]


def suits_groups(state: State | None, states: list[Any]) -> bool:
    """Whether groups are the better way to run a path.

    Off the trie no plan would be found again. Planning a long path takes far longer than running
    the first visit by groups. Later visits are run by groups if the groups have been large enough.
    """
    if state is None:
        return True
    if len(states) < LONG:
        return False
    if state.passed == 0 or (state.plans or {}).get(SHARE, 0.0) >= ENOUGH:
        return True
    return SHARE in (state.plans or {}) and not may_begin(state)


def may_begin(state: State) -> bool:
    """Whether a long path that has come back may be run by a plan, to be planned from then on.

    Such a visit takes far longer than one by groups, so that one path begins at a time. A path
    whose continuation the trie refuses would find no plan again.
    """
    plans = state.plans or {}
    if AWAITED in plans or any(type(plan) is TieredPlan for plan in plans.values()):
        return True
    making = None if _in_making is None else _in_making()
    unfinished = making is not None and making.compiled is None and not making.hopeless
    if making is not None and unfinished and time.perf_counter() - making.visited < FORGOTTEN:
        return False
    return not _trie_policy.is_sealed(state)


def note_making(plan: TieredPlan) -> None:
    """Note that a long path has begun to be planned: see `may_begin`."""
    global _in_making
    _in_making = weakref.ref(plan)


_in_making: weakref.ref[TieredPlan] | None = None


def is_worth(plan: TieredPlan, ops: int) -> bool:
    """Return whether a path that has come back is long enough for groups, while code is awaited.

    ops: how many of the path's ops the groups would run
    """
    return ops >= LONG or (ops > 0 and plan.n_ops >= MANY)


def await_code(plan: object, batch: FlushJob, in_parts: bool) -> None:
    """Let groups or parts run the next visits of a path that has just run by a plan, if they can.

    The core must not record the path's backward pass by itself then.
    """
    if not isinstance(plan, TieredPlan) or plan.compiled is not None or not allowed():
        return
    if len(batch.states) >= LONG:
        note_making(plan)
    step = next((k for k, state in enumerate(batch.states) if state.is_step), 0)
    start = batch.states[step].parent
    if not (in_parts or is_worth(plan, step)) or start is None or start.passed == 0:
        return
    plans = start.plans = start.plans or {}
    known = plans.get(AWAITED)
    if known is None or not known.refused:
        plans[AWAITED] = awaited = Awaited(plan)
        batch.states[step].simple = 0
        if in_parts and any(state.is_step for state in batch.states[step + 1 :]):
            awaited.guess = weakref.ref(batch.states[-1]), 0
        if step >= LONG:
            plan.begin(batch)


def allowed() -> bool:
    """Whether the settings allow batching, whose order of sums depends on all pending ops.

    Groups fill tables and argument blocks that the flushes of all threads use. In the uncompiled
    core another thread may come in between.
    """
    settings = config.settings
    return settings.autobatch and not settings.deterministic and not shares_tables()


def shares_tables() -> bool:
    """Whether another thread may come in between while groups fill their tables."""
    return _UNCOMPILED and _hot.several()


def why_not(batch: FlushJob, live: list[int]) -> str:
    """Return why a flush must not run by groups; "" if the flush may."""
    if ASKED.get(id(batch.values), (0, None))[0] == len(batch.values):
        return ""  # a backward pass has begun with these groups
    if shares_tables():
        return "several threads record ops"
    if not allowed():
        return "autobatch(False) or deterministic algorithms are on"
    if not suits_groups(batch.state, batch.states) and not awaits_code(batch, live):
        return "its path may come back: machine code is quicker"
    return ""


def awaits_code(batch: FlushJob, live: list[int], goes_on: bool = True) -> bool:
    """Whether a long path has come back, and the plan for the live values has no machine code.

    goes_on: whether planning is to go on
    """
    plan = (batch.state.plans or {}).get(tuple(live))
    if not isinstance(plan, TieredPlan) or not is_worth(plan, len(batch.states)):
        return False
    if open_among(batch.values, live) and plan.n_ops * WITH_BACKWARD > MOST_AWAITED:
        return plan.compiled is None
    if not goes_on:
        return plan.may_wait(plan.seconds)
    return plan.awaited(plan.seconds)  # nobody has timed the groups: the reference stands for them


def follow_settings() -> None:
    """Tell the core whether ops should wait for more ops, to run together."""
    _hot.set_autobatch(config.settings.autobatch)


config.settings.on_change(follow_settings)
follow_settings()
