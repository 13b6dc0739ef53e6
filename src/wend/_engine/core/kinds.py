"""Kinds of parameters as type hints: the signature of an op is that of the op's function.

    @composite(functions=("tril",))
    def tril(input: Tensor, diagonal: Size = 0) -> Tensor: ...

A `Tensor`, an `Operand` (tensor or number), a `Size` and a `Scalar` are values at run time. All
further kinds are structure: an op is another op where such a value differs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from wend._engine.base.dtypes import DType
from wend._engine.core._hot import Tensor
from wend._engine.core.signature import EMPTY, Param

Operand: TypeAlias = Tensor | float
Scalar: TypeAlias = float
Size: TypeAlias = int
Sizes: TypeAlias = Sequence[int]
Dim: TypeAlias = int
Dims: TypeAlias = tuple[int, ...]
Ints: TypeAlias = tuple[int, ...]
Attr: TypeAlias = Any  # structure of any type

#: The kind of a parameter, by the text of the annotation.
KINDS = {
    "Tensor": "tensor",
    "Tensor | None": "tensor?",
    "Sequence[Tensor]": "tensors",
    "Operand": "operand",
    "Scalar": "scalar",
    "Scalar | None": "scalar?",
    "Size": "size",
    "Size | None": "size?",
    "Sizes": "sizes",
    "Sizes | None": "sizes?",
    "Dim": "dim",
    "Dim | None": "dim",
    "Dims": "dims",
    "Dims | None": "dims",
    "Dims | int": "dims",
    "Ints": "ints",
    "Ints | None": "ints",
    "DType | None": "dtype",
    "DType": "dtype",
    "bool": "bool",
    "int": "int",
    "int | None": "int",
    "str": "str",
    "Attr": "attr",
}
__all__ = [
    "Attr",
    "DType",
    "Dim",
    "Dims",
    "Ints",
    "Operand",
    "Scalar",
    "Size",
    "Sizes",
    "Tensor",
    "params_of",
]


def params_of(function: Callable[..., Any]) -> tuple[Param, ...]:
    """Return the parameters of an op from the signature of the op's function.

    Raises TypeError for a parameter whose annotation is no kind. Annotations are texts: the module
    begins with `from __future__ import annotations`.
    """
    function = inspect.unwrap(function)
    code, hints = function.__code__, function.__annotations__
    n, more = code.co_argcount, code.co_kwonlyargcount
    defaults: dict[str, Any] = dict(function.__kwdefaults__ or {})
    values = function.__defaults__ or ()
    defaults.update(zip(code.co_varnames[n - len(values) : n], values, strict=True))
    params = []
    for i, name in enumerate(code.co_varnames[: n + more]):
        hint = hints.get(name, "")
        kind = KINDS.get(hint) if isinstance(hint, str) else None
        if kind is None:
            raise TypeError(
                f"{function.__name__}: {name}: {hints.get(name)} is no kind of parameter"
            )
        params.append(Param(name, kind, defaults.get(name, EMPTY), i >= n))
    return tuple(params)
