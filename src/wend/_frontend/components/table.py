"""The table of a class of composite tensors: which rule an op has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, NoReturn

from wend._engine.base.errors import NotImplementedInWend
from wend._frontend.components.calls import Call

__all__ = ["Entry", "OpTable", "as_called", "refused"]

Rule = Callable[..., Any]
Family = Callable[[Call, Any], Any]


class Entry(NamedTuple):
    """A rule, the family that applies the rule, and whether forms in place belong there as well."""

    family: Family
    rule: Rule | None
    in_place: bool


class OpTable:
    """The rules of ops on the tensors of a class that is made of components.

    otherwise: the result of a call of an op without an entry; the op is refused by default
    within: makes the block in which rules run
    write: write(call, target, result) ends a call of a form in place, or with `out=`. The result
        has then been computed as of the plain form; without `write`, families see all forms.
    """

    def __init__(
        self,
        otherwise: Callable[[Call], Any] | None = None,
        within: Callable[[], AbstractContextManager[Any]] | None = None,
        write: Callable[[Call, Any, Any], Any] | None = None,
    ) -> None:
        self.otherwise = otherwise or refused(NotImplementedInWend, "{name}: has no rule here")
        self.within = within
        self.write = write
        self.entries: dict[str, Entry] = {}

    def family(
        self, family: Family, rules: Iterable[str] | Mapping[str, Rule], in_place: bool = False
    ) -> None:
        """Enter ops, for which the result of a call is family(call, rule).

        rules: names of ops, or rules by the names of ops. An alias of an op needs no entry.
        in_place: whether the op's form in place, such as `add_`, belongs to the family as well
        Raises TypeError for an op that has an entry.
        """
        for name in rules:
            if name in self.entries:
                raise TypeError(f"two entries for {name!r} in a table of ops")
            rule = rules[name] if isinstance(rules, Mapping) else None
            self.entries[name] = Entry(family, rule, in_place)

    def entry(self, call: Call) -> Entry | None:
        """The entry of the op: by the name as called, by that without `_`, by the op's own name."""
        entry = self.entries.get(call.name)
        if entry is not None:
            return entry
        entry = self.entries.get(call.base) or self.entries.get(call.op)
        if entry is None or not call.in_place or entry.in_place or self.write is not None:
            return entry
        return None

    def __call__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of func(*args, **kwargs), of which some arguments are composite tensors."""
        call = Call(func, args, kwargs)
        if self.within is None:
            return self._result(call)
        with self.within():
            return self._result(call)

    def _result(self, call: Call) -> Any:
        write, entry = self.write, self.entry(call)
        if write is not None:
            call.take_out()
        result = self.otherwise(call) if entry is None else entry.family(call, entry.rule)
        if write is None:
            return result
        if call.in_place and call.name not in self.entries:
            return write(call, call.args[0], result)
        return result if call.out is None else write(call, call.out, result)

    @property
    def torch_function(self) -> Any:
        """The `__torch_function__` of the class."""

        def __torch_function__(
            cls: type, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            return self(func, args, kwargs or {})

        return classmethod(__torch_function__)


def as_called(call: Call, rule: Rule) -> Any:
    """The family of rules that take a call's own arguments."""
    return rule(*call.args, **call.kwargs)


def refused(error: type[Exception], text: str) -> Callable[..., NoReturn]:
    """The family of ops that raise an error; `{name}` in the text is the op's name."""

    def refuse(call: Call, rule: None = None) -> NoReturn:
        raise error(text.format(name=call.name))

    return refuse
