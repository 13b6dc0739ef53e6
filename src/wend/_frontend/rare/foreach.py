"""The `torch._foreach_*` functions: an operation on each tensor of a list.

Optimizers and averages of libraries call these.  Pending operations share a flush, so a call per
tensor costs no more than a call for the list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentTypeError, ValueRefused
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.formats import memory_format

#: Per result the operands and options of the op.
Rows = list[tuple[tuple[Any, ...], dict[str, Any]]]

__all__: list[str] = []  # filled below, from the tables

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Any]: ...


#: Functions of a tensor alone; each has a twin that writes to its operands.
UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 "
    "neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
#: Functions of a tensor, and of a number or a tensor; by name the op.
BINARY = {
    "add": "add",
    "clamp_max": "clamp_max",
    "clamp_min": "clamp_min",
    "div": "div",
    "maximum": "clamp_min",  # of numbers too
    "minimum": "clamp_max",
    "mul": "mul",
    "pow": "pow",
    "sub": "sub",
}
#: Functions of a tensor and of a product or quotient of two further ones.
TERNARY = ("addcdiv", "addcmul")
_SCALED = ("add", "sub")
_OTHER = ("other", "scalar", "scalars", "exponent", "weight", "weights", "value")


def _tensors(
    name: str, argument: str, tensors: Sequence[Tensor], length: int | None = None
) -> list[Tensor]:
    """A list of tensors, as long as it has to be."""
    listed = isinstance(tensors, (list, tuple))
    odd = next((x for x in tensors if not isinstance(x, Tensor)), None) if listed else tensors
    if odd is not None or not listed:
        raise ArgumentTypeError(
            f"{name}(): argument '{argument}' must be tuple of Tensors, "
            f"not {'one with ' if listed else ''}{type(odd).__name__}"
        )
    if not tensors:
        raise ValueRefused(f"{name}: Tensor list must have at least one tensor.")
    if length is not None and len(tensors) != length:
        raise ValueRefused(
            f"{name}: Tensor lists must have the same number of tensors, got {length} and "
            f"{len(tensors)}"
        )
    return list(tensors)


def _column(name: str, values: object, length: int, packed: bool = False) -> list[Any]:
    """Per tensor of the first list a number or tensor; packed: a tensor holds a number for each."""
    if isinstance(values, Tensor):
        if values.dim() != packed:
            wanted = "packed scalar Tensor to be of dimension 1" if packed else "0-d scalar tensor"
            raise ValueRefused(f"{name}: Expected {wanted}. Got {values.dim()} dims instead.")
        values = list(values.unbind(0)) if packed else [values] * length
    if not isinstance(values, (list, tuple)):
        return [values] * length
    if len(values) != length:
        raise ValueRefused(
            f"{name}: Tensor list must have same number of elements as scalar list; Tensor lists "
            f"must have the same number of tensors, got {length} and {len(values)}"
        )
    return list(values)


def _last(name: str, operand: object, named: dict[str, Any]) -> Any:
    """The last operand, which has a name per kind: `other`, `scalar`, `scalars` and more."""
    for word in _OTHER:
        if word in named and operand is None:
            operand = named.pop(word)
    if named:
        raise ArgumentTypeError(f"{name}() got an unexpected keyword argument '{min(named)}'")
    if operand is None:
        raise ArgumentTypeError(f"{name}() misses a number, a tensor, or a list of either")
    return operand


def _publish(base: str, method: str, read: Callable[..., Rows], text: str) -> None:
    """Add `_foreach_base`, and the function that writes to the tensors of its first list.

    read: from the function's name and arguments, per result the operands and options
    """
    name = f"_foreach_{base}"
    op, write = getattr(Tensor, method), getattr(Tensor, f"{method}_", None)

    def computes(*args: object, **named: object) -> tuple[Tensor, ...]:
        args = _with_self(name, args, named)
        return tuple(op(*row, **options) for row, options in read(name, *args, **named))

    _add(name, computes, f"{text}, as a tuple.")
    if write is None:
        return

    def writes(*args: object, **named: object) -> Any:
        args = _with_self(f"{name}_", args, named)
        for row, options in read(f"{name}_", *args, **named):
            write(*row, **options)
        return args[0]

    _add(f"{name}_", writes, f"{text}, written to the tensors of the list; returns the list.")


def _with_self(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    if "self" in named:
        return (named.pop("self"), *args)
    if not args:
        raise ArgumentTypeError(f"{name}() missing 1 required argument: 'self'")
    return args


def _add(name: str, function: Callable[..., Any], text: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    globals()[name] = function
    __all__.append(name)


def _of_one(name: str, inputs: Sequence[Tensor]) -> Rows:
    return [((x,), {}) for x in _tensors(name, "self", inputs)]


def _of_two(base: str) -> Callable[..., Rows]:
    def read(name: str, inputs: Any, other: Any = None, **named: object) -> Rows:
        options = {"alpha": named.pop("alpha")} if base in _SCALED and "alpha" in named else {}
        other = _last(name, other, named)
        if name == "_foreach_pow" and not isinstance(inputs, (list, tuple)):
            return [((inputs, x), {}) for x in _tensors(name, "exponent", other)]
        tensors = _tensors(name, "self", inputs)
        column = _column(name, other, len(tensors))
        if options and not isinstance(column[0], Tensor):
            raise ArgumentTypeError(f"{name}(): alpha goes with tensors, and other is a number")
        return [(row, options) for row in zip(tensors, column, strict=True)]

    return read


def _of_three(
    name: str, inputs: Any, tensor1: Any, tensor2: Any, value: object = None, **named: object
) -> Rows:
    tensors = _tensors(name, "self", inputs)
    first = _tensors(name, "tensor1", tensor1, len(tensors))
    second = _tensors(name, "tensor2", tensor2, len(tensors))
    value = 1 if value is None and not named else _last(name, value, named)
    scales = _column(name, value, len(tensors), packed=True)
    return [
        (row, {"value": scale})
        for row, scale in zip(zip(tensors, first, second, strict=True), scales, strict=True)
    ]


def _of_lerp(
    name: str, inputs: Any, tensors1: Sequence[Tensor], weight: object = None, **named: object
) -> Rows:
    tensors = _tensors(name, "self", inputs)
    ends = _tensors(name, "tensors1", tensors1, len(tensors))
    weights = _column(name, _last(name, weight, named), len(tensors))
    return [(row, {}) for row in zip(tensors, ends, weights, strict=True)]


def _of_products(name: str, inputs: Sequence[Tensor], mat2: Sequence[Tensor]) -> Rows:
    tensors = _tensors(name, "self", inputs)
    others = _tensors(name, "mat2", mat2, len(tensors))
    return [(row, {}) for row in zip(tensors, others, strict=True)]


def _foreach_copy_(
    self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False
) -> Sequence[Tensor]:
    """Copy each tensor of the second list to the one at its place in the first; returns this."""
    targets = _tensors("_foreach_copy_", "self", self)
    for x, y in zip(targets, _tensors("_foreach_copy_", "src", src, len(targets)), strict=True):
        x.copy_(y, non_blocking)
    return self


def _foreach_zero_(self: Sequence[Tensor]) -> Sequence[Tensor]:
    """Fill each tensor of a list with zeros; returns the list."""
    for x in _tensors("_foreach_zero_", "self", self):
        x.zero_()
    return self


def _foreach_clone(
    self: Sequence[Tensor], *, memory_format: memory_format | None = None
) -> tuple[Tensor, ...]:
    """A copy of each tensor of a list, as a tuple."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(x.clone(**options) for x in _tensors("_foreach_clone", "self", self))


def _foreach_max(self: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The largest element of each tensor of a list, as a tuple of 0-d tensors."""
    return tuple(x.max() for x in _tensors("_foreach_max", "self", self))


def _foreach_norm(
    self: Sequence[Tensor], ord: float = 2, dtype: DType | None = None
) -> tuple[Tensor, ...]:
    """The vector norm of all elements of each tensor of a list, as a tuple of 0-d tensors."""
    tensors = _tensors("_foreach_norm", "self", self)
    return tuple(ops.vector_norm(x, ord, dtype=dtype) for x in tensors)


def _foreach_powsum(
    self: Sequence[Tensor], ord: float = 2, dtype: DType | None = None
) -> tuple[Tensor, ...]:
    """sum(|x|^ord) of each tensor x of a list, as a tuple of 0-d tensors."""
    tensors = _tensors("_foreach_powsum", "self", self)
    return tuple(x.to(dtype or x.dtype).abs().pow(ord).sum() for x in tensors)


__all__ += [
    "_foreach_clone",
    "_foreach_copy_",
    "_foreach_max",
    "_foreach_norm",
    "_foreach_powsum",
    "_foreach_zero_",
]
for _base in UNARY:
    _publish(_base, _base, _of_one, f"`{_base}` of each tensor of a list")
for _base, _method in BINARY.items():
    _publish(
        _base,
        _method,
        _of_two(_base),
        f"`{_base}` of each tensor of a list and a number, "
        "a tensor, or those at its place in a list",
    )
for _base in TERNARY:
    _publish(_base, _base, _of_three, f"`{_base}` of the tensors at each place in three lists")
_publish("lerp", "lerp", _of_lerp, "`lerp` from each tensor of a list to that in a second one")
_publish("mm", "mm", _of_products, "The matrix products of two lists")
