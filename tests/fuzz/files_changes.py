"""Changes to files: bytes, parts, the JSON of a graph, the messages of ONNX, weights."""

from __future__ import annotations

import copy
import json
import random
import struct
import sys
from collections.abc import Callable
from typing import Any

from wend._engine.base.dtypes import NAMES
from wend._engine.core.primitive import REGISTRY

INTS = (
    -1, 0, 1, 2, 3, 7, 63, 64, 65, 255, 1000, 1 << 16, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 32,
    1 << 40, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, 10**30,
    -(1 << 31), -(1 << 63), -(10**30),
)  # fmt: skip
TEXTS = (
    "", "a.b", ".", "x", "T", "N", "L", "S", "I", "dim", "number", "neg", "pow", "add", "mul",
    "floordiv", "mod", "min", "value", "compare", "go", "give", "fail", "apply", "read", "compute",
    "draw", "tuple", "list", "dict", "named", "ordered", "float", "dtype", "inf", "nan", "buffer",
    "parameter", "constant", "SystemExit", "KeyboardInterrupt", "MemoryError", "__import__",
    "__import__('os').system('true')", "a=print('executed')", "../../x", "x\0y", "a" * 1000,
    "\ud800",
    "forward", "training", "_modules", "class", "lambda: 0", "%s" * 50, "user_function",
)  # fmt: skip


# --- bytes ----------------------------------------------------------------------------------------


def flipped(data: bytes, draw: random.Random) -> bytes:
    """Some bytes are others."""
    found = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        found[draw.randrange(len(found))] = draw.choice((0, 1, 255, draw.randrange(256)))
    return bytes(found)


def cut(data: bytes, draw: random.Random) -> bytes:
    """A part is missing, stands twice, or is at another place."""
    a, b = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    return draw.choice(
        (data[:a], data[a:], data[:a] + data[b:], data[:b] + data[a:], data + data[a:b])
    )


def resized(data: bytes, draw: random.Random) -> bytes:
    """A run of four or eight bytes is another number, as a length or a count may be."""
    size = draw.choice((4, 8))
    at = draw.choice((0, draw.randrange(max(1, len(data) - size))))
    number = draw.choice(INTS) & ((1 << 8 * size) - 1)
    return data[:at] + number.to_bytes(size, draw.choice(("little", "big"))) + data[at + size :]


# --- JSON -----------------------------------------------------------------------------------------


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Each item of lists and tables inside each other: (container, index)."""
    found = []
    left = [tree]
    while left:
        part = left.pop()
        keys = list(part) if isinstance(part, dict) else range(len(part))
        for key in keys:
            found.append((part, key))
            if isinstance(part[key], (list, dict)):
                left.append(part[key])
    return found


def another(x: Any, pool: list[tuple[Any, Any]], draw: random.Random) -> Any:
    """Something in place of an item."""
    kind = draw.randrange(10)
    if kind < 4 and type(x) is int:
        near = x + draw.choice((-2, -1, 1, 2))
        return draw.choice((near, near, draw.choice(INTS), draw.randrange(40)))
    if kind < 4 and type(x) is str:
        return draw.choice(
            (draw.choice(TEXTS), draw.choice(list(REGISTRY)), draw.choice(list(NAMES)))
        )
    if kind < 7:
        part, key = draw.choice(pool)
        return copy.deepcopy(part[key])
    if kind == 7:
        return draw.choice((None, True, False, 0.5, -0.0, 1e300, [], {}, "", draw.choice(INTS)))
    if kind == 8:
        deep: Any = x
        for _ in range(draw.choice((1, 2, 50, 300, 600))):
            deep = [deep] if draw.random() < 0.8 else {"tuple": [deep]}
        return deep
    return draw.choice((draw.choice(INTS), draw.choice(TEXTS)))


def changed(tree: Any, draw: random.Random) -> None:
    """Change a tree of lists and tables in one to three places."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        pool = places(tree)
        if not pool:
            return
        part, key = draw.choice(pool)
        kind = draw.randrange(12)
        if kind < 8:
            part[key] = another(part[key], pool, draw)
        elif kind == 8:
            del part[key]
        elif kind == 9 and isinstance(part, list):
            part.insert(key, copy.deepcopy(draw.choice((part[key], draw.choice(part)))))
        elif kind == 10 and isinstance(part, list):
            part[key:key] = part * draw.choice((1, 2, 100))
        elif isinstance(part, list):
            other = draw.randrange(len(part))
            part[key], part[other] = part[other], part[key]
        else:
            part[draw.choice((str(draw.choice(INTS)), draw.choice(TEXTS)))] = part[key]


def alike(tree: Any, draw: random.Random) -> None:
    """Put things of the same kind in place of others: such a graph may well be a valid one."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        pool = places(tree)
        part, key = draw.choice(pool)
        old = part[key]
        if isinstance(part, list) and part[:1] == ["apply"] and draw.random() < 0.5:
            part[1] = draw.choice(_twins(part[1]))
        elif type(old) is int:
            part[key] = draw.choice((old + 1, max(0, old - 1), 0, 1, draw.randrange(30)))
        elif type(old) is bool:
            part[key] = not old
        else:
            same = [p[k] for p, k in pool if type(p[k]) is type(old) and p[k] != old]
            part[key] = copy.deepcopy(draw.choice(same or [old]))


def _twins(name: str) -> list[str]:
    """The ops with parameters of the same kinds and names."""
    if name not in REGISTRY:
        return [name]

    def kinds(op: str) -> list[Any]:
        return [(p.kind, p.name if p.is_attr else "") for p in REGISTRY[op].params]

    wanted = kinds(name)
    return [op for op in REGISTRY if kinds(op) == wanted]


def opened(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the tensors' bytes of a safetensors file."""
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def closed(header: dict[str, Any], rest: bytes) -> bytes:
    """A safetensors file."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + rest


def graph(data: bytes, draw: random.Random) -> bytes:
    """The graph of a program, or the table of a session, is another one."""
    header, rest = opened(data)
    texts = header.get("__metadata__", {})
    names = [name for name in texts if name.startswith("wend.")]
    if not names:
        return table(data, draw)
    name = names[0] if draw.random() < 0.85 else draw.choice(names)
    tree = json.loads(texts[name])
    (alike if draw.random() < 0.5 else changed)(tree, draw)
    texts[name] = json.dumps(tree, separators=(",", ":"))
    return closed(header, rest)


def table(data: bytes, draw: random.Random) -> bytes:
    """The table of tensors is another one."""
    header, rest = opened(data)
    texts = header.pop("__metadata__", None)
    changed(header, draw)
    if texts is not None:
        header["__metadata__"] = texts
    return closed(header, rest)


def weights(data: bytes, draw: random.Random) -> bytes:
    """The tensors' bytes are others: numbers of no meaning, indices out of range."""
    header, rest = opened(data)
    if draw.random() < 0.5:
        return closed(header, draw.randbytes(len(rest)))
    return closed(header, flipped(rest, draw) if rest else rest)


# --- ONNX -----------------------------------------------------------------------------------------


def messages(root: Any) -> list[tuple[Any, Any]]:
    """(message, field) of all set fields of a message and the messages inside."""
    found = []
    left = [root]
    while left:
        message = left.pop()
        for field, value in message.ListFields():
            found.append((message, field))
            if field.type == field.TYPE_MESSAGE:
                left += list(value) if field.is_repeated else [value]
    return found


def scalar(field: Any, x: Any, draw: random.Random) -> Any:
    """Another value of a field."""
    if isinstance(x, bool):
        return not x
    if isinstance(x, int):
        new = draw.choice((x + draw.choice((-2, -1, 1, 2)), draw.choice(INTS), draw.randrange(40)))
        wide = field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64)
        most = (1 << (63 if wide else 31)) - 1
        return max(0 if field.cpp_type == field.CPPTYPE_UINT64 else -most, min(most, new))
    if isinstance(x, float):
        return draw.choice((0.0, -x, 1e30, float("inf"), float("nan"), draw.random()))
    if isinstance(x, bytes):
        return draw.choice((b"", flipped(x, draw) if x else b"a", x[: len(x) // 2], x + x, b"\xff"))
    return draw.choice((draw.choice(TEXTS[:-1]).encode("utf-8", "ignore").decode(), x + x, x[:-1]))


def model(data: bytes, draw: random.Random) -> bytes:
    """The messages of an ONNX file are others."""
    import onnx

    root = onnx.ModelProto.FromString(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        pool = messages(root)
        message, field = draw.choice(pool)
        value = getattr(message, field.name)
        try:
            _change_field(message, field, value, pool, draw)
        except (ValueError, TypeError):  # protobuf has no such value
            continue
    return root.SerializeToString()


def _change_field(message: Any, field: Any, value: Any, pool: Any, draw: random.Random) -> None:
    of_messages = field.type == field.TYPE_MESSAGE
    kind = draw.randrange(6)
    if kind == 0:
        message.ClearField(field.name)
    elif not field.is_repeated and not of_messages:
        setattr(message, field.name, scalar(field, value, draw))
    elif kind == 1 and field.is_repeated:
        rows = list(value)
        value.extend(rows * draw.choice((1, 1, 50)) if of_messages else rows * 3)
    elif kind == 2 and field.is_repeated:
        del value[draw.randrange(len(value))]
    elif field.is_repeated and not of_messages:
        k = draw.randrange(len(value))
        value[k] = scalar(field, value[k], draw)
    elif of_messages:
        target = draw.choice(list(value)) if field.is_repeated else value
        same = [m for m, _ in pool if type(m) is type(target)]
        if same:
            target.CopyFrom(copy.deepcopy(draw.choice(same)))


OF_BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (flipped, cut, resized)
OF_KIND: dict[str, tuple[Callable[[bytes, random.Random], bytes], ...]] = {
    "export": (graph, graph, graph, graph, graph, graph, table, weights),
    "session": (graph, graph, graph, graph, graph, graph, table, weights),
    "jit": (graph, graph, graph, graph, graph, graph, table, weights),
    "onnx": (model,),
    "aot": (table, table, weights),
}


def change(kind: str, data: bytes, draw: random.Random) -> tuple[str, bytes]:
    """Another file, and how it came of the valid one."""
    ways = OF_KIND[kind]
    how = draw.choice(ways) if draw.random() < 0.8 else draw.choice(OF_BYTES)
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(20 * usual)  # trees are made deeper than their readers allow
    try:
        return how.__name__, how(data, draw)
    finally:
        sys.setrecursionlimit(usual)
