"""A generator of hostile files: small ones, each of which asks for as much as its kind can.

    python tests/frontend/hostile_files.py SIZE [KIND]    loads one of each kind, or of one kind

It prints what came of each, and what it took, and runs within the limits below: a load that needs
more memory ends in a MemoryError, one that never ends in a signal. Each kind
is a function of a size in bytes. A pickle's part that is repeated lies in the memo: what asks for
it again is two bytes and a call three more.
"""

from __future__ import annotations

import io
import json
import resource
import struct
import sys
import zipfile
from collections.abc import Callable

FOUR = struct.pack("<4f", 0, 1, 2, 3)
OWN_HASH = (1 << 61) - 1


# --- pieces of a pickle of protocol 4 -------------------------------------------------------------


def number(value: int) -> bytes:
    """An int as a pickle writes it, of any size."""
    if 0 <= value < 256:
        return b"K" + bytes([value])
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    if len(raw) > 255:
        return b"\x8b" + struct.pack("<I", len(raw)) + raw
    return b"\x8a" + bytes([len(raw)]) + raw


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def blob(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def row(values) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def storage(kind="FloatStorage", key="0", location="cpu", count=4) -> bytes:
    parts = text("storage") + f"ctorch\n{kind}\n".encode() + text(key) + text(location)
    return b"(" + parts + number(count) + b"tQ"


def tensor_arguments(
    size=(4,), stride=(1,), offset=0, held=None, flags=b"\x89", metadata=b""
) -> bytes:
    held = storage() if held is None else held
    hooks = b"ccollections\nOrderedDict\n)R"
    inside = held + number(offset) + row(size) + row(stride) + flags + hooks + metadata
    return b"(" + inside + b"t"


def tensor(size=(4,), stride=(1,), **more) -> bytes:
    return b"ctorch._utils\n_rebuild_tensor_v2\n" + tensor_arguments(size, stride, **more) + b"R"


def checkpoint(pickled: bytes, data: bytes = FOUR, **records: bytes) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a/data.pkl", b"\x80\x02" + pickled + b".")
        file.writestr("a/data/0", data)
        for name, content in records.items():
            file.writestr(f"a/{name}", content)
    buffer.seek(0)
    return buffer


def repeated(prelude: bytes, once: bytes, size: int) -> bytes:
    """What lies in the memo, and a list of as many of `once` as fit."""
    times = max(size - len(prelude), 0) // len(once)
    return prelude + b"0](" + once * times + b"e"


def calls(name: str, arguments: bytes, size: int) -> bytes:
    """A list of calls of one function with the same arguments."""
    module, _, function = name.rpartition(".")
    prelude = f"c{module}\n{function}\n".encode() + b"q\x000" + arguments + b"q\x01"
    return repeated(prelude, b"h\x00h\x01R", size)


def used(value: bytes, action: bytes, size: int, target: bytes = b"") -> bytes:
    """A value, and then an action on it, time and again."""
    held = target + b"q\x020" if target else b""
    return repeated(held + value + b"q\x01", action, size)


def laugh(depth: int, pair: bytes = b"\x86") -> bytes:
    """A tuple of the same tuple twice, `depth` deep: 2**depth parts in 5 bytes each."""
    return b")" + (b"q\x07h\x07" + pair) * depth


def many(item: Callable[[int], bytes], size: int, width: int) -> bytes:
    return b"".join(map(item, range(size // width)))


# --- kinds of hostile pickles ---------------------------------------------------------------------


def half(make: Callable[[int], bytes], name: str) -> Callable[[int], bytes]:
    """Calls of a function with one argument that is half of the file."""
    return lambda size: calls(name, make(size // 2) + b"\x85", size)


def big_list(size: int) -> bytes:
    return b"](" + many(lambda i: b"J" + struct.pack("<i", i), size, 5) + b"e"


def big_pairs(size: int) -> bytes:
    return b"](" + many(lambda i: b"J" + struct.pack("<i", i) + b"N\x86", size, 7) + b"e"


def big_dict(size: int) -> bytes:
    return b"}(" + many(lambda i: text(f"{i:07}") + b"N", size, 13) + b"u"


def colliding(i: int) -> bytes:
    return number((i + 1) * OWN_HASH)


def wide_key(size: int) -> bytes:
    return b"(" + b"N" * min(size // 2, 9000) + b"t"


def state_of_many(size: int) -> bytes:
    arguments = b"(" + tensor() + b"\x88N" + big_dict(size // 2) + b"t"
    return calls("torch._utils._rebuild_parameter_with_state", arguments, size)


def state_within(size: int) -> bytes:
    inner = b"(" + tensor() + b"\x88N" + big_dict(size // 2) + b"t"
    arguments = b"(ctorch._utils\n_rebuild_parameter_with_state\nctorch\nTensor\n" + inner + b"}t"
    return calls("torch._tensor._rebuild_from_type_v2", arguments, size)


def of_tensors(**view) -> Callable[[int], bytes]:
    return lambda size: calls("torch._utils._rebuild_tensor_v2", tensor_arguments(**view), size)


def chained(size: int) -> bytes:
    """Each parameter is an attribute of the next one: freeing them must not recurse."""
    one = b"ctorch._utils\n_rebuild_parameter_with_state\nq\x000" + tensor() + b"q\x010" + text("a")
    step = b"q\x030(h\x01\x88N}h\x02h\x03stq\x040h\x00h\x04R"
    return one + b"q\x020N" + step * (size // len(step))


PICKLES: dict[str, Callable[[int], bytes]] = {
    "bytearray of bytes": half(lambda n: blob(bytes(n)), "builtins.bytearray"),
    "bytearray of text": lambda size: calls(
        "builtins.bytearray", text("a" * (size // 2)) + text("latin1") + b"\x86", size
    ),
    "encode": lambda size: calls(
        "_codecs.encode", text("a" * (size // 2)) + text("latin1") + b"\x86", size
    ),
    "set of a list": half(big_list, "builtins.set"),
    "frozenset of a list": half(big_list, "builtins.frozenset"),
    "OrderedDict of pairs": half(big_pairs, "collections.OrderedDict"),
    "OrderedDict of a dict": half(big_dict, "collections.OrderedDict"),
    "Counter of a dict": half(big_dict, "collections.Counter"),
    "Size of a list": half(big_list, "torch.Size"),
    "Size of large numbers": half(lambda n: b"]" + number(1 << (8 * n)) + b"a", "torch.Size"),
    "attributes of an OrderedDict": lambda size: used(
        big_dict(size // 2), b"ccollections\nOrderedDict\n)Rh\x01b", size
    ),
    "attributes of a parameter": state_of_many,
    "attributes within": state_within,
    "empty sets": lambda size: b"](" + b"\x8f" * size + b"e",
    "empty dicts": lambda size: b"](" + b"}" * size + b"e",
    "empty lists": lambda size: b"](" + b"]" * size + b"e",
    "tuples of one": lambda size: b")" + b"\x85" * size,
    "sets by call": lambda size: calls("builtins.set", b")", size),
    "devices": lambda size: calls("torch.device", text("cuda:7") + b"\x85", size),
    "a wide key of a dict": lambda size: used(wide_key(size), b"}h\x01Ns", size),
    "a wide key of one dict": lambda size: used(
        wide_key(size), b"h\x02h\x01Ns0", size, target=b"}"
    ),
    "wide keys of a set by call": lambda size: calls(
        "builtins.set",
        wide_key(size) + b"q\x030](" + b"h\x03" * (size // 4) + b"e\x85",
        size,
    ),
    "a large number as a key": lambda size: used(number(1 << 4 * size), b"}h\x01Ns", size),
    "Size as a key": lambda size: used(
        b"ctorch\nSize\n" + big_list(size // 2) + b"\x85R", b"}h\x01Ns", size
    ),
    "equal texts as keys": lambda size: (
        b"}q\x03"
        + text("a" * (size // 4))
        + b"Ns0"
        + text("a" * (size // 4))
        + b"q\x010h\x03("
        + b"h\x01N" * (size // 6)
        + b"u"
    ),
    "numbers that collide in a dict": lambda size: (
        b"}(" + many(lambda i: colliding(i) + b"N", size, 13) + b"u"
    ),
    "numbers that collide in a set": lambda size: b"\x8f(" + many(colliding, size, 12) + b"\x90",
    "numbers that collide in a frozenset": lambda size: b"(" + many(colliding, size, 12) + b"\x91",
    "numbers that collide in a call": half(
        lambda n: b"](" + many(colliding, n, 12) + b"e", "builtins.set"
    ),
    "laughing tuple as a key": lambda size: b"}" + laugh(60) + b"Ns",
    "laughing frozensets compared": lambda size: (
        (b")" + b"q\x07(h\x07h\x07\x85t\x85(h\x07h\x07\x85\x91" * 40 + b"0") * 2 + b"N"
    ),
    "laughing tuple": lambda size: laugh(size // 5),
    "laughing size": lambda size: (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage()
        + number(0)
        + laugh(60)
        + row((1,))
        + b"\x89NtR"
    ),
    "laughing flag": lambda size: tensor(metadata=b"}" + laugh(11) + b"\x88s"),
    "laughing class": lambda size: laugh(60) + b")\x81",
    "laughing device": lambda size: b"ctorch\ndevice\n" + text("cuda:1") + laugh(60) + b"\x86R",
    "laughing name of a function": lambda size: (
        b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_parameter_with_state\n("
        + tensor()
        + b"\x88N}"
        + text("__name__")
        + laugh(60)
        + b"stR"
        + b"ctorch\nTensor\n)}tR"
    ),
    "laughing name called": lambda size: (
        b"ctorch._utils\n_rebuild_parameter_with_state\n("
        + tensor()
        + b"\x88N}"
        + text("__qualname__")
        + laugh(60)
        + b"stR)R"
    ),
    "whole views": of_tensors(),
    "strided views": of_tensors(size=(2, 2), stride=(1, 2)),
    "views with gradients": of_tensors(flags=b"\x88"),
    "conjugates": of_tensors(metadata=b"}" + text("conj") + b"\x88s"),
    "negatives": of_tensors(metadata=b"}" + text("neg") + b"\x88s"),
    "expanded views": of_tensors(size=(1 << 20, 4), stride=(0, 1)),
    "empty of huge size": lambda size: tensor(size=(0, 1 << 61, 1 << 61), stride=(0, 0, 0)),
    "one of huge stride": lambda size: tensor(size=(1,), stride=(1 << 61,)),
    "storage of huge count": lambda size: tensor(held=storage(count=1 << 8 * min(size, 50_000))),
    "storages": lambda size: used(storage()[:-1], b"h\x01Q", size),
    "a chain of attributes": chained,
    "names": lambda size: b"](" + b"ctorch\nfloat32\n" * (size // 15) + b"e",
    "long name": lambda size: b"c" + b"a" * size + b"\nb\n",
    "deep lists": lambda size: b"]" * size + b"a" * (size - 1),
    "memo out of order": lambda size: (
        b"N" + many(lambda i: b"r" + struct.pack("<I", (1 << 31) + i), size, 5)
    ),
}


# --- kinds of hostile containers ------------------------------------------------------------------


def large_conjugates(size: int) -> bytes:
    elements = size // 8
    held = storage(count=elements)
    arguments = tensor_arguments((elements,), held=held, metadata=b"}" + text("conj") + b"\x88s")
    pickled = calls("torch._utils._rebuild_tensor_v2", arguments, size // 2)
    return checkpoint(pickled, bytes(4 * elements)).getvalue()


def many_records(size: int) -> bytes:
    return checkpoint(b"N", **{f"{i:x}": b"" for i in range(size // 100)}).getvalue()


def long_record_names(size: int) -> bytes:
    key = "k" * 60_000
    pickled = used(storage(key=key, count=0)[:-1], b"h\x01Q", max(size - 130_000, 1000))
    return checkpoint(pickled, **{f"data/{key}": b""}).getvalue()


def safetensors(header: str | bytes, data: bytes = b"") -> bytes:
    raw = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(raw)) + raw + data


def entry(shape, offsets=(0, 0), dtype="F32") -> str:
    return json.dumps({"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}})


def header_of(part: str) -> Callable[[int], bytes]:
    return lambda size: safetensors('{"a":[' + ",".join([part] * (size // (len(part) + 1))) + "]}")


def many_entries(size: int) -> bytes:
    row = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return safetensors(json.dumps({f"{i:x}": row for i in range(size // 66)}))


FILES: dict[str, Callable[[int], bytes]] = {
    **{
        kind: lambda size, make=make: checkpoint(make(size)).getvalue()
        for kind, make in PICKLES.items()
    },
    "conjugates of a large tensor": large_conjugates,
    "many records": many_records,
    "records of long names": long_record_names,
    "header of dicts": header_of("{}"),
    "header of lists": header_of("[]"),
    "header of texts": header_of('"ab"'),
    "header of numbers": header_of("1.5"),
    "header of one number": lambda size: safetensors('{"a":' + "9" * size + "}"),
    "header that nests": lambda size: safetensors("[" * size),
    "many empty tensors": many_entries,
}

#: Headers of safetensors files that are wrong, by what is wrong.
HEADERS: dict[str, bytes] = {
    "2**63 elements": safetensors(entry([1 << 63])),
    "2**63 beside none": safetensors(entry([0, 1 << 63])),
    "2**62 beside none": safetensors(entry([0, (1 << 62) - 1])),
    "a product beyond 64 bits beside none": safetensors(entry([0, 1 << 40, 1 << 40])),
    "a product of 2**64": safetensors(entry([1 << 32, 1 << 32])),
    "many dims beside none": safetensors(entry([0] + [1 << 30] * 30)),
    "a number of 4000 digits": safetensors(entry([10**4000])),
    "a number of 5000 digits": safetensors('{"a":{"dtype":"F32","shape":[' + "9" * 5000 + "]}}"),
    "an offset of 4000 digits": safetensors(entry([1], (0, 10**4000))),
    "negative size": safetensors(entry([-1])),
    "two negative sizes": safetensors(entry([-1, -1], (0, 4)), bytes(4)),
    "negative offsets": safetensors(entry([0], (-4, -4))),
    "offsets turned round": safetensors(entry([1], (4, 0)), bytes(4)),
    "a bool as size": safetensors(entry([True], (0, 4)), bytes(4)),
    "a bool as offset": safetensors(entry([0], (False, False))),
    "a float as size": safetensors(entry([1.0], (0, 4)), bytes(4)),
    "infinity as size": safetensors(entry([float("inf")])),
    "nan as offset": safetensors(entry([0], (float("nan"), 0))),
    "a text as size": safetensors(entry(["1"], (0, 4)), bytes(4)),
    "a text as shape": safetensors(entry("11", (0, 4)), bytes(4)),
    "a table as shape": safetensors(entry({"1": 1}, (0, 4)), bytes(4)),
    "null as shape": safetensors(entry(None)),
    "a text as offsets": safetensors(entry([0], "00")),
    "three offsets": safetensors(entry([0], (0, 0, 0))),
    "a list as dtype": safetensors(entry([0], dtype=["F32"])),
    "a long dtype": safetensors(entry([0], dtype="F" * 10_000)),
    "65 dims": safetensors(entry([1] * 65, (0, 4)), bytes(4)),
    "a name twice": safetensors('{"a":1,"a":1}'),
    "a key twice": safetensors('{"a":{"dtype":"F32","dtype":"F32"}}'),
    "a hole": safetensors(entry([1], (4, 8)), bytes(8)),
    "data left over": safetensors(entry([1], (0, 4)), bytes(8)),
    "data missing": safetensors(entry([2], (0, 8)), bytes(4)),
    "overlap": safetensors(
        json.dumps({n: {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]} for n in ("a", "b")}),
        bytes(4),
    ),
    "length beyond the file": struct.pack("<Q", 1 << 20) + b"{}",
    "length of 2**63": struct.pack("<Q", 1 << 63) + b"{}",
    "length of 2**64 - 1": struct.pack("<Q", (1 << 64) - 1) + b"{}",
    "length of 0": struct.pack("<Q", 0),
    "length too short": struct.pack("<Q", 1) + b"{}",
    "seven bytes": bytes(7),
    "no bytes": b"",
    "no JSON": safetensors(b"\xff\xfe\x00"),
    "a text alone": safetensors('"a"'),
    "a lone surrogate in JSON": safetensors(b'{"a":"\xed\xa0\x80"}'),
    "metadata of null": safetensors('{"__metadata__":null}'),
    "metadata of numbers": safetensors('{"__metadata__":{"a":1}}'),
}


MEMORY = 256 << 20  # bytes that loads may take, above what the process has when they begin
SECONDS = 120  # of the processor, for all: nothing but a guard against loads that never end


def limit() -> None:
    """Give this process its limits."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    room = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def outcome_of(data: bytes) -> str:
    """What reading a file gives: "read", or the text of its CheckpointError."""
    from wend.serialization import CheckpointError, load
    from wend.serialization import safetensors as safe

    try:
        if data[8:9] in (b"{", b"["):
            safe.load(data)
        else:
            load(io.BytesIO(data))
    except CheckpointError as error:
        return f"refused: {error}"
    return "read"


def main(size: int, kinds: list[str]) -> None:
    """Load a file of each kind; say what came of it, and what it took."""
    outcome_of(safetensors("{}"))
    outcome_of(checkpoint(tensor()).getvalue())
    limit()
    for kind in kinds:
        data = FILES[kind](size)
        before = resource.getrusage(resource.RUSAGE_SELF)
        try:
            outcome = outcome_of(data)
        except BaseException as error:
            outcome = f"failed: {type(error).__name__}: {str(error)[:200]}"
        after = resource.getrusage(resource.RUSAGE_SELF)
        cost = {
            "peak MB": (after.ru_maxrss - before.ru_maxrss) >> 10,
            "seconds": round(
                after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2
            ),
        }
        print(json.dumps({"kind": kind, "size": len(data), "outcome": outcome, **cost}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] or list(FILES))
