"""Ops of numbers, lists, dicts and texts: the part of a program that no tensor is in."""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend.jit._torchscript._text import formatted, percent_formatted, shown

__all__ = ["NUMBER_OPS", "SCALARS"]

Function = Callable[..., Any]


def _div(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return a // b
    return math.trunc(a / b) if rounding_mode == "trunc" else a / b


def _add(a: Any, b: Any, alpha: Any = 1) -> Any:
    return a + (b if alpha == 1 else alpha * b)


def _sub(a: Any, b: Any, alpha: Any = 1) -> Any:
    return a - (b if alpha == 1 else alpha * b)


def _pow(a: Any, b: Any) -> Any:
    power = a**b
    return float(power) if isinstance(power, int) else power


def _derive_index(i: int, start: int, step: int) -> int:
    return start + i * step


def _range_length(low: Any, high: Any, step: Any) -> Any:
    if step == 0:
        raise ArgumentError("range: the step is 0")
    if step > 0:
        return (high - low + step - 1) // step if low < high else 0
    return (low - high - step - 1) // -step if low > high else 0


def _slice(x: Any, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    return x[start:end:step]


def _set_item(x: Any, i: Any, value: Any) -> Any:
    if not isinstance(x, (list, dict)):
        raise ArgumentTypeError(f"TorchScript: an item of a {type(x).__name__} is set")
    x[i] = value
    return x


def _delete(x: Any, i: Any) -> None:
    del x[i]


def _append(x: list[Any], item: Any) -> list[Any]:
    x.append(item)
    return x


def _sorted(x: list[Any], reverse: bool = False) -> list[Any]:
    return sorted(x, reverse=bool(reverse))


def _sort(x: list[Any], reverse: bool = False) -> None:
    x.sort(reverse=bool(reverse))


def _copied(x: Any) -> Any:
    return x.copy()


def _as_dict(pairs: Any = ()) -> dict[Any, Any]:
    return dict(pairs)


def _contains(x: Any, item: Any) -> bool:
    return item in x


def _get(x: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return x.get(key, default)


def _max(*values: Any) -> Any:
    return max(*values) if len(values) > 1 else max(values[0])


def _min(*values: Any) -> Any:
    return min(*values) if len(values) > 1 else min(values[0])


def _real_or_complex(name: str) -> Function:
    real, other = getattr(math, name), getattr(cmath, name, None)

    def function(x: Any) -> Any:
        return other(x) if isinstance(x, complex) and other is not None else real(x)

    return function


def _method(kind: type, name: str) -> Function:
    """A method of texts, lists or dicts, for values of that type alone."""
    function = getattr(kind, name)

    def call(x: Any, *args: Any) -> Any:
        if not isinstance(x, kind):
            raise ArgumentTypeError(f"TorchScript: {name} is called of a {type(x).__name__}")
        return function(x, *args)

    return call


def _of(kinds: type | tuple[type, ...], function: Function) -> Function:
    """A function of values of these kinds alone: an attribute of nothing else is looked up."""

    def call(x: Any, *args: Any) -> Any:
        if not isinstance(x, kinds):
            raise ArgumentTypeError(
                f"TorchScript: an op of lists or dicts gets a {type(x).__name__}"
            )
        return function(x, *args)

    return call


_TEXT = (
    "capitalize center endswith expandtabs find isalnum isalpha isdecimal isdigit "
    "isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip "
    "partition replace rfind rindex rjust rpartition rsplit rstrip splitlines split startswith "
    "strip swapcase title upper zfill"
).split()
_MATH = (
    "acos acosh asin asinh atan atanh cos cosh exp log log10 sin sinh sqrt tan tanh log1p expm1 "
    "erf erfc gamma lgamma degrees radians fabs"
).split()

SCALARS: dict[str, Function] = {
    **{name: _method(str, name) for name in _TEXT},
    **{name: _real_or_complex(name) for name in _MATH},
    **{name: _method(dict, name) for name in ("popitem", "setdefault", "update")},
    **{name: _method(list, name) for name in ("extend", "insert", "remove", "reverse")},
    "add": _add,
    "sub": _sub,
    "mul": operator.mul,
    "div": _div,
    "true_divide": operator.truediv,
    "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv,
    "__round_to_zero_floordiv": lambda a, b: math.trunc(a / b),
    "remainder": operator.mod,
    "mathremainder": math.remainder,
    "fmod": math.fmod,
    "pow": _pow,
    "neg": operator.neg,
    "abs": abs,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "gt": operator.gt,
    "le": operator.le,
    "ge": operator.ge,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__lshift__": operator.lshift,
    "__rshift__": operator.rshift,
    "__not__": operator.not_,
    "__contains__": _contains,
    "__getitem__": operator.getitem,
    "__range_length": _range_length,
    "__derive_index": _derive_index,
    "_set_item": _set_item,
    "Delete": _of((list, dict), _delete),
    "append": _of(list, _append),
    "add_": operator.iadd,
    "mul_": operator.imul,
    "clear": _of((list, dict), lambda x: x.clear()),
    "copy": _of((list, dict), _copied),
    "count": _of((list, str), lambda x, *item: x.count(*item)),
    "index": _of((list, str), lambda x, *item: x.index(*item)),
    "pop": _of((list, dict), lambda x, *args: x.pop(*args)),
    "sort": _of(list, _sort),
    "sorted": _sorted,
    "list": list,
    "dict": _as_dict,
    "keys": _of(dict, lambda x: list(x.keys())),
    "values": _of(dict, lambda x: list(x.values())),
    "items": _of(dict, lambda x: list(x.items())),
    "get": _of(dict, _get),
    "slice": _slice,
    "len": len,
    "sum": sum,
    "max": _max,
    "min": _min,
    "all": all,
    "any": any,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": lambda x: float(round(x)) if isinstance(x, float) else round(x),
    "trunc": math.trunc,
    "atan2": math.atan2,
    "copysign": math.copysign,
    "gcd": math.gcd,
    "factorial": math.factorial,
    "hypot": math.hypot,
    "ldexp": math.ldexp,
    "frexp": math.frexp,
    "modf": math.modf,
    "divmod": divmod,
    "isnan": lambda x: x != x,
    "isinf": lambda x: cmath.isinf(x),
    "isfinite": lambda x: cmath.isfinite(x),
    "real": _of((int, float, complex), lambda x: x.real),
    "imag": _of((int, float, complex), lambda x: x.imag),
    "angle": lambda x: cmath.phase(x),
    "polar": cmath.rect,
    "format": formatted,
    "percentFormat": percent_formatted,
    "str": shown,
    "ord": ord,
    "chr": chr,
    "hex": hex,
    "bin": bin,
    "oct": oct,
    "hash": hash,
    "Int": int,
    "IntImplicit": int,
    "Float": float,
    "FloatImplicit": float,
    "Bool": bool,
    "ScalarImplicit": lambda x: x,
}
#: Ops of ints that stay known numbers in a trace, where PyTorch has tensors without dims.
NUMBER_OPS: dict[str, Function] = {
    "add": _add,
    "sub": _sub,
    "mul": operator.mul,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "neg": operator.neg,
}
