"""Nested states as flat rows: names of leaves, and plain values as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core._hot import Tensor
from wend.distributed.checkpoint.stateful import Stateful

__all__ = ["flattened", "from_plain", "replaced", "to_plain", "with_states"]

Path = tuple[Any, ...]


def with_states(state: dict[str, Any]) -> dict[str, Any]:
    """The state, with the states of objects in place of the objects at its top."""
    return {
        key: value.state_dict()
        if isinstance(value, Stateful) and not isinstance(value, Tensor)
        else value
        for key, value in state.items()
    }


def _holds_tensor(value: object) -> bool:
    if isinstance(value, Tensor):
        return True
    if isinstance(value, dict):
        return any(map(_holds_tensor, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_holds_tensor, value))


def _is_branch(value: object) -> bool:
    """Whether a value has leaves of its own: a dict with entries, or a list with tensors."""
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, (list, tuple)) and _holds_tensor(value)


def _rows(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if not _is_branch(value):
        yield path, value
        return
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        if not isinstance(key, (str, int)) or isinstance(key, bool):
            raise ArgumentTypeError(
                f"checkpoint: the key {key!r} in {name_of(path)!r} is neither a str nor an int"
            )
        yield from _rows(item, (*path, key))


def name_of(path: Path) -> str:
    """The keys that lead to a leaf, with dots between."""
    return ".".join(map(str, path))


def flattened(state: dict[str, Any]) -> dict[str, tuple[Path, Any]]:
    """The leaves of a nested state by name, each with its path.

    Raises ArgumentTypeError for keys that are neither str nor int, ArgumentError (a ValueError) if
    two leaves have the same name.
    """
    leaves: dict[str, tuple[Path, Any]] = {}
    for path, value in _rows(state, ()) if state else ():
        name = name_of(path)
        if name in leaves:
            raise ArgumentError(f"checkpoint: two entries have the name {name!r}")
        leaves[name] = path, value
    return leaves


def replaced(state: Any, give: Callable[[str, Any], Any], path: Path = ()) -> Any:
    """The state with `give(name, leaf)` for each leaf; dicts and lists are changed in place."""
    if path and not _is_branch(state):
        return give(name_of(path), state)
    if isinstance(state, dict):
        for key, value in list(state.items()):
            state[key] = replaced(value, give, (*path, key))
        return state
    items = [replaced(value, give, (*path, k)) for k, value in enumerate(state)]
    if isinstance(state, list):
        state[:] = items
        return state
    return tuple(items)


def to_plain(name: str, value: object) -> Any:
    """A value as JSON knows values: a tuple is {"tuple": [...]}, a dict {"dict": [pairs]}.

    Raises ArgumentTypeError for anything but None, bools, numbers, texts, lists, tuples and dicts.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (bool, int, float, str)) and hasattr(value, "item"):
        return to_plain(name, value.item())  # NumPy's float64 is a float
    if type(value) is list:
        return [to_plain(name, item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [to_plain(name, item) for item in value]}
    if isinstance(value, dict):
        pairs = [[to_plain(name, k), to_plain(name, v)] for k, v in value.items()]
        return {"dict": pairs}
    raise ArgumentTypeError(
        f"checkpoint: {name!r} has a {type(value).__name__}; a checkpoint holds tensors, numbers, "
        "texts, None, lists, tuples and dicts. Save its parts, or give the object a `state_dict`"
    )


def from_plain(value: object) -> Any:
    """The value that `to_plain` was given."""
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if isinstance(value, dict):
        if "tuple" in value:
            return tuple(from_plain(item) for item in value["tuple"])
        return {from_plain(key): from_plain(item) for key, item in value["dict"]}
    return value
