"""The opcodes of a pickle that a checkpoint may use, and how the bytes after each are read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from wend.serialization._errors import CheckpointError

__all__ = ["OPCODES", "Decoder", "Opcode"]


class Opcode(NamedTuple):
    """name: as in the pickle documentation.   argument: how the bytes after the opcode are read."""

    name: str
    argument: str


# fmt: off
OPCODES: dict[int, Opcode] = {
    code[0]: Opcode(name, argument)
    for code, name, argument in [
        (b"\x80", "PROTO", "u1"),           (b"\x95", "FRAME", "u8"),
        (b".", "STOP", ""),                 (b"(", "MARK", ""),
        (b"0", "POP", ""),                  (b"1", "POP_MARK", ""),
        (b"N", "NONE", ""),                 (b"\x88", "NEWTRUE", ""),
        (b"\x89", "NEWFALSE", ""),          (b"J", "BININT", "i4"),
        (b"K", "BININT1", "u1"),            (b"M", "BININT2", "u2"),
        (b"\x8a", "LONG1", "long1"),        (b"\x8b", "LONG4", "long4"),
        (b"G", "BINFLOAT", "f8"),           (b"X", "BINUNICODE", "text4"),
        (b"\x8c", "SHORT_BINUNICODE", "text1"), (b"\x8d", "BINUNICODE8", "text8"),
        (b"U", "SHORT_BINSTRING", "legacy1"),   (b"T", "BINSTRING", "legacy4"),
        (b"C", "SHORT_BINBYTES", "bytes1"), (b"B", "BINBYTES", "bytes4"),
        (b"\x8e", "BINBYTES8", "bytes8"),   (b"\x96", "BYTEARRAY8", "bytes8"),
        (b"]", "EMPTY_LIST", ""),           (b"}", "EMPTY_DICT", ""),
        (b")", "EMPTY_TUPLE", ""),          (b"\x8f", "EMPTY_SET", ""),
        (b"a", "APPEND", ""),               (b"e", "APPENDS", ""),
        (b"s", "SETITEM", ""),              (b"u", "SETITEMS", ""),
        (b"\x90", "ADDITEMS", ""),          (b"\x91", "FROZENSET", ""),
        (b"t", "TUPLE", ""),                (b"\x85", "TUPLE1", ""),
        (b"\x86", "TUPLE2", ""),            (b"\x87", "TUPLE3", ""),
        (b"q", "BINPUT", "u1"),             (b"r", "LONG_BINPUT", "u4"),
        (b"\x94", "MEMOIZE", ""),
        (b"h", "BINGET", "u1"),             (b"j", "LONG_BINGET", "u4"),
        (b"c", "GLOBAL", "lines2"),         (b"\x93", "STACK_GLOBAL", ""),
        (b"R", "REDUCE", ""),               (b"\x81", "NEWOBJ", ""),
        (b"\x92", "NEWOBJ_EX", ""),         (b"b", "BUILD", ""),
        (b"Q", "BINPERSID", ""),
    ]
}
# fmt: on

FIXED = {"u1": "<B", "u2": "<H", "u4": "<I", "u8": "<Q", "i4": "<i", "f8": ">d"}
FIXED_STRUCTS = {kind: struct.Struct(layout) for kind, layout in FIXED.items()}
LENGTHS = {"1": struct.Struct("<B"), "4": struct.Struct("<I"), "8": struct.Struct("<Q")}


class Decoder:
    """Splits a pickle into (position, opcode, argument), checking every length first."""

    def __init__(self, data: bytes, encoding: str = "utf-8") -> None:
        self.data = data
        self.encoding = encoding

    def __iter__(self) -> Iterator[tuple[int, Opcode, Any]]:
        data, at = self.data, 0
        while True:
            if at >= len(data):
                raise CheckpointError("load: the pickle ends without a STOP; it is truncated")
            opcode = OPCODES.get(data[at])
            if opcode is None:
                raise CheckpointError(
                    f"load: opcode {data[at]:#04x} at byte {at} of the pickle is not one that a "
                    "checkpoint needs; nothing was executed"
                )
            argument, end = self._argument(opcode.argument, at + 1) if opcode[1] else (None, at + 1)
            yield at, opcode, argument
            if opcode.name == "STOP":
                return
            at = end

    def _argument(self, kind: str, at: int) -> tuple[Any, int]:
        fixed = FIXED_STRUCTS.get(kind)
        if fixed is not None:
            return fixed.unpack(self._take(at, fixed.size))[0], at + fixed.size
        if kind == "lines2":
            module, at = self._line(at)
            name, at = self._line(at)
            return (module, name), at
        length = LENGTHS[kind[-1]]
        count = length.unpack(self._take(at, length.size))[0]
        at += length.size
        raw = self._take(at, count)
        return self._convert(kind[:-1], raw), at + count

    def _take(self, at: int, count: int) -> bytes:
        if count > len(self.data) - at:
            raise CheckpointError(
                f"load: {count} bytes are announced at byte {at} of the pickle, "
                f"{max(len(self.data) - at, 0)} are left; it is truncated"
            )
        return self.data[at : at + count]

    def _line(self, at: int) -> tuple[str, int]:
        end = self.data.find(b"\n", at)
        if end < 0:
            raise CheckpointError(f"load: the name at byte {at} of the pickle has no end")
        return self.data[at:end].decode("utf-8"), end + 1

    def _convert(self, kind: str, raw: bytes) -> Any:
        if kind == "text":
            return raw.decode("utf-8", "surrogatepass")
        if kind == "long":
            return int.from_bytes(raw, "little", signed=True)
        if kind == "legacy" and self.encoding != "bytes":
            return raw.decode(self.encoding)
        return raw
