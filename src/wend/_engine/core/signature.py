"""Declared signatures: how the arguments of a call become operands, attributes, sizes, scalars.

Binding runs in Python the first time a call has a certain form (how many arguments, which keywords,
which of them are tensors, numbers, lists).  A `CallPlan` remains, by which the core takes the next
call of the same form apart natively.
"""

from __future__ import annotations

import ast
import inspect
import re
import struct
from functools import cache, cached_property
from typing import Any, TypeAlias

from wend._engine.base.dtypes import DType, bool_, float64, int64
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, TooLarge
from wend._engine.base.shapes import int_of
from wend._engine.core._hot import Tensor
from wend._engine.core._types import CallPlan
from wend._engine.core.symbolic import SymInt, SymNumber, category_of

EMPTY = inspect.Parameter.empty
#: NumPy's names for PyTorch's parameters, accepted as PyTorch accepts them.
KEYWORD_ALIASES = {
    "axis": "dim",
    "axes": "dims",
    "keepdims": "keepdim",
    "x": "input",
    "x1": "input",
    "x2": "other",
    "self": "input",
}
OPERAND_KINDS = frozenset({"tensor", "tensor?", "operand", "tensors"})
ARG_KINDS = frozenset({"size", "size?", "sizes", "sizes?", "scalar", "scalar?"})

#: A call as an op gets it: (primitive, tensors, run-time args, plan of such calls or None).
Bound: TypeAlias = tuple[Any, list[Any], list[Any], CallPlan | None]
#: A parameter in the form of a call: a tensor, a size, a kind with a number, or no value.
Entry: TypeAlias = str | tuple[str, int] | None


class Param:
    """A declared parameter of an op.

    is_attr: whether the value is structure and lives on the instance
    """

    __slots__ = ("default", "is_attr", "keyword_only", "kind", "name")

    def __init__(self, name: str, kind: str, default: object, keyword_only: bool) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.keyword_only = keyword_only
        self.is_attr = kind not in OPERAND_KINDS and kind not in ARG_KINDS


def parse_signature(text: str) -> tuple[Param, ...]:
    """Parameters of a declaration such as "input, dim: dims = None, *, dtype: dtype = None"."""
    params: list[Param] = []
    keyword_only = False
    for piece in filter(str.strip, _COMMA.split(text)):
        if piece.strip() == "*":
            keyword_only = True
        else:
            params.append(_parameter(piece, keyword_only))
    return tuple(params)


@cache
def _parameter(text: str, keyword_only: bool) -> Param:
    """A parameter, cached: ops have many in common."""
    head, assigned, default = text.partition("=")
    name, _, kind = head.partition(":")
    value = _literal(default.strip()) if assigned else EMPTY
    return Param(name.strip(), kind.strip() or "tensor", value, keyword_only)


#: Between parameters; a tuple may be a default.
_COMMA = re.compile(r",(?![^(]*\))")
_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False, "()": ()}


def _literal(text: str) -> object:
    """The value of a Python literal; words and numbers need no parser."""
    if text in _WORDS:
        return _WORDS[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:  # a default in a signature that is no literal is a name
            pass
    inside = text[1:-1]
    if text == repr(inside):
        return inside
    return ast.literal_eval(text)


def python_signature(params: tuple[Param, ...]) -> inspect.Signature:
    """The signature that help() and IDEs show."""
    rows = []
    for p in params:
        kind = (
            inspect.Parameter.KEYWORD_ONLY
            if p.keyword_only
            else (inspect.Parameter.POSITIONAL_OR_KEYWORD)
        )
        rows.append(inspect.Parameter(p.name, kind, default=p.default))
    return inspect.Signature(rows)


def exact_key(value: object) -> tuple[Any, ...]:
    """A key that compares exact type and bits: 1, True and 1.0 differ, 0.0 and -0.0 too."""
    if isinstance(value, tuple):
        return (tuple, *map(exact_key, value))
    if type(value) is float:
        return (float, struct.pack("<d", value))
    if type(value) is complex:
        return (complex, struct.pack("<dd", value.real, value.imag))
    return (type(value), value)


def _as_int(name: str, p: Param, value: object) -> int | SymInt:
    if type(value) is int or isinstance(value, SymInt):
        return value
    try:
        return int_of(value)
    except TypeError:
        raise ArgumentTypeError(
            f"{name}: argument '{p.name}' must be int, not {type(value).__name__}"
        ) from None


def _as_ints(name: str, p: Param, value: Any) -> tuple[Any, ...]:
    if hasattr(value, "__index__") and not hasattr(value, "__len__"):
        return (_as_int(name, p, value),)
    if isinstance(value, (list, tuple)):
        # As PyTorch does, only the first item is looked at.
        rest = (int(v) if type(v) is bool else _as_int(name, p, v) for v in value[1:])
        return (*(_as_int(name, p, v) for v in value[:1]), *rest)
    if isinstance(value, Tensor):
        if value.dim() == 1:
            return tuple(value.tolist())
        return (_as_int(name, p, value),)
    try:
        return tuple(_as_int(name, p, v) for v in value)
    except TypeError:
        raise ArgumentTypeError(
            f"{name}: argument '{p.name}' must be a tuple of ints, not {type(value).__name__}"
        ) from None


def _as_attr(name: str, p: Param, value: object) -> object:
    kind = p.kind
    if value is None and (kind in ("dim", "dims", "dtype") or p.default is None):
        return None
    if kind in ("dim", "int"):
        return _as_int(name, p, value)
    if kind in ("ints", "dims"):
        return _as_ints(name, p, value)
    if kind == "bool":
        if isinstance(value, bool):
            return value
        raise ArgumentTypeError(
            f"{name}: argument '{p.name}' must be bool, not {type(value).__name__}"
        )
    if kind == "str" and not isinstance(value, str):
        raise ArgumentTypeError(
            f"{name}: argument '{p.name}' must be str, not {type(value).__name__}"
        )
    if kind == "dtype":
        if value in _PYTHON_DTYPES:
            return _PYTHON_DTYPES[value]
        if not isinstance(value, DType):
            raise ArgumentTypeError(
                f"{name}: argument '{p.name}' must be a dtype, not {type(value).__name__}"
            )
    if isinstance(value, str) and isinstance(p.default, float):
        raise ArgumentTypeError(f"{name}: argument '{p.name}' must be a number, not str")
    if isinstance(value, Tensor) and value.dim() > 0:
        raise ArgumentTypeError(
            f"{name}: argument '{p.name}' must be no tensor, and it is one of shape "
            f"{tuple(value.shape)}"
        )
    return _without_tensors(value) if isinstance(value, (list, tuple)) else value


def _without_tensors(value: object) -> object:
    """A list or tuple that is structure, as a tuple, and its tensors of one element as numbers.

    A tensor that stands alone is an operand of another overload: its value must not be read.
    """
    if isinstance(value, (list, tuple)):
        if type(value) is list or any(isinstance(v, (Tensor, list, tuple)) for v in value):
            return tuple([_without_tensors(v) for v in value])
    elif isinstance(value, Tensor):
        return value.item()
    return value


_PYTHON_DTYPES = {float: float64, int: int64, bool: bool_}
# How a raw argument is read again by the core (see CallPlan in _types.py).
TENSOR, FLOAT, INT, BOOL, TENSORS, INTS, COMPLEX, DEFAULT = range(8)
ANEW = -1  # of an argument that each call is to be bound with anew
#: How numbers are read.
ROLES = {int: INT, float: FLOAT, bool: BOOL, complex: COMPLEX, SymInt: ANEW, SymNumber: ANEW}


class Binder:
    """Binds calls of a signature to primitives of a class."""

    def __init__(self, name: str, cls: Any, tensors_only: bool = False) -> None:
        self.name = name
        self._cls = cls
        self.tensors_only = tensors_only  # operands are no numbers
        self._positional: list[Param] | None = None

    @cached_property
    def cls(self) -> Any:
        """The op's class."""
        return self._cls if isinstance(self._cls, type) else self._cls.made()

    @property
    def params(self) -> tuple[Param, ...]:
        """The parameters in order."""
        params: tuple[Param, ...] = self.cls.params
        return params

    @property
    def positional(self) -> list[Param]:
        """Those that may be given by position."""
        if self._positional is None:
            self._positional = [p for p in self.params if not p.keyword_only]
        return self._positional

    @cached_property
    def by_name(self) -> dict[str, int]:
        """Index by name."""
        return {p.name: i for i, p in enumerate(self.params)}

    @cached_property
    def plain_operands(self) -> int:
        """The number of operands; -1 if a signature has further kinds of parameters."""
        plain = all(p.kind in ("tensor", "tensor?", "operand") for p in self.positional)
        return len(self.params) if plain and len(self.params) == len(self.positional) else -1

    # -- arguments to parameters ------------------------------------------------------------

    def match(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
        """Per parameter (value, raw position): an index, a tuple of indices for varargs, or -1."""
        params, positional = self.params, self.positional
        n = len(positional)
        plain = n == len(args) == len(params) > 0 and not kwargs  # as most rules call ops
        if plain and not self._takes_rest(positional[-1], args[-1:]):
            return list(zip(args, range(n)))
        slots: list[tuple[Any, Any] | None] = [None] * len(params)
        taken = 0
        for i, p in enumerate(positional):
            if taken >= len(args):
                break
            if i == n - 1 and self._takes_rest(p, args[taken:]):
                slots[i] = (tuple(args[taken:]), tuple(range(taken, len(args))))
                taken = len(args)
                break
            slots[i] = (args[taken], taken)
            taken += 1
        if taken < len(args):
            raise ArgumentTypeError(
                f"{self.name}() takes {n} positional arguments but {len(args)} were given"
            )
        for j, (key, value) in enumerate(kwargs.items()):
            index = self.by_name.get(key)
            if index is None:
                word = self.cls.torch.spellings.get(key) or KEYWORD_ALIASES.get(key, "")
                index = self.by_name.get(word)
            if index is None:
                raise ArgumentTypeError(f"{self.name}() got an unexpected argument '{key}'")
            if slots[index] is not None:
                raise ArgumentTypeError(f"{self.name}() got multiple values for '{key}'")
            slots[index] = (value, len(args) + j)
        result = []
        for i, p in enumerate(params):
            slot = slots[i]
            if slot is None:
                if p.default is EMPTY:
                    raise ArgumentTypeError(f"{self.name}() missing required argument: '{p.name}'")
                slot = (p.default, -1)
            result.append(slot)
        return result

    @staticmethod
    def _takes_rest(p: Param, rest: tuple[Any, ...]) -> bool:
        if p.kind in ("sizes", "ints", "dims"):
            return len(rest) > 1 or (p.kind == "sizes" and not hasattr(rest[0], "__len__"))
        return p.kind == "tensors" and isinstance(rest[0], Tensor)

    # -- parameters to a call ---------------------------------------------------------------

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bound:
        """(primitive, tensors, run-time args, CallPlan or None) for a call.

        Raises ArgumentTypeError for arguments that do not fit the signature.
        """
        if not kwargs and len(args) == self.plain_operands:
            binding = self._bind_operands(args)
            if binding is not None:
                return binding
        values = self.match(args, kwargs)
        alone = self.cls.torch.of_number is not None and not any(
            isinstance(v, Tensor) for v, _ in values
        )
        if alone:
            values[0] = (self.cls.torch.of_number(values[0][0]), values[0][1])
        n_raw = len(args) + len(kwargs)
        attrs: dict[str, Any] = {}
        form: list[Any] = []
        tensors: list[Any] = []
        call_args: list[Any] = []
        slots: list[tuple[int, int, Any]] = []  # (raw index, role, default or length)
        constants: list[tuple[int, Any]] = []
        cacheable = not alone
        for p, (value, raw) in zip(self.params, values, strict=True):
            if p.is_attr:
                attrs[p.name] = _as_attr(self.name, p, value)
                if type(raw) is tuple:
                    constants += [(r, v) for r, v in zip(raw, value, strict=True)]
                elif raw >= 0:
                    constants.append((raw, _kept(value)))
                cacheable = cacheable and _is_constant(value)
                continue
            entry = self._operand(p, value, tensors, call_args)
            form.append(entry)
            ok = _slots_for(p, value, raw, entry, slots, constants)
            cacheable = cacheable and ok
        prim = self.cls.intern(attrs, tuple(form))
        plan = None
        if cacheable:
            names = tuple(kwargs) or None
            plan = CallPlan(prim, n_raw - len(kwargs), names, tuple(slots), tuple(constants))
        return prim, tensors, call_args, plan

    def _bind_operands(self, args: tuple[Any, ...]) -> Bound | None:
        """As `bind`, for tensors and numbers that are operands, at least one of them a tensor.

        None if there is any other argument.
        """
        form: list[Any] = []
        tensors: list[Any] = []
        numbers: list[Any] = []
        slots: list[tuple[int, int, Any]] = []
        for k, value in enumerate(args):
            role = ROLES.get(type(value))
            if role is None and isinstance(value, Tensor):
                tensors.append(value)
                form.append("T")
                slots.append((k, TENSOR, None))
                continue
            if role is None or self.tensors_only or self.params[k].kind != "operand":
                return None
            numbers.append(value)
            form.append(("N", category_of(value)))
            if role != ANEW:
                slots.append((k, role, None))
        if not tensors:
            return None
        prim = self.cls.intern({}, tuple(form))
        plan = None
        if len(slots) == len(args):
            plan = CallPlan(prim, len(args), None, tuple(slots), ())
        return prim, tensors, numbers, plan

    def _operand(self, p: Param, value: Any, tensors: list[Any], args: list[Any]) -> Entry:
        """Append the run-time content of `value`; returns the entry in the form."""
        kind = p.kind
        if value is None:
            if kind.endswith("?") or p.default is None:
                return None
            raise self._wrong(p, value)
        if kind in ("tensor", "tensor?", "operand"):
            if isinstance(value, Tensor):
                tensors.append(value)
                return "T"
            # A 0-d array is no number: unlike a number, it takes part in the promotion.
            takes = kind == "operand" and not (self.tensors_only or hasattr(value, "__setitem__"))
            number = _as_number(value) if takes else None
            if number is None:
                raise self._wrong(p, value)
            args.append(number)
            return ("N", category_of(number))
        if kind == "tensors":
            if not isinstance(value, (list, tuple)):
                raise self._wrong(p, value)
            for i, item in enumerate(value):
                if not isinstance(item, Tensor):
                    raise ArgumentTypeError(
                        f"{self.name}: expected Tensor as element {i} in argument '{p.name}', "
                        f"but got {type(item).__name__}"
                    )
                tensors.append(item)
            return ("L", len(value))
        if kind in ("size", "size?"):
            args.append(_as_int(self.name, p, value))
            return "I"
        if kind in ("sizes", "sizes?"):
            ints = _as_ints(self.name, p, value)
            args.extend(ints)
            return ("S", len(ints))
        number = _as_number(value)
        if number is None:
            raise self._wrong(p, value)
        args.append(number)
        return ("N", category_of(number))

    def _wrong(self, p: Param, value: object) -> ArgumentTypeError:
        wanted = {
            "tensors": "a list or tuple of Tensors",
            "operand": "Tensor" if self.tensors_only else "Tensor or number",
            "scalar": "number",
            "scalar?": "number",
        }.get(p.kind, "Tensor")
        return ArgumentTypeError(
            f"{self.name}(): argument '{p.name}' must be {wanted}, not {type(value).__name__}"
        )


def _as_number(value: object) -> Any:
    """`value` as an exact Python (or symbolic) number, or None for anything else."""
    if type(value) in (int, float, bool, complex) or isinstance(value, (SymInt, SymNumber)):
        if type(value) is int and not -(1 << 63) <= value < 1 << 64:
            raise TooLarge(f"int too big to convert: {value} has more than 64 bits")
        return value
    if isinstance(value, Tensor):
        return value.item() if value.dim() == 0 else None
    exact: Any
    for exact in (bool, int, float, complex):
        if isinstance(value, exact):
            return exact(value)
    item = getattr(value, "item", None)  # NumPy scalars
    if item is not None and getattr(value, "shape", None) == ():
        return weak_number(item())
    return None


def weak_number(number: Any) -> Any:
    """The number that `.item()` of NumPy's gives, as PyTorch takes it; None for text and dates."""
    if type(number) is bool:
        return float(number)  # of np.bool_
    return number if isinstance(number, (int, float, complex)) else None


def _is_constant(value: Any) -> bool:
    if value is None or type(value) in (bool, int, str, float) or isinstance(value, (DType, type)):
        return True
    if type(value) in (tuple, list):
        return all(map(_is_constant, value))
    return type(value).__hash__ is not None and not isinstance(value, Tensor)


def _kept(value: Any) -> Any:
    """A constant that stays: the user may change a list, and give the same list again."""
    if type(value) is list or (
        type(value) is tuple and any(type(v) in (list, tuple) for v in value)
    ):
        return type(value)(map(_kept, value))
    return value


def _slots_for(
    p: Param,
    value: Any,
    raw: int | tuple[int, ...],
    entry: Entry,
    slots: list[Any],
    constants: list[Any],
) -> bool:
    """Describe how to read this parameter from the next call of the same form."""
    if raw == -1:
        if entry is None:
            return True
        if entry == "T" or entry[0] == "L":
            return False
        if entry[0] == "S":
            slots.extend((-1, DEFAULT, v) for v in value)
        else:
            slots.append((-1, DEFAULT, value))
        return True
    if entry is None:
        constants.append((raw, None))
        return True
    if type(raw) is tuple:
        if entry[0] == "L":
            slots.extend((r, TENSOR, None) for r in raw)
            return True
        slots.extend((r, INT, None) for r in raw)
        return all(type(v) is int for v in value)
    if entry == "T":
        slots.append((raw, TENSOR, None))
        return True
    if entry[0] == "L":
        slots.append((raw, TENSORS, len(value)))
        return type(value) in (list, tuple)
    if entry[0] == "S":
        if isinstance(value, (list, tuple)):
            slots.append((raw, INTS, len(value)))
            return all(type(v) is int for v in value)
        slots.append((raw, INT, None))
        return type(value) is int
    role = ROLES.get(type(value), ANEW)
    if role == ANEW:
        return False
    slots.append((raw, role, None))
    return True


class OverloadBinder:
    """Tries the binders of several signatures in turn; the first that fits wins."""

    def __init__(self, name: str, binders: list[Binder]) -> None:
        self.name = name
        self.binders = binders

    @property
    def cls(self) -> Any:
        """The class of the first signature."""
        return self.binders[0].cls

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bound:
        """As Binder.bind.  Raises ArgumentTypeError that lists all signatures if none fits."""
        failures = []
        for binder in self.binders:
            try:
                return binder.bind(args, kwargs)
            except (ArgumentTypeError, ArgumentError) as error:
                # A traceback would keep all frames of the caller until cycles are collected.
                failures.append(error.with_traceback(None))
        if len(failures) == 1:
            raise failures[0]
        words = [type(a).__name__ for a in args]
        words += [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
        got = ", ".join(words)
        lines = "\n".join(
            f" * ({', '.join(map(str, python_signature(b.params).parameters.values()))}): {e}"
            for b, e in zip(self.binders, failures, strict=True)
        )
        raise ArgumentTypeError(
            f"{self.name}() received an invalid combination of arguments: got ({got}), "
            f"but expected one of:\n{lines}"
        )
