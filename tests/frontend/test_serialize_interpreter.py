"""The machine that reads pickles: everything harmless comes out, nothing else goes in."""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
import time
from collections import Counter, OrderedDict, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wend.serialization import _interpreter as machine
from wend.serialization._errors import CheckpointError, UnsafeName
from wend.serialization._interpreter import Interpreter, named_globals
from wend.serialization._names import (
    Meaning,
    Names,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from wend.serialization._opcodes import OPCODES

TABLE = {
    "collections.OrderedDict": Meaning(
        OrderedDict, OrderedDict, lambda made, state: made.__dict__.update(state)
    ),
    "collections.Counter": Meaning(Counter, Counter),
    "builtins.set": Meaning(set, set),
    "builtins.frozenset": Meaning(frozenset, frozenset),
    "builtins.bytearray": Meaning(bytearray, lambda *a: bytearray(str(a[0]).encode("latin1"))),
    "builtins.complex": Meaning(complex, complex),
    "builtins.bytes": Meaning(bytes, lambda: b""),
    "_codecs.encode": Meaning("encode", lambda text, encoding: text.encode(encoding)),
}


def run(data: bytes, table=TABLE, persistent=None, **options) -> Any:
    return Interpreter(
        data, Names(table), persistent or (lambda identity: identity), **options
    ).run()


@pytest.fixture(autouse=True)
def nothing_declared_safe():
    yield
    clear_safe_globals()


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner, inner, inner, inner)
        | st.tuples(inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=5)
        | st.dictionaries(st.text(), inner, max_size=5).map(OrderedDict)
        | st.sets(st.integers() | st.text())
        | st.frozensets(st.integers(), max_size=3)
    ),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(values, st.integers(2, 5))
def test_plain_objects_come_out_as_they_went_in(value, protocol):
    data = pickle.dumps(value, protocol)
    result = run(data)
    assert result == value and type(result) is type(value)
    assert run(pickletools.optimize(data)) == value


def test_shared_and_recursive_containers_stay_so():
    shared = [1]
    value = {"a": shared, "b": shared}
    result = run(pickle.dumps(value, 2))
    assert result["a"] is result["b"]
    value["self"] = value
    result = run(pickle.dumps(value, 4))
    assert result["self"] is result
    loop = []
    pair = (loop, 1)
    loop.append(pair)
    result = run(pickle.dumps(pair, 2))
    assert result[0][0] is result


def test_memo_indices_need_not_count_from_zero():
    assert run(b"\x80\x02]q\x07r\xff\xff\xff\xffh\x07\x86.") == ([], [])
    assert run(b"\x80\x04Nr\xff\xff\xff\xffK\x05\x94j\xff\xff\xff\xff\x87.") == (None, 5, None)


def test_attributes_of_an_ordered_dict():
    value = OrderedDict(a=1)
    value._metadata = {"version": 2}
    assert run(pickle.dumps(value, 2))._metadata == {"version": 2}


def test_byte_strings_of_python_2():
    data = b"\x80\x02U\x03a\xe9b."
    assert run(data, encoding="latin1") == "a\xe9b"
    assert run(data, encoding="bytes") == b"a\xe9b"
    with pytest.raises(CheckpointError, match="UnicodeDecodeError"):
        run(data)


def test_persistent_ids_are_passed_on():
    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            return ("storage", obj.decode()) if isinstance(obj, bytes) else None

    buffer = io.BytesIO()
    Pickler(buffer, 2).dump([b"key"])
    seen = []
    run(buffer.getvalue(), persistent=seen.append)
    assert seen == [("storage", "key")]


# --- hostile pickles ------------------------------------------------------------------------------

EXPLOITS = {
    "os.system": b"cos\nsystem\n(X\x04\x00\x00\x00trueto.",
    "posix by reduce": b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.",
    "eval": b"\x80\x02c__builtin__\neval\nX\x01\x00\x00\x001\x85R.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
    "subprocess": b"\x80\x02csubprocess\nPopen\n.",
    "getattr": b"\x80\x02cbuiltins\ngetattr\n.",
    "import": b"\x80\x02cbuiltins\n__import__\n.",
    "attribute of an allowed class": b"\x80\x02ccollections\nOrderedDict.__globals__\n.",
    "instance": b"(S'x'\nios\nsystem\n.",
    "object": b"(cos\nsystem\nX\x01\x00\x00\x00xo.",
    "extension": b"\x80\x02\x82\x01.",
    "text persistent id": b"Pid\n.",
}


@pytest.mark.parametrize("data", EXPLOITS.values(), ids=EXPLOITS.keys())
def test_nothing_is_executed(data, monkeypatch):
    import os

    monkeypatch.setattr(os, "system", lambda command: pytest.fail("executed"))
    with pytest.raises(CheckpointError):
        run(data)


class Runs:
    def __reduce__(self):
        return print, ("executed",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_the_error_names_what_was_asked_for(protocol):
    with pytest.raises(
        UnsafeName, match=r"builtins\.print.*nothing was executed.*add_safe_globals"
    ):
        run(pickle.dumps(Runs(), protocol))
    with pytest.raises(pickle.UnpicklingError):
        run(pickle.dumps(Runs(), protocol))
    with pytest.raises(RuntimeError):
        run(pickle.dumps(Runs(), protocol))


def test_only_functions_on_the_list_are_called():
    calls = [
        b"X\x01\x00\x00\x00a)R.",
        b"]X\x01\x00\x00\x00a\x85R.",
        b"N)R.",
        b"cbuiltins\nset\n)R)R.",
    ]
    for data in calls:
        with pytest.raises(CheckpointError, match="not to be called"):
            run(b"\x80\x02" + data)


def test_arguments_must_be_a_tuple():
    with pytest.raises(CheckpointError, match="no tuple"):
        run(b"\x80\x02cbuiltins\nset\n]R.")


def test_state_is_set_on_listed_classes_only():
    for target in (b"]", b"}", b"cbuiltins\nset\n", b"ccollections\nCounter\n)R"):
        with pytest.raises(CheckpointError, match="sets the state"):
            run(b"\x80\x02" + target + b"}b.")


def test_new_objects_of_undeclared_classes_are_refused():
    for cls in (b"ccollections\nOrderedDict\n", b"N", b"]"):
        with pytest.raises(CheckpointError, match="not declared safe"):
            run(b"\x80\x02" + cls + b")\x81.")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "without a STOP"),
        (b"\x80", "announced"),
        (b"\x80\x02", "without a STOP"),
        (b"\x80\x02.", "unfinished"),
        (b"\x80\x02NN.", "unfinished"),
        (b"\x80\x02(N.", "unfinished"),
        (b"\x80\x02t.", "did not open"),
        (b"\x80\x02R.", "off the stack"),
        (b"\x80\x020.", "off the stack"),
        (b"\x80\x02N\x86.", "off its stack"),
        (b"\x80\x02h\x05.", "never made"),
        (b"\x80\x02q\x00.", "off the stack"),
        (b"\x80\x02NNa.", "appends to a NoneType"),
        (b"\x80\x02](NNu.", "sets items of a list"),
        (b"\x80\x02}(NNNu.", "key without a value"),
        (b"\x80\x02}(]Nu.", "unhashable"),
        (b"\x80\x02](N\x90.", "adds to a list"),
        (b"\x80\x04(]\x91.", "unhashable"),
        (b"\x80\x02X\xff\xff\xff\xffabc.", "announced"),
        (b"\x80\x04\x8d" + b"\xff" * 8 + b"abc.", "announced"),
        (b"\x80\x04\x96" + struct.pack("<Q", 2**62) + b"abc.", "announced"),
        (b"\x80\x02\x8b\xff\xff\xff\x7f\x00.", "announced"),
        (b"\x80\x02cos", "has no end"),
        (b"\x80\x02c\xff\xff\n\xff\n.", "UnicodeDecodeError"),
        (b"\x80\x04NN\x93.", "no string"),
        (b"I1\n.", "not one that a checkpoint needs"),
        (b"\x80\x05\x97.", "not one that a checkpoint needs"),
        (b"\x80\x022.", "not one that a checkpoint needs"),
    ],
)
def test_malformed_pickles(data, words):
    with pytest.raises(CheckpointError, match=words):
        run(data)


def test_open_containers_nest_to_a_limit():
    assert run(b"\x80\x02" + b"(" * 900 + b"t" * 900 + b".") is not None
    with pytest.raises(CheckpointError, match="nest more than 1000 deep"):
        run(b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b".")


@pytest.mark.parametrize("wrap", [b"\x85", b"q\x000]h\x00a", b"q\x000}Nh\x00s"])
def test_finished_containers_nest_to_a_limit(wrap):
    with pytest.raises(CheckpointError, match="nest more than 2000 deep"):
        run(b"\x80\x02)" + wrap * 100_000 + b".")


def test_a_tuple_of_exponential_size_is_fine_until_it_is_hashed():
    tower = b"\x80\x02)" + b"q\x00h\x00\x86" * 64
    run(tower + b".")
    start = time.perf_counter()
    with pytest.raises(CheckpointError, match="enormous size as a key"):
        run(tower + b"q\x01}h\x01Ns.")
    with pytest.raises(CheckpointError, match="enormous size as a key"):
        run(b"\x80\x04)" + b"q\x00h\x00\x86" * 64 + b"q\x01\x8f(h\x01\x90.")
    assert time.perf_counter() - start < 2


def test_a_deep_tuple_as_a_key_does_not_overflow_the_stack():
    with pytest.raises(CheckpointError, match="enormous depth as a key"):
        run(b"\x80\x02)" + b"\x85" * 300_000 + b"q\x01}h\x01Ns.")


def test_memory_is_bounded_by_the_size_of_the_pickle(monkeypatch):
    monkeypatch.setattr(machine.Budget, "BASE", 1 << 20)
    with pytest.raises(CheckpointError, match="exhaust memory"):
        run(b"\x80\x04(" + b"\x8f" * 100_000 + b"t.")
    # Honest files of the same size are fine.
    honest = [[] for _ in range(20_000)]
    assert run(pickle.dumps(honest, 2)) == honest
    assert len(run(pickle.dumps({str(i): {} for i in range(20_000)}, 4))) == 20_000


@settings(max_examples=300, deadline=None)
@given(values, st.integers(2, 5), st.data())
def test_truncated_pickles_are_refused(value, protocol, data):
    good = pickle.dumps(value, protocol)
    cut = good[: data.draw(st.integers(0, len(good) - 1))]
    with pytest.raises(CheckpointError):
        run(cut)


@settings(max_examples=250, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_give_an_object_or_our_error(data):
    try:
        run(b"\x80\x04" + data)
    except CheckpointError:
        pass


OPS = [bytes([code]) for code in OPCODES]


@settings(max_examples=250, deadline=None)
@given(st.lists(st.sampled_from([*OPS, b"\x00", b"\x01", b"a\n"]), max_size=40))
def test_random_opcodes_give_an_object_or_our_error(codes):
    try:
        run(b"\x80\x04" + b"".join(codes) + b".")
    except CheckpointError:
        pass


# --- names that the user declares safe ------------------------------------------------------------


class Config:
    def __init__(self, depth: int) -> None:
        self.depth = depth


class Slotted:
    __slots__ = ("a", "b")


class WithState:
    def __setstate__(self, state):
        self.restored = state

    def __getstate__(self):
        return {"a": 1}


class Names2(dict):
    pass


class Items(list):
    pass


def make_config(depth):
    return Config(depth)


@pytest.mark.parametrize("protocol", [2, 4])
def test_declared_classes(protocol):
    data = pickle.dumps([Config(3), Config(4)], protocol)
    with pytest.raises(UnsafeName, match="Config"):
        run(data)
    with safe_globals([Config]):
        assert [made.depth for made in run(data)] == [3, 4]
        assert get_safe_globals() == [Config]
    assert get_safe_globals() == []
    with pytest.raises(UnsafeName):
        run(data)


@pytest.mark.parametrize("protocol", [2, 4])
def test_declared_classes_with_slots_state_and_items(protocol):
    slotted = Slotted()
    slotted.a = 5
    add_safe_globals([Slotted, WithState, Names2, Items, defaultdict, list])
    made = run(pickle.dumps(slotted, protocol))
    assert made.a == 5 and not hasattr(made, "b")
    assert run(pickle.dumps(WithState(), protocol)).restored == {"a": 1}
    assert run(pickle.dumps(Names2(a=1), protocol)) == Names2(a=1)
    assert run(pickle.dumps(Items([1, 2]), protocol)) == [1, 2]
    assert run(pickle.dumps(defaultdict(list, a=[1]), protocol)) == {"a": [1]}


def test_a_name_can_be_given_with_the_class():
    data = b"\x80\x02cold.place\nConfig\n)\x81}X\x05\x00\x00\x00depthK\x07sb."
    add_safe_globals([(Config, "old.place.Config")])
    assert run(data).depth == 7


def test_a_declared_function_is_called():
    module = make_config.__module__
    data = b"\x80\x02c" + f"{module}\nmake_config\n".encode() + b"K\x07\x85R."
    add_safe_globals([make_config])
    assert run(data).depth == 7


def test_blocked_modules_stay_blocked():
    import os
    import subprocess

    add_safe_globals([os.system, subprocess.Popen])
    with pytest.raises(UnsafeName, match="no checkpoint needs"):
        run(EXPLOITS["posix by reduce"])
    with pytest.raises(UnsafeName, match="no checkpoint needs"):
        run(EXPLOITS["subprocess"])


def test_errors_of_declared_classes_are_wrapped():
    add_safe_globals([make_config])
    data = b"\x80\x02c" + f"{make_config.__module__}\nmake_config\n".encode() + b")R."
    with pytest.raises(CheckpointError, match=r"REDUCE at byte \d+ .*TypeError.*depth"):
        run(data)


def test_nested_declarations_restore_what_was_there():
    add_safe_globals([Config])
    with safe_globals([Config, Slotted]):
        assert set(get_safe_globals()) == {Config, Slotted}
    assert get_safe_globals() == [Config]


@pytest.mark.parametrize(
    ("entry", "error"),
    [(3, TypeError), (("x", "y"), TypeError), ((Config, 3), TypeError), ((Config,), ValueError)],
)
def test_bad_declarations(entry, error):
    with pytest.raises(error, match="add_safe_globals"):
        add_safe_globals([entry])


# --- looking without building


def test_names_are_listed_without_calling_anything():
    value = [Runs(), OrderedDict(a={1}), Config(2), defaultdict(list, a=[])]
    for protocol in (2, 4):
        found = named_globals(pickle.dumps(value, protocol))
        assert "builtins.print" in found and "collections.OrderedDict" in found
        assert f"{Config.__module__}.Config" in found
        assert len(found) == len(set(found))
