"""Whether the call forms of PyTorch's tables bind on Wend, decided without running the function.

Ops bind by their signature objects (`core/signature.py`), Python functions by `inspect`. The few
methods in C without a signature are called with small tensors.
"""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass, field
from typing import Any

from call_forms import ANY, REQUIRED, Form, Parameter

import wend
from wend._engine.base.errors import ArgumentTypeError
from wend._engine.base.refusals import is_refused
from wend._engine.core._hot import OpFunction
from wend._engine.core.signature import Binder, OverloadBinder

MISSING = object()
#: Texts of errors that say that a call has no form, rather than that its values do not fit.
WRONG_FORM = re.compile(
    r"unexpected (keyword )?argument|positional argument|missing .*argument|multiple values"
    r"|takes (no|exactly|at most|at least)|invalid combination|keyword argument"
)


@dataclass
class Verdict:
    """What became of a name: `there`, `missing` or `differs`, and for each fault its words."""

    name: str
    state: str
    faults: list[str] = field(default_factory=list)


# -- objects --------------------------------------------------------------------------------


def wend_object(name: str) -> Any:
    """Wend's object of a name of PyTorch's, or MISSING."""
    parts = name.split(".")
    found: Any = wend
    for i, part in enumerate(parts[1:], 1):
        if is_refused(found):
            return MISSING  # members of a class that is never made
        if isinstance(found, type):
            try:
                found = inspect.getattr_static(found, part)
                continue
            except AttributeError:
                return getattr(found, part, MISSING)
        step = _step(found, part, ".".join(["wend", *parts[1 : i + 1]]))
        if step is MISSING:
            return MISSING
        found = step
    return MISSING if is_refused(found) else found


def _step(owner: Any, part: str, path: str) -> Any:
    try:
        return getattr(owner, part)
    except AttributeError:
        pass
    try:
        return importlib.import_module(path)
    except ImportError:
        return MISSING


# -- samples --------------------------------------------------------------------------------


def sample(p: Parameter, lib: Any = wend) -> Any:
    """A value of the kind that a parameter asks for, of Wend or of PyTorch."""
    if p.name in ("start", "length") and "Tensor" in p.kind:
        return lib.tensor(0)
    kind = p.name if p.name in _NAMED else p.kind.replace("torch.", "")
    for pattern, made in _KINDS:
        if re.search(pattern, kind):
            return made(lib)
    if p.default not in (REQUIRED, ANY, None) and not isinstance(p.default, type):
        return p.default
    return None if p.default is None else _tensor(lib) if p.name in _TENSORS else 1


def _tensor(lib: Any) -> Any:
    return lib.ones(2, 2)


_NAMED = frozenset("dtype layout device memory_format pin_memory generator".split())
_TENSORS = frozenset(
    "x1 x2 input1 input2 input other tensor self x y target weight mat mat1 mat2 index mask".split()
)
_KINDS: list[tuple[str, Any]] = [
    (r"Optional\[str\]|^str\b|_str", lambda lib: "sum"),
    (r"Number|Scalar|^_?complex", lambda lib: 2),
    (
        r"(List|Sequence|list|tuple|Tuple)\[(Optional\[)?Tensor|Tensor\[\]|Tensors|Tensor\?\[\]",
        lambda lib: [_tensor(lib), _tensor(lib)],
    ),
    (r"_?dtype|ScalarType", lambda lib: lib.float32),
    (r"Tensor", _tensor),
    (r"[Gg]enerator", lambda lib: lib.Generator()),
    (r"_?layout|Layout", lambda lib: lib.strided),
    (r"_?device|Device", lambda lib: lib.device("cpu")),
    (r"memory_format|MemoryFormat", lambda lib: lib.contiguous_format),
    (
        r"_size|(List|Sequence|list|tuple|Tuple)\[.*(_int|int|SymInt)|int\[|Int\[|_int, \.\.\.",
        lambda lib: [1, 1],
    ),
    (r"(List|Sequence|list|tuple|Tuple)\[.*float|float\[", lambda lib: [0.5, 0.5]),
    (r"(List|Sequence|list|tuple|Tuple)\[.*bool|bool\[", lambda lib: [True, True]),
    (r"_?bool|pin_memory", lambda lib: True),
    (r"_?float", lambda lib: 0.5),
    (r"_?int|SymInt", lambda lib: 1),
]


# -- binding --------------------------------------------------------------------------------


def judge(name: str, forms: list[Form], theirs: Any, library: Any) -> Verdict:
    """Whether all forms of a name bind on Wend, and with PyTorch's defaults.

    theirs: PyTorch's object of that name, which is asked about forms that fail: its stubs have
    some that it does not take     library: PyTorch
    """
    ours = wend_object(name)
    if ours is MISSING:
        return Verdict(name, "missing")
    method = _in_class(name)
    faults: list[str] = []
    for form in forms:
        found = faults_of(form, ours, method)
        if found and _theirs_binds(form, theirs, method, library):
            faults += found
    if not faults:
        faults = other_defaults(forms, ours)
    return Verdict(name, "differs" if faults else "there", list(dict.fromkeys(faults)))


def _theirs_binds(form: Form, theirs: Any, method: bool, library: Any) -> bool:
    """Whether PyTorch takes all calls of a form. Python functions take what `inspect` says."""
    if form.source == "inspect" or isinstance(theirs, type) or not callable(theirs):
        return True
    for _, first, by_word in form.calls():
        args = [sample(p, library) for p in first]
        kwargs = {p.name: sample(p, library) for p in by_word}
        if method:
            args.insert(0, _tensor(library))
        try:
            theirs(*args, **kwargs)
        except TypeError as error:
            if WRONG_FORM.search(str(error)):
                return False
        except Exception:
            continue
    return True


def _in_class(name: str) -> bool:
    owner = wend_object(name.rpartition(".")[0])
    return isinstance(owner, type)


def faults_of(form: Form, ours: Any, method: bool) -> list[str]:
    """Words about each call of a form that does not bind, and about defaults that differ."""
    if isinstance(ours, staticmethod):
        ours, method = ours.__func__, False
    elif isinstance(ours, classmethod):
        ours = ours.__func__
    if isinstance(ours, property) or not callable(ours):
        return [f"{form}: no function"]
    faults = []
    for words, first, by_word in form.calls():
        args = [sample(p) for p in first]
        kwargs = {p.name: sample(p) for p in by_word}
        if method:
            args.insert(0, _tensor(wend))
        fault = binds(ours, args, kwargs)
        if fault:
            faults.append(f"{form} [{form.source}], {words}: {fault}")
            break
    return faults


def binds(ours: Any, args: list[Any], kwargs: dict[str, Any]) -> str:
    """Empty if the call binds, else the reason."""
    if isinstance(ours, OpFunction):
        return _op_binds(ours, args, kwargs)
    signature = signature_of(ours)
    if signature is None or _takes_anything(signature):
        return _call_binds(ours, args, kwargs)
    spellings = _spellings(ours)
    kwargs = {spellings.get(word, word): value for word, value in kwargs.items()}
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return ""


def _spellings(ours: Any) -> dict[str, str]:
    """Further keywords of a function's parameters (see `ops/sugar.py`), in whatever wrappers."""
    while ours is not None:
        if hasattr(ours, "spellings"):
            found: dict[str, str] = ours.spellings
            return found
        ours = getattr(ours, "__wrapped__", None)
    return {}


def signature_of(ours: Any) -> inspect.Signature | None:
    """The signature of Wend's object, if it has one."""
    try:
        return inspect.signature(ours)
    except (TypeError, ValueError):
        return None


def _takes_anything(signature: inspect.Signature) -> bool:
    return any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in signature.parameters.values())


def _op_binds(op: Any, args: list[Any], kwargs: dict[str, Any]) -> str:
    kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    if "device" in kwargs and op.general is None:
        del kwargs["device"]
    if not isinstance(op.binder, Binder | OverloadBinder):
        return _call_binds(op, args, kwargs)
    try:
        op.binder.bind(tuple(args), kwargs)
    except ArgumentTypeError as error:
        if op.general is not None:
            return _call_binds(op, args, kwargs)
        return str(error).replace("\n", " ")
    except Exception:
        return ""  # the form fits; the values of the sample do not
    return ""


def _call_binds(ours: Any, args: list[Any], kwargs: dict[str, Any]) -> str:
    """By a call: for what has no signature. Only errors about the form count."""
    if isinstance(ours, type) or not _harmless(ours):
        return ""
    try:
        ours(*args, **kwargs)
    except TypeError as error:
        return str(error).replace("\n", " ") if WRONG_FORM.search(str(error)) else ""
    except Exception:
        return ""
    return ""


def _harmless(ours: Any) -> bool:
    """Whether a call changes nothing but its operands: ops, and what is public in `wend` itself."""
    place = getattr(ours, "__module__", None) or ""
    return isinstance(ours, OpFunction) or place.startswith(
        (
            "wend._frontend.creation",
            "wend._frontend.methods",
            "wend._frontend.public.functions",
            "wend._engine.core",
            "wend._engine.ops",
            "wend._frontend.layout",
            "wend._frontend.random",
        )
    )


def other_defaults(forms: list[Form], ours: Any) -> list[str]:
    """Words about defaults that are plain values, and PyTorch's in none of the forms."""
    signature = signature_of(ours)
    if signature is None or (isinstance(ours, OpFunction) and ours.overloads):
        return []
    theirs: dict[str, list[Any]] = {}
    for form in forms:
        for p in form.parameters:
            if not p.required:
                theirs.setdefault(p.name, []).append(p.default)
    found = []
    for name, values in theirs.items():
        mine = signature.parameters.get(name)
        if mine is None or any(v is ANY for v in values):
            continue
        if mine.default is mine.empty:
            continue  # a call without it has been seen to bind
        builtin = all(form.source != "inspect" for form in forms)
        if not any(_agree(v, mine.default, builtin) for v in values):
            found.append(
                f"{forms[0]}: the default of {name} is {mine.default!r}, not {values[0]!r}"
            )
    return found


def _agree(theirs: Any, mine: Any, builtin: bool) -> bool:
    """Whether two defaults mean the same. None says that the parameter is left out, where PyTorch
    shows nobody the default."""
    if (builtin and mine is None) or not (_plain(theirs) and _plain(mine)):
        return True
    if isinstance(mine, tuple) and len(set(mine)) == 1:  # 0 or (0, 0) for two dims
        mine = mine[0]
        if isinstance(theirs, list | tuple) and len(set(theirs)) == 1:
            theirs = theirs[0]
    return _same(theirs, mine)


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return tuple(a) == tuple(b)
    if isinstance(a, float) and isinstance(b, float) and a != a:
        return b != b
    return bool(a == b)
