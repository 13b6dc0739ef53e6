"""`Join`: processes with unequal amounts of data. Those without any take part with zeros."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError
from wend._engine.core.provenance import user_level
from wend.distributed._group import ProcessGroup

__all__ = ["Join", "JoinHook", "Joinable"]

#: Steps that a process without data takes part in before a warning of very unequal amounts.
MANY = 1000


class JoinHook:
    """The part of a `Joinable` in a process that has no data left."""

    def main_hook(self) -> None:
        """Called for each step of processes with data: takes part in the collectives."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when no process has data left.

        is_last_joiner: whether no process had data longer
        """


class JoinConfig(NamedTuple):
    """The part of a `Join` block that a joinable asks for in its steps."""

    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool


#: Outside of `Join` blocks.
DISABLED = JoinConfig(False, False, False)


class Joinable(ABC):
    """A class whose steps have collectives; these follow a call of `Join.notify_join_context`."""

    _join_config = DISABLED

    @abstractmethod
    def join_hook(self, **kwargs: object) -> JoinHook:
        """The hook for this object; kwargs are those of `Join`."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of the collectives."""

    @property
    @abstractmethod
    def join_process_group(self) -> ProcessGroup | None:
        """The group of the collectives."""


class Join:
    """Context: a training loop whose processes take unequal numbers of steps.

        with Join([model]):
            for input, target in loader:
                ...

    A process that leaves the loop early goes on with the collectives of the remaining steps until
    no process has data left. The hooks of the joinables do this work.

    joinables: objects with collectives in their steps, in the order of a step
    enable: False where all processes are known to take as many steps
    throw_on_early_termination: raise an error in all processes when the first has no more data
    kwargs: for the hooks
    Raises ArgumentError (a ValueError) for no joinables, or for unlike groups.
    """

    def __init__(
        self,
        joinables: list[Any],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: object,
    ) -> None:
        if not joinables:
            raise ArgumentError("Join: the context manager needs at least one joinable")
        for joinable in joinables:
            if not hasattr(joinable, "join_hook"):
                raise ArgumentTypeError(
                    f"Join: expected Joinables, got {type(joinable).__name__}; "
                    "derive the class from Joinable"
                )
        groups = [joinable.join_process_group for joinable in joinables]
        if any(group is not groups[0] for group in groups):
            raise ArgumentError("Join: using join context manager with multiple process groups")
        self._joinables = joinables
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable = enable and groups[0].size() > 1
        self._throw = throw_on_early_termination
        self._group = groups[0]
        for joinable in joinables:
            first = joinable is joinables[0]
            joinable._join_config = JoinConfig(self._enable, self._throw, first)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._enable and kind is None:
                self._shadow()
        finally:
            for joinable in self._joinables:
                joinable._join_config = DISABLED

    def _shadow(self) -> None:
        """Take part in the steps of processes with data, until none has any left."""
        last, steps = True, 0
        while total(self._group, 0):
            if self._throw:
                total(self._group, 1)
                raise early(self._group)
            last = False
            for hook in self._hooks:
                hook.main_hook()
            steps += 1
            if steps == MANY:
                warnings.warn(
                    f"Join: this process has had no data for {MANY} steps of other processes; "
                    "unequal data may train worse than data cut to equal parts",
                    stacklevel=user_level(),
                )
        for hook in self._hooks:
            hook.post_hook(last)

    @staticmethod
    def notify_join_context(joinable: Any) -> int | None:
        """Tell processes without data that this process takes a step; called before collectives.

        Returns the number of processes that take the step; None outside of `Join` blocks, and for
        all joinables but the first.
        Raises GraphError (a RuntimeError) with `throw_on_early_termination`, once any process has
        no data.
        """
        config = getattr(joinable, "_join_config", None)
        if config is None:
            raise ArgumentTypeError(
                f"Join: expected a Joinable, got {type(joinable).__name__}; call the constructor "
                "of Joinable"
            )
        if not (config.enable and config.is_first_joinable):
            return None
        group = joinable.join_process_group
        count = total(group, 1)
        if config.throw_on_early_termination and count < group.size():
            total(group, 0)
            raise early(group)
        return count


def total(group: ProcessGroup, number: int) -> int:
    """The sum of a number over the ranks of a group."""
    mine = np.array([number], np.int64)

    def call(line: Any) -> int:
        out = np.empty_like(mine)
        line.all_reduce(mine, out, "sum")
        return int(out[0])

    sum_of_ranks: int = group.line().run(("join",), call).found
    return sum_of_ranks


def early(group: ProcessGroup) -> GraphError:
    """The error of processes that stop as soon as any has no more data."""
    return GraphError(
        f"Join: rank {group.rank()} stops: at least one rank has exhausted its inputs, and "
        "throw_on_early_termination was asked for"
    )
