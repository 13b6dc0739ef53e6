"""Ops on sparse tensors: a table of rules by the name of the op.

A rule is called as the op is. Where a rule asks for coordinates, compressed operands are converted,
and a sparse matrix as result is converted back.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from wend._engine.base.dtypes import NAMES
from wend._engine.base.errors import GraphError, NotImplementedInWend
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import Composite, ops
from wend._frontend.aliasing.rebinding import check_writable
from wend._frontend.formats import sparse_coo
from wend._frontend.tensor import write_out
from wend._frontend.toolkit import assign
from wend.sparse.tensor import SparseTensor, compress, merged

__all__ = ["RULES", "dispatch", "rule"]

Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}
#: Rules that take compressed operands as they are.
ANY_LAYOUT: set[str] = set()


def rule(*names: str, any_layout: bool = False) -> Callable[[Rule], Rule]:
    """Enter a rule under the names of ops."""

    def enter(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
            if any_layout:
                ANY_LAYOUT.add(name)
        return function

    return enter


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `func`, of which some arguments are sparse.  Raises NotImplementedError if unknown."""
    name = func.__name__
    kwargs = dict(kwargs)
    out = kwargs.pop("out", None)
    in_place = name[-1:] == "_" and name[-2:] != "__"
    found = RULES.get(name) or RULES.get(name[:-1] if in_place else name)
    if found is None:
        primitive = getattr(func, "primitive", None)
        if (
            not in_place
            and out is None
            and primitive is not None
            and issubclass(primitive, Composite)
        ):
            prim, tensors, values, _ = func.binder.bind(args, kwargs)
            return prim.call_body(tensors, values)
        raise NotImplementedInWend(
            f"{name}: not available for sparse tensors; make them dense with to_dense()"
        )
    known = name if name in RULES else name[:-1]
    result = called(known, found, args, kwargs)
    if in_place and name not in RULES:
        return _written(name, args[0], result)
    if out is None:
        return result
    if isinstance(out, SparseTensor) and isinstance(result, SparseTensor):
        return out.become(name, result)
    write_out(name, out, result)
    return out


def called(name: str, found: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a rule, in the layout of the first compressed operand."""
    if name in ANY_LAYOUT:
        return found(*args, **kwargs)
    layouts: list[Any] = []
    args = tuple([_by_coordinates(a, layouts) for a in args])
    kwargs = {key: _by_coordinates(a, layouts) for key, a in kwargs.items()}
    result = found(*args, **kwargs)
    if layouts and isinstance(result, SparseTensor):
        layout, block = layouts[0]
        if result.dim() == 2 and result.is_sparse:
            return compress(result, layout, block)
    return result


def _by_coordinates(a: Any, layouts: list[Any]) -> Any:
    if isinstance(a, (list, tuple)):
        return type(a)([_by_coordinates(x, layouts) for x in a]) if type(a) in (list, tuple) else a
    if isinstance(a, SparseTensor) and a.layout is not sparse_coo:
        layouts.append((a.layout, a._places.block))  # type: ignore[union-attr]
        return merged(a)
    return a


def _written(name: str, target: Tensor, result: Tensor) -> Tensor:
    """Give the target the result, as an op in place does."""
    if isinstance(target, SparseTensor):
        if not isinstance(result, SparseTensor) or tuple(result.shape) != tuple(target.shape):
            raise GraphError(f"{name}: the result does not fit the sparse tensor")
        return target.become(name, result)
    if isinstance(result, SparseTensor):
        result = result.to_dense()
    check_writable(target, name)
    assign(target, result if result.dtype is target.dtype else ops.cast(result, target.dtype))
    return target


@classmethod  # type: ignore[misc]
def _torch_function(
    cls: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    return dispatch(func, args, kwargs or {})


SparseTensor.__torch_function__ = _torch_function

#: Methods of dense tensors that hold for sparse tensors as they are.
_SHARED = frozenset(
    "numel nelement element_size get_device is_floating_point is_complex is_signed ndimension "
    "is_same_size is_pinned is_inference is_shared share_memory_ pin_memory is_distributed cuda "
    "is_conj is_neg resolve_conj resolve_neg size dim new_tensor".split()
)
_CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
    "long": "int64", "int": "int32", "short": "int16", "char": "int8", "byte": "uint8",
    "bool": "bool", "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip


def _forwarded(name: str, plain: Any) -> Any:
    """A method that is no op: asked of the table."""

    def method(self: SparseTensor, *args: Any, **kwargs: Any) -> Any:
        return dispatch(plain, (self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = plain.__doc__
    return method


def _conversion(dtype: Any) -> Any:
    def convert(self: SparseTensor, memory_format: Any = None) -> SparseTensor:
        return self.to(dtype)

    convert.__doc__ = f"The tensor as {dtype}."
    return convert


def _complete() -> None:
    """Give the class all methods of dense tensors that are Python: by the table, or refused."""
    for name, dtype in _CASTS.items():
        setattr(SparseTensor, name, _conversion(NAMES[dtype]))
    for name, plain in list(vars(Tensor).items()):
        own = name.startswith("_") or name in _SHARED or name in vars(SparseTensor)
        if not own and isinstance(plain, FunctionType):
            setattr(SparseTensor, name, _forwarded(name, plain))


_complete()
