"""Chooses between the compiled and the uncompiled hot core, and gives the latter C stand-ins.

`WEND_PURE=1` in the environment, or a build without the extensions, selects the sources as Python.
Beside a compiled core `_hot.py` is installed as `_hot.plain`, compressed, as all parts are.
The parts use names that headers define for the compiled core; the stand-ins are here.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import threading
from collections.abc import Mapping
from operator import attrgetter
from types import CodeType, MethodType, ModuleType
from typing import Any

from wend._engine.core import symbolic
from wend._engine.core._defaults import set_defaults
from wend._engine.core._guard import guard

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))
_CORE = "wend._engine.core._hot"
#: The parts of the core: each may use the parts before.
PARTS = (
    *("_types", "_hot", "_trie_policy", "_siblings", "_calls", "_indexing", "_backward"),
    "_modules",
)
#: C names that later parts take from a part, by a `.pxd` alone.
SHARED = {
    "_types": ("COUNTS", "MAX_ROW", "SLOTS", "count_known_types", "dims_of"),
    "_hot": (
        *("COLD", "MAX_STATES", "MOST_OFF_TRIE", "ROOT", "TRACES", "assign", "call_with1"),
        *("commit_many", "count_threads", "enter", "forget_last", "new_leaf", "overrides"),
        *("record", "record_alone", "same_kinds", "same_types"),
    ),
    "_trie_policy": ("adopt",),
    "_calls": ("unpack",),
}
_Extension = importlib.machinery.ExtensionFileLoader
# Suffix of installed sources of compiled modules (setup.py): of `.py` files, installers would make
# bytecode, which is larger than the sources, and hardly ever used.
_PLAIN = ".plain"
_lasti = 0


def current_code() -> CodeType | None:
    """Code object of the innermost frame outside the core's own functions."""
    global _lasti
    frame = sys._getframe(1)
    core = _HERE + os.sep
    while frame is not None:
        name = frame.f_code.co_filename
        if not (name.startswith((core, "<string>"))):
            _lasti = frame.f_lasti
            return frame.f_code
        frame = frame.f_back  # type: ignore[assignment]
    _lasti = 0
    return None


def current_lasti() -> int:
    """Instruction offset that belongs to the last `current_code()`."""
    return _lasti


def arg(args: Any, i: int) -> Any:
    """The i-th positional argument."""
    return args[i]


def no_address() -> int:
    """0: no C function stands behind a Python class."""
    return 0


def roomy(n: int) -> list[Any]:
    """An empty list; compiled, a list with room for n items."""
    return []


def push_all(items: list[Any], more: list[Any] | None) -> None:
    """Append the items of another list, or none where that is None."""
    if more is not None:
        items.extend(more)


def mirrors(attributes: dict[str, Any], members: dict[str, Any]) -> int:
    """Whether a dict has all items of another, the very same objects."""
    missing = object()
    return all(attributes.get(name, missing) is value for name, value in members.items())


def call_forward(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The computation of a module."""
    return module.forward(*args, **kwargs)


def forward_code(module: Any) -> CodeType | None:
    """Code object of the function that `forward` is in the module's class."""
    return getattr(getattr(type(module), "forward", None), "__code__", None)


_types: dict[int, tuple[int, Any]] = {}


def type_tag(i: int) -> int:
    """Hash of the interned type in slot i; 0 if there is none."""
    return _types[i][0] if i in _types else 0


def type_at(i: int) -> Any:
    """The interned type in slot i."""
    return _types[i][1]


def put_type(i: int, tag: int, type_: Any) -> None:
    """Put a type into slot i, where it stays until another comes in."""
    _types[i] = tag, type_


def all_below(array: Any, n: int) -> bool:
    """Whether `array` is an array of integers from 0 to n - 1 only."""
    if array is None or array.dtype.kind != "i":
        return False
    return array.size == 0 or bool(array.min() >= 0 and array.max() < n)


def fill_record(step: Any, trace: Any, prim: Any) -> None:
    """Fill in a new record's op, the mode, and the program of the op's last call."""
    step.prim, step.mode, step.program = prim, trace.mode, prim.last_program


def fill_result(step: Any, handle: Any, v: Any, trace: Any, type_: Any) -> None:
    """Make a new value the last pending, the only result of a step, and the value of a handle."""
    step.out_type, step.n_out, handle.value = type_, 1, v
    v.type, v.trace, v.serial, v.index = type_, trace, trace.serial, trace.n


def fill_operands(
    step: Any, trace: Any, n: int, h0: Any, h1: Any, h2: Any, requires_grad: bool
) -> None:
    """Fill in a new record's first operands, and where the results and run-time args begin."""
    indices = [h.value.index for h in (h0, h1, h2)[:n]] + [-1] * (3 - n)
    step.n_in, step.requires_grad = n, requires_grad
    step.i0, step.i1, step.i2 = indices[:3]
    step.first, step.arg0 = trace.n, len(trace.args)


def any_grad(n: int, *handles: Any) -> bool:
    """Whether gradients flow to any of an op's first operands."""
    return any(h.value.requires_grad for h in handles[:n])


def any_inference(n: int, *handles: Any) -> bool:
    """Whether any of an op's first operands was made in inference mode."""
    return any(h.value.inference for h in handles[:n])


def any_laid_out(n: int, *handles: Any) -> bool:
    """Whether any of an op's first operands, or its base, does not lie in row-major order."""
    bases = [None if h.derived is None else h.derived.base for h in handles[:n]]
    return any(h is not None and h._layout is not None for h in (*handles[:n], *bases))


def is_at_rest(handle: Any) -> bool:
    """Whether a handle's own value is the operand, and the handle derives from nothing."""
    return handle.derived is None and handle.leaf is handle.value.leaf


def is_ready(handle: Any, serial: int) -> bool:
    """Whether a handle's own value is the operand, and is pending in the trace of this serial."""
    alias, v = handle.derived, handle.value
    if handle.leaf is not v.leaf or v.serial != serial:
        return False
    base = alias.base if alias is not None else None
    return alias is None or bool(
        base is not None and base.derived is None and alias.version == base.version
    )


def take_step(trace: Any, step: Any, v: Any) -> None:
    """Let a step and its only result be the last ones pending."""
    trace.states.append(step)
    trace.values.append(v)
    trace.n += 1
    trace.ops += 1


def put_part(parts: Any, k: int, handle: Any, v: Any, types: Any) -> None:
    """Let a new handle on a new value of type k be part k."""
    v.type, handle.value, parts[k] = types[k], v, handle


def take_parts(trace: Any, parts: Any, grad: bool) -> None:
    """Let the values of parts be the last ones pending."""
    for handle in parts:
        v = handle.value
        v.trace, v.serial, v.index = trace, trace.serial, trace.n
        v.requires_grad, v.inference = grad, trace.mode.inference
        trace.values.append(v)
        trace.n += 1
        trace.nbytes += v.type.nbytes


def swap_classes(a: Any, b: Any) -> None:
    """Exchange the classes of two tensors."""
    a.__class__, b.__class__ = b.__class__, a.__class__


def call_aside(function: Any, x: Any, number: int) -> int:
    """Call `function(x, number)`."""
    function(x, number)
    return 0


def is_int64(number: int) -> bool:
    """Whether an int has 64 bits at most, with the sign."""
    return -(1 << 63) <= number < 1 << 63


def share_alias(parts: Any, first: Any) -> None:
    """Let all parts share the first part's note of derivation: `derived`."""
    for k in range(1, len(parts)):
        handle = parts[k]
        handle.derived, handle.part = first.derived, k + 1
        handle.value.inference = first.value.inference


#: Opcodes of expressions by the names that the core uses, compiled or not.
OPCODES = {
    "DIM": symbolic.DIM,
    "ARG": symbolic.ARG,
    "NEG": symbolic.NEG,
    **{row.name: row.opcode for row in symbolic.OPERATORS},
}
#: Roles of raw arguments in a call's plan, in the order of signature.py.
_ROLES = ("TENSOR", "FLOAT", "INT", "BOOL", "TENSORS", "INTS", "COMPLEX", "DEFAULT")
_STAND_INS = {
    "fill_record": fill_record,
    "fill_result": fill_result,
    "fill_operands": fill_operands,
    "any_grad": any_grad,
    "any_inference": any_inference,
    "any_laid_out": any_laid_out,
    "is_at_rest": is_at_rest,
    "is_ready": is_ready,
    "take_step": take_step,
    "same_line": lambda step, trace, last, inner, thread: False,
    "all_below": all_below,
    "current_code": current_code,
    "current_lasti": current_lasti,
    "arg": arg,
    **dict.fromkeys(("op_address", "parts_address"), no_address),
    "address": id,
    "bound_method": MethodType,
    "slice_start": attrgetter("start"),
    "slice_stop": attrgetter("stop"),
    "slice_step": attrgetter("step"),
    "mirrors": mirrors,
    "roomy": roomy,
    "push": list.append,
    "push_all": push_all,
    **dict.fromkeys(("handle_at", "record_at"), list.__getitem__),
    "new_row": lambda n: [None] * n,
    "part_at": tuple.__getitem__,
    "put_part": put_part,
    "take_parts": take_parts,
    "share_alias": share_alias,
    "swap_classes": swap_classes,
    "call_aside": call_aside,
    "is_int64": is_int64,
    **dict.fromkeys(("as_type", "as_state", "as_handle"), lambda o: o),
    "drop_last": list.pop,
    "call_forward": call_forward,
    "forward_code": forward_code,
    **dict.fromkeys(("quick_members", "quick_module"), lambda cls: 0),
    "type_tag": type_tag,
    "type_at": type_at,
    "put_type": put_type,
    "forget_types": _types.clear,
    "count_types": _types.__len__,
    **dict.fromkeys(("thread_id", "this_thread"), threading.get_ident),
    "id_of": lambda thread: thread,
    "refcount": sys.getrefcount,
    "count_of_item": lambda items, i: sys.getrefcount(items[i]),
    "ask_ahead": lambda items, i: 0,
    "take_last": list.pop,
    **dict.fromkeys(("track", "untrack"), lambda o: 0),
    "attribute": lambda o, name: o.__dict__.get(name),
    **dict.fromkeys(("ask_value", "ask_type", "ask_next", "ask_types"), lambda o: 0),
    "COMPILED": False,
    **OPCODES,
    **{f"R_{name}": role for role, name in enumerate(_ROLES)},
}


def is_compiled(module: ModuleType) -> bool:
    """Whether a module is an extension."""
    return isinstance(module.__loader__, _Extension)


def compiled(name: str) -> ModuleType | None:
    """The extension module of that full name, or None where not built or not wanted.

    An extension that uses the compiled core is of no use to a core that runs as plain Python.
    """
    core = sys.modules.get(_CORE)
    plain = core is not None and not is_compiled(core)
    if plain or os.environ.get("WEND_PURE", "") in ("1", "true", "yes"):
        return None
    folder = os.path.join(_PACKAGE, *name.split(".")[1:-1])
    spec = importlib.machinery.PathFinder.find_spec(name, [folder])
    if spec is None or not isinstance(spec.loader, _Extension):
        return None
    return importlib.import_module(name)


class PlainLoader(importlib.machinery.SourceFileLoader):
    """Loads the source of a module that may be compiled, from the installed file.

    The path of the module is `_hot.py`, say: tracebacks then ask for that file's lines here.
    """

    def get_data(self, path: str) -> bytes:
        """The contents of the source, or of the bytecode."""
        place = installed_as(path)
        data = super().get_data(place)
        if place.endswith(_PLAIN):
            import zlib  # of no use to most processes

            return zlib.decompress(data)
        return data

    def path_stats(self, path: str) -> Mapping[str, Any]:
        """Time of writing and size of the source."""
        return super().path_stats(installed_as(path))


def installed_as(path: str) -> str:
    """Path of the contents of a file: for `_hot.py` that of `_hot.plain`, if only that is there."""
    plain = path.removesuffix(".py") + _PLAIN
    return path if os.path.exists(path) or not os.path.exists(plain) else plain


def plain_loader(name: str) -> PlainLoader:
    """The loader of the source of a module of that full name."""
    return PlainLoader(name, os.path.join(_PACKAGE, *name.split(".")[1:]) + ".py")


def load_plain(name: str, stand_ins: dict[str, Any]) -> ModuleType:
    """Load a module's source as plain Python, with stand-ins of C helpers."""
    loader = plain_loader(name)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__.update(stand_ins)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def load_above(name: str, below: tuple[ModuleType, ...], stand_ins: dict[str, Any]) -> ModuleType:
    """Return a module that calls the modules `below` in C: compiled only if all of them are.

    stand_ins: the C helpers, for the module as plain Python
    """
    found = sys.modules.get(name)
    if found is None and all(map(is_compiled, below)):
        found = compiled(name)
    return load_plain(name, stand_ins) if found is None else found


def is_built(name: str) -> bool:
    """Whether there is an extension of that full name."""
    spec = importlib.machinery.PathFinder.find_spec(name, [_HERE])
    return spec is not None and isinstance(spec.loader, _Extension)


def select() -> ModuleType:
    """The hot core of this process: all parts, registered as `wend._engine.core._hot` and so on."""
    names = [f"wend._engine.core.{part}" for part in PARTS]
    if _CORE not in sys.modules:
        if all(map(is_built, names)) and all(map(compiled, names)):
            return sys.modules[_CORE]
        known = dict(_STAND_INS)
        for part, name in zip(PARTS, names, strict=True):
            found = load_plain(name, known)
            set_defaults(found)
            guard(sys.modules.get(_CORE), found)
            known |= {shared: getattr(found, shared) for shared in SHARED.get(part, ())}
    return sys.modules[_CORE]
