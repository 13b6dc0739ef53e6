"""Numbers of the graph as keys of dicts and items of sets: the keys that they may be equal to.

C looks a key up by hash, and asks for equality only where hashes are equal. So the hash of a number
of the graph needs the answers first: does the number equal any plain key? These are found
in the source of the expression that asks for the hash. Where the source does not tell all of them,
the number is fixed.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import linecache
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import FrameType, ModuleType
from typing import Any

from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend._engine.core.symbolic import SymInt, SymNumber

MOST_KEYS = 16
#: The hash of numbers that are equal to none of the plain keys.
UNLIKE = hash("a number of the graph that equals no plain key") & 0x7FFF_FFFF_FFFF or 1
_UNEQUAL = (str, bytes, type(None), type)  # kinds of keys that equal no number
_SETS = (set, frozenset)
_MISSING: object = object()
Row = dict[tuple[int, int, int, int], list[ast.expr]]


class Unknown(Exception):
    """The source does not tell an object."""


@lru_cache(maxsize=32)
def _expressions(filename: str, text: str) -> Row:
    """By place, the expressions of a file there, each with the expression around."""
    rows: Row = {}
    waiting: list[tuple[ast.AST, ast.expr | None]] = [(ast.parse(text, filename), None)]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, ast.expr):
            place = node.lineno, node.end_lineno or 0, node.col_offset, node.end_col_offset or 0
            rows[place] = [node] if around is None else [node, around]
            around = node
        waiting += [(child, around) for child in ast.iter_child_nodes(node)]
    return rows


def _expression_at(frame: FrameType) -> list[ast.expr]:
    """The expression that a frame is at, and that around."""
    at = frame.f_lasti // 2
    place: Any = next(itertools.islice(frame.f_code.co_positions(), at, None), None)
    name = frame.f_code.co_filename
    text = "".join(linecache.getlines(name, frame.f_globals))
    if place is None or not text:
        raise Unknown
    try:
        return _expressions(name, text)[place]
    except (KeyError, SyntaxError):  # the text is not that of the code that runs
        raise Unknown from None


def keys_at(frame: FrameType, engine: tuple[str, ...]) -> list[Any]:
    """The plain numbers that a number is compared with where a frame asks for the hash.

    engine: how the names of files begin that have no user's code
    Raises Unknown where the source does not tell all of them.
    """
    if frame.f_code.co_filename.startswith(engine):
        raise Unknown  # a memo of Wend's: it has the sizes of other programs too
    node, *around = _expression_at(frame)
    keys = list(dict.fromkeys(_numbers(_compared(node, around, frame))))
    if len(keys) > MOST_KEYS:
        raise Unknown
    return keys


def _compared(node: ast.expr, around: list[ast.expr], frame: FrameType) -> list[Any]:
    """The objects that an object is compared with in an expression that looks the object up."""
    if isinstance(node, ast.Compare):
        if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.In, ast.NotIn)):
            raise Unknown
        return _members(_value(node.comparators[0], frame))
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return _members(_value(node.value, frame))
    items = _display(node, frame)
    if items is not None:
        return items + _other_side(node, around, frame)
    if isinstance(node, ast.Call) and _called(node) == ".get":
        assert isinstance(node.func, ast.Attribute)
        return _members(_value(node.func.value, frame))
    raise Unknown


def _display(node: ast.expr, frame: FrameType) -> list[Any] | None:
    """The items of `{a, b}` and `set(...)`; None for a further expression."""
    if isinstance(node, ast.Set):
        return [_value(item, frame) for item in node.elts]
    if isinstance(node, ast.Call) and _called(node) in ("set", "frozenset") and len(node.args) == 1:
        items = _value(node.args[0], frame)
        if _value(node.func, frame) in _SETS and isinstance(items, (tuple, list)):
            return list(items)
    return None


def _called(node: ast.Call) -> str:
    """The name of the function that is called, or of the method after a dot."""
    if isinstance(node.func, ast.Attribute):
        return "." + node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _other_side(node: ast.expr, around: list[ast.expr], frame: FrameType) -> list[Any]:
    """The objects that items of a new set, which has no name, are compared with."""
    for outer in around:
        if isinstance(outer, ast.Call) and _called(outer) == "len" and outer.args == [node]:
            if _value(outer.func, frame) is not builtins.len:
                raise Unknown
            return []
        if isinstance(outer, ast.Compare) and len(outer.ops) == 1:
            left, right = outer.left, outer.comparators[0]
            if isinstance(outer.ops[0], (ast.In, ast.NotIn)) and right is node:
                return [_value(left, frame)]
            if isinstance(outer.ops[0], (ast.Eq, ast.NotEq)):
                other = right if left is node else left
                items = _display(other, frame)
                return _members(_value(other, frame)) if items is None else items
    raise Unknown


def _members(x: object) -> list[Any]:
    """The keys of a dict, or the items of a set."""
    if type(x) is dict or type(x) in _SETS:
        items: Iterable[Any] = x  # type: ignore[assignment]
        return list(items)
    if type(x) is list and x and type(x[0]) is _Members:
        return list(x[0].items)
    raise Unknown


def _numbers(items: Iterable[Any]) -> Iterator[Any]:
    """The plain numbers among keys, and in keys that are tuples."""
    for x in items:
        if type(x) in (int, float, bool):
            yield x
        elif isinstance(x, (tuple, Size)):
            yield from _numbers(x)
        elif not isinstance(x, (SymInt, SymNumber, *_UNEQUAL)):
            raise Unknown


class _Members:
    """The items of a set or dict that the expression itself writes."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items


def _value(node: ast.expr, frame: FrameType) -> Any:
    """The object of an expression that runs no code of the user's. Raises Unknown for the rest."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in names:
                return names[node.id]
    elif isinstance(node, ast.Attribute):
        return _attribute(_value(node.value, frame), node.attr)
    elif isinstance(node, (ast.Tuple, ast.List)):
        return tuple([_value(item, frame) for item in node.elts])
    elif isinstance(node, ast.Set):
        return [_Members([_value(item, frame) for item in node.elts])]
    elif isinstance(node, ast.Dict) and None not in node.keys:
        return [_Members([_value(key, frame) for key in node.keys if key is not None])]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value(node.operand, frame)
        if type(number) in (int, float):
            return -number
    elif isinstance(node, ast.Subscript):
        items, k = _value(node.value, frame), _value(node.slice, frame)
        if isinstance(items, (tuple, list)) and type(k) is int and -len(items) <= k < len(items):
            return items[k]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _size(_value(node.func.value, frame), node, frame)
    raise Unknown


def _attribute(x: object, name: str) -> Any:
    """An attribute that is no property, or the shape of a tensor."""
    if isinstance(x, Tensor):
        if name == "shape":
            return x.shape
        raise Unknown
    own = vars(x) if isinstance(x, ModuleType) else getattr(x, "__dict__", {})
    if name in own:
        return own[name]
    for kind in type(x).__mro__:
        value = vars(kind).get(name, _MISSING)
        if value is not _MISSING:
            if hasattr(type(value), "__get__"):
                raise Unknown
            return value
    raise Unknown


def _size(x: object, node: ast.Call, frame: FrameType) -> Any:
    """The result of x.size() or x.size(k)."""
    assert isinstance(node.func, ast.Attribute)
    if not isinstance(x, Tensor) or node.func.attr != "size" or node.keywords:
        raise Unknown
    if not node.args:
        return x.shape
    k = _value(node.args[0], frame)
    if type(k) is not int or not -x.dim() <= k < x.dim():
        raise Unknown
    return x.shape[k]
