"""Meanings of the names in a checkpoint: the list of a default load, and no further names.

A checkpoint says `torch._utils._rebuild_tensor_v2` and means "make a tensor". The machine that
reads the checkpoint asks here. Only names on the list, and names that the user declared safe, have
a meaning. The effect of a call is a function of Wend's, which checks its arguments.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend.serialization._errors import CheckpointError, UnsafeName, short
from wend.serialization._renaming import torch_path

__all__ = [
    "Meaning",
    "Names",
    "add_safe_globals",
    "clear_safe_globals",
    "full_name",
    "get_safe_globals",
    "safe_globals",
]

# Python 2's names, which pickles of protocol 2 still use.
OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
# Never handed out, not even at the user's wish: these run commands.
BLOCKED = frozenset({"os", "posix", "nt", "sys", "subprocess", "pty", "commands"})


class Meaning(NamedTuple):
    """value: the object of the name.   call: the effect of a call; None if calls are not allowed.

    build: sets the state of an instance; None if that is not allowed.
    cost: bytes that a call may take besides its arguments.
    keys: of the arguments of a call, those that it will use as keys.
    """

    value: Any
    call: Callable[..., Any] | None = None
    build: Callable[[Any, Any], None] | None = None
    cost: int = 500
    keys: Callable[..., Iterable[Any]] | None = None


def full_name(module: str, name: str) -> str:
    """The dotted name of a pickle's (module, name), Python 2's modules by their present names."""
    return f"{OLD_MODULES.get(module, module)}.{name}"


class Names:
    """The meanings of a load: Wend's own list, and the user's safe names at that time."""

    def __init__(self, allowed: Mapping[str, Meaning]) -> None:
        self.allowed = allowed
        self.user = _user_meanings()
        meanings = [*allowed.values(), *self.user.values()]
        # Functions on the machine's stack are recognised by identity, whatever their __eq__ says.
        self._by_id = {id(meaning.value): meaning for meaning in meanings}
        self._user_classes = {
            meaning.value for meaning in self.user.values() if isinstance(meaning.value, type)
        }

    def lookup(self, module: str, name: str) -> Any:
        """The object of `module.name`. Raises UnsafeName for a name that is not on the list."""
        path = full_name(module, name)
        if path.split(".")[0] in BLOCKED:
            raise UnsafeName(
                f"load: the file asks for {path[:200]}, which no checkpoint needs; {NOTHING}"
            )
        meaning = self.allowed.get(path) or self.user.get(path)
        if meaning is None:
            raise UnsafeName(
                f"load: the file asks for {path[:200]}, which a default load does not hand out; "
                f"{NOTHING}. If you trust the file, declare the class or function safe with "
                "torch.serialization.add_safe_globals([...]), or pass weights_only=False, which "
                "lets the file run any code"
            )
        return meaning.value

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """function(*arguments), for a function on the list. Raises CheckpointError."""
        meaning = self._by_id.get(id(function))
        if meaning is None or meaning.call is None:
            raise CheckpointError(
                f"load: the file calls {short(function)}, which is not to be called"
            )
        return meaning.call(*arguments)

    def arguments(self, function: Callable[..., Any], value: Any) -> Any:
        """The arguments of a call, as the file writes them: a tuple."""
        return value

    def cost(self, function: Callable[..., Any]) -> int:
        """Bytes that a call may take besides its arguments."""
        meaning = self._by_id.get(id(function))
        return 0 if meaning is None else meaning.cost

    def keys(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Iterable[Any]:
        """The keys that a call will use. Raises CheckpointError, TypeError for wrong arguments."""
        meaning = self._by_id.get(id(function))
        return () if meaning is None or meaning.keys is None else meaning.keys(*arguments)

    def new(self, cls: object, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A new instance of a class that the user declared safe. Raises CheckpointError."""
        if not isinstance(cls, type) or not self.is_user_class(cls):
            raise CheckpointError(
                f"load: the file makes a {short(cls)}, which was not declared safe"
            )
        if type(arguments) is not tuple or type(keywords) is not dict:
            raise CheckpointError("load: the file makes an object of something else than arguments")
        return cls.__new__(cls, *arguments, **keywords)

    def build(self, instance: object, state: object) -> None:
        """Set an instance's state, for a class on the list. Raises CheckpointError."""
        meaning = self._by_id.get(id(type(instance)))
        if meaning is None or meaning.build is None:
            raise CheckpointError(
                f"load: the file sets the state of a {type(instance).__name__}, "
                "which was not declared safe"
            )
        meaning.build(instance, state)

    def is_user_class(self, cls: type) -> bool:
        """Whether the user declared this very class safe."""
        return cls in self._user_classes


NOTHING = "nothing was executed"


def set_state(instance: Any, state: Any) -> None:
    """Set a state as unpickling does: by `__setstate__`, else by the dict, and the slots' dict."""
    setter = getattr(instance, "__setstate__", None)
    if setter is not None:
        setter(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        instance.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)


# --- names that the user declares safe ---------------------------------------------------------

_safe: dict[int, Any] = {}  # id -> class, function, or (class or function, full name)
_safe_lock = threading.Lock()


def _user_meanings() -> dict[str, Meaning]:
    meanings: dict[str, Meaning] = {}
    for entry in get_safe_globals():
        value, path = entry if isinstance(entry, tuple) else (entry, None)
        build = set_state if isinstance(value, type) else None
        for name in [path] if path else _paths(value):
            meanings[name] = Meaning(value, value, build)
    return meanings


def _paths(value: Any) -> Iterator[str]:
    """The names of a class or function in checkpoints: Wend's, and PyTorch's."""
    yield f"{value.__module__}.{value.__qualname__}"
    renamed = torch_path(value)
    if renamed is not None:
        yield ".".join(renamed)


def _checked(entry: object) -> Any:
    if isinstance(entry, tuple):
        if len(entry) != 2:
            raise ArgumentError(
                f"add_safe_globals: a pair (class or function, full name) is needed, got {entry!r}"
            )
        if not isinstance(entry[1], str):
            raise ArgumentTypeError(
                f"add_safe_globals: the full name must be a str, not {type(entry[1]).__name__}"
            )
    value = entry[0] if isinstance(entry, tuple) else entry
    if not callable(value):
        raise ArgumentTypeError(f"add_safe_globals: {value!r} is neither a class nor a function")
    if not isinstance(entry, tuple) and not hasattr(value, "__qualname__"):
        raise ArgumentTypeError(f"add_safe_globals: {value!r} has no name; pass (it, 'full.name')")
    return entry


def _key(entry: object) -> Any:
    return (id(entry[0]), entry[1]) if isinstance(entry, tuple) else id(entry)


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Declare classes and functions safe: a default `load` may create and call them.

    safe_globals: classes or functions, or pairs of such an object and its full name in the file.
    """
    entries = [_checked(entry) for entry in safe_globals]
    with _safe_lock:
        _safe.update({_key(entry): entry for entry in entries})


def get_safe_globals() -> list[Any]:
    """The objects declared safe, as passed."""
    with _safe_lock:
        return list(_safe.values())


def clear_safe_globals() -> None:
    """Take back everything that was declared safe."""
    with _safe_lock:
        _safe.clear()


@contextmanager
def safe_globals(safe_globals: Iterable[Any]) -> Iterator[None]:
    """Classes and functions that are safe inside a `with` block."""
    entries = [_checked(entry) for entry in safe_globals]
    with _safe_lock:
        added = {_key(entry): entry for entry in entries if _key(entry) not in _safe}
        _safe.update(added)
    try:
        yield
    finally:
        with _safe_lock:
            for key in added:
                _safe.pop(key, None)
