"""Reads a pickle without unpickling: a small machine with harmless opcodes only.

The machine builds None, numbers, strings, bytes, lists, tuples, dicts and sets by itself. Anything
else has a name, and the machine's `Names` decides about the meaning of a name and the effect of a
call. An opcode outside of the table, a name outside of the list, a stack that does not fit:
CheckpointError, before any call.

Hostile files are bounded. Lengths are compared with the remaining bytes. Containers under
construction may nest MAX_DEPTH deep. The result may cost memory and time in proportion to the file
only (`Budget`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from wend.serialization._budget import MAX_NESTING, PER_ITEM, Budget, check_nesting
from wend.serialization._errors import CheckpointError
from wend.serialization._names import Names, full_name
from wend.serialization._opcodes import OPCODES, Decoder

__all__ = ["Interpreter", "named_globals"]

MAX_DEPTH = 1000  # containers open at once
# containers in containers that a call copies: the tuple of arguments, a list of pairs
ARGUMENT_DEPTH = 3

Persistent = Callable[[Any], Any]


class Interpreter:
    """Runs a pickle. `names` gives meaning to names, `persistent` to persistent ids (storages).

    encoding: of Python 2's byte strings; "bytes" keeps them bytes.
    """

    def __init__(
        self, data: bytes, names: Names, persistent: Persistent, encoding: str = "utf-8"
    ) -> None:
        self.decoder = Decoder(data, encoding)
        self.names = names
        self.persistent = persistent
        self.budget = Budget(len(data))
        self.containers = 0
        self.fetching = False  # whether `persistent` runs, whose errors are the caller's own
        self.memo: list[Any] = []
        self.sparse: dict[int, Any] = {}  # values noted out of order
        self.stack: list[Any] = []
        self.outer: list[list[Any]] = []  # the stacks below each open mark

    def run(self) -> Any:
        """The object that the pickle describes. Raises CheckpointError."""
        place = "the first opcode"
        try:
            for at, opcode, argument in self.decoder:
                place = f"{opcode.name} at byte {at}"
                HANDLERS[opcode.name](self, argument)
        except (CheckpointError, MemoryError):
            raise
        # The machine's own slips (an empty stack, an unhashable key) and errors of the classes that
        # the user declared safe: all mean that this file cannot be read.
        except Exception as error:
            if self.fetching:
                raise
            raise CheckpointError(f"load: {place} of the pickle fails: {_reason(error)}") from error
        if self.outer or len(self.stack) != 1:
            raise CheckpointError("load: the pickle leaves an unfinished object behind")
        result = self.stack[0]
        if self.containers > MAX_NESTING:
            check_nesting(result)
        return result

    def push(self, value: object) -> None:
        self.stack.append(value)

    def push_container(self, value: object, cost: int) -> None:
        """Push a new list, dict, set or instance that costs about `cost` bytes."""
        self.containers += 1
        self.budget.charge(cost)
        self.stack.append(value)

    # --- marks and the memo

    def mark(self, _: None) -> None:
        if len(self.outer) >= MAX_DEPTH:
            raise CheckpointError(f"load: containers nest more than {MAX_DEPTH} deep")
        self.outer.append(self.stack)
        self.stack = []

    def pop_mark(self) -> list[Any]:
        if not self.outer:
            raise CheckpointError("load: the pickle closes a container that it did not open")
        items, self.stack = self.stack, self.outer.pop()
        return items

    def drop(self, _: None) -> None:
        self.stack.pop()

    def drop_mark(self, _: None) -> None:
        self.pop_mark()

    def put(self, index: int) -> None:
        if index == len(self.memo):
            self.budget.charge(16)
            self.memo.append(self.stack[-1])
        elif index < len(self.memo):
            self.memo[index] = self.stack[-1]
        else:
            # Python's pickler counts from 0; other writers may not.
            self.budget.charge(120)
            self.sparse[index] = self.stack[-1]

    def memoize(self, _: None) -> None:
        self.put(len(self.memo) + len(self.sparse))

    def get(self, index: int) -> None:
        if index < len(self.memo):
            self.push(self.memo[index])
        elif index in self.sparse:
            self.push(self.sparse[index])
        else:
            raise CheckpointError(f"load: the pickle refers to object {index}, which it never made")

    # --- containers

    def tuple_of(self, count: int | None) -> None:
        if count is None:
            items = tuple(self.pop_mark())
        else:
            if len(self.stack) < count:
                raise CheckpointError("load: the pickle takes more off its stack than is there")
            items = tuple(self.stack[len(self.stack) - count :])
            del self.stack[len(self.stack) - count :]
        self.push_container(items, 40 + 8 * len(items))

    def frozenset_of(self, _: None) -> None:
        items = self.pop_mark()
        self.budget.check_keys(items)
        self.push_container(frozenset(items), 216)

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list and not self._is_trusted(target, list):
            raise CheckpointError(f"load: the pickle appends to a {type(target).__name__}")
        self.budget.charge(PER_ITEM * len(items))
        for item in items:
            target.append(item)

    def add_items(self, _: None) -> None:
        items = self.pop_mark()
        target = self.stack[-1]
        if type(target) is not set and not self._is_trusted(target, set):
            raise CheckpointError(f"load: the pickle adds to a {type(target).__name__}")
        self.budget.check_keys(items, id(target))
        for item in items:
            target.add(item)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict, Counter) and not self._is_trusted(target, dict):
            raise CheckpointError(f"load: the pickle sets items of a {type(target).__name__}")
        if len(items) % 2:
            raise CheckpointError("load: the pickle sets a key without a value")
        keys = items[::2]
        self.budget.check_keys(keys, id(target))
        for key, value in zip(keys, items[1::2], strict=True):
            target[key] = value

    def _is_trusted(self, value: object, base: type) -> bool:
        """Whether the value is a list, dict or set of a class that the user declared safe."""
        return isinstance(value, base) and self.names.is_user_class(type(value))

    def set_one_item(self, _: None) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_items([key, value])

    # --- named objects

    def named(self, path: tuple[str, str]) -> None:
        self.push(self.names.lookup(*path))

    def named_from_stack(self, _: None) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise CheckpointError("load: the pickle names something by a value that is no string")
        self.named((module, name))

    def reduce(self, _: None) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        arguments = self.names.arguments(function, arguments)
        if type(arguments) is not tuple:
            raise CheckpointError("load: the pickle passes arguments that are no tuple")
        # Charged first: the call may copy all arguments.
        self.budget.weigh(arguments, ARGUMENT_DEPTH)
        self.budget.check_keys(self.names.keys(function, arguments))
        self.push_container(self.names.call(function, arguments), self.names.cost(function))

    def new_object(self, _: None) -> None:
        arguments, cls = self.stack.pop(), self.stack.pop()
        self._make(cls, arguments, {})

    def new_object_with_keywords(self, _: None) -> None:
        keywords, arguments, cls = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self._make(cls, arguments, keywords)

    def _make(self, cls: object, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.budget.weigh((arguments, keywords), ARGUMENT_DEPTH)
        self.push_container(self.names.new(cls, arguments, keywords), 500)

    def build(self, _: None) -> None:
        state = self.stack.pop()
        self.budget.weigh(state, ARGUMENT_DEPTH)
        self.names.build(self.stack[-1], state)

    def persistent_id(self, _: None) -> None:
        identity = self.stack.pop()
        self.budget.weigh(identity, ARGUMENT_DEPTH)
        self.fetching = True
        storage = self.persistent(identity)
        self.fetching = False
        self.push_container(storage, 500)


def _reason(error: Exception) -> str:
    if isinstance(error, IndexError):
        return "it takes more off the stack than is there"
    return f"{type(error).__name__}: {str(error)[:200]}"


def _nothing(machine: Interpreter, argument: object) -> None:
    """PROTO, FRAME and STOP carry no data."""


Handler = Callable[[Interpreter, Any], None]
HANDLERS: dict[str, Handler] = {
    "PROTO": _nothing,
    "FRAME": _nothing,
    "STOP": _nothing,
    "MARK": Interpreter.mark,
    "POP": Interpreter.drop,
    "POP_MARK": Interpreter.drop_mark,
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "BYTEARRAY8": lambda machine, raw: machine.push(bytearray(raw)),
    "EMPTY_LIST": lambda machine, _: machine.push_container([], 56),
    "EMPTY_DICT": lambda machine, _: machine.push_container({}, 64),
    "EMPTY_SET": lambda machine, _: machine.push_container(set(), 216),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "APPEND": lambda machine, _: machine.append([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.pop_mark()),
    "SETITEM": Interpreter.set_one_item,
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_mark()),
    "ADDITEMS": Interpreter.add_items,
    "FROZENSET": Interpreter.frozenset_of,
    "TUPLE": lambda machine, _: machine.tuple_of(None),
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "BINPUT": Interpreter.put,
    "LONG_BINPUT": Interpreter.put,
    "MEMOIZE": Interpreter.memoize,
    "BINGET": Interpreter.get,
    "LONG_BINGET": Interpreter.get,
    "GLOBAL": Interpreter.named,
    "STACK_GLOBAL": Interpreter.named_from_stack,
    "REDUCE": Interpreter.reduce,
    "NEWOBJ": Interpreter.new_object,
    "NEWOBJ_EX": Interpreter.new_object_with_keywords,
    "BUILD": Interpreter.build,
    "BINPERSID": Interpreter.persistent_id,
}
# All remaining opcodes push their argument.
for _opcode in OPCODES.values():
    HANDLERS.setdefault(_opcode.name, Interpreter.push)


# --- looking without building -------------------------------------------------------------------


class Placeholder:
    """Stands for the result of a named function; takes and forgets items."""

    def append(self, item: object) -> None:
        pass

    def add(self, item: object) -> None:
        pass

    def __setitem__(self, key: object, value: object) -> None:
        pass


class CollectNames(Names):
    """Notes the names that are looked up; calls nothing."""

    def __init__(self) -> None:
        super().__init__({})
        self.found: list[str] = []

    def lookup(self, module: str, name: str) -> Any:
        self.found.append(full_name(module, name))
        return Placeholder()

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return Placeholder()

    def new(self, cls: object, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return Placeholder()

    def build(self, instance: object, state: object) -> None:
        pass


class Scanner(Interpreter):
    """Runs a pickle with placeholders only."""

    def _is_trusted(self, value: object, base: type) -> bool:
        return type(value) is Placeholder


def named_globals(data: bytes) -> list[str]:
    """Full names that a pickle asks for, each once, in order; nothing is called."""
    names = CollectNames()
    Scanner(data, names, lambda identity: Placeholder()).run()
    return list(dict.fromkeys(names.found))
