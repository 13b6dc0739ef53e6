"""How rules for sparse tensors are called, and how results get to tensors that a call names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import GraphError, NotImplementedInWend
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import Composite, ops
from wend._frontend.aliasing.rebinding import check_writable
from wend._frontend.components import Call, mapped
from wend._frontend.formats import sparse_coo
from wend._frontend.tensor import write_out
from wend._frontend.toolkit import assign
from wend.sparse.tensor import SparseTensor, compress, merged

__all__ = ["by_body", "by_coordinates", "densely", "in_coordinates", "written"]


def by_coordinates(call: Call, rule: Callable[..., Any]) -> Any:
    """The family of rules that ask for coordinates."""
    return in_coordinates(rule, *call.args, **call.kwargs)


def in_coordinates(rule: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:
    """The result of a rule for coordinates, in the layout of the first compressed operand."""
    compressed: list[Any] = []

    def converted(x: object) -> object:
        if isinstance(x, SparseTensor) and x.layout is not sparse_coo:
            compressed.append(x)
            return merged(x)
        return x

    args = mapped(converted, args)
    kwargs = {key: mapped(converted, x) for key, x in kwargs.items()}
    result = rule(*args, **kwargs)
    if compressed and isinstance(result, SparseTensor) and result.dim() == 2 and result.is_sparse:
        return compress(result, compressed[0].layout, compressed[0]._places.block)
    return result


def densely(call: Call, rule: Callable[..., Any]) -> Any:
    """The family of rules for dense tensors: the first operand is made dense."""

    def dense(A: Tensor, *args: object, **kwargs: object) -> Any:
        return rule(A.to_dense(), *args, **kwargs)

    return dense(*call.args, **call.kwargs)


def by_body(call: Call) -> Any:
    """The result of a composite op without a rule, by the rules of the ops of the body.

    Raises NotImplementedInWend for further ops, and for forms in place and with `out=`.
    """
    primitive = getattr(call.func, "primitive", None)
    composite = primitive is not None and issubclass(primitive, Composite)
    if call.in_place or call.out is not None or not composite:
        raise NotImplementedInWend(
            f"{call.name}: not available for sparse tensors; make them dense with to_dense()"
        )
    prim, tensors, values, _ = call.func.binder.bind(call.args, call.kwargs)
    return prim.call_body(tensors, values)


def written(call: Call, target: Any, result: Any) -> Tensor:
    """Give a tensor the result of an op, as the form in place and `out=` do."""
    name, both = call.name, isinstance(target, SparseTensor) and isinstance(result, SparseTensor)
    if target is call.out:
        if both:
            return target.become(name, result)
        write_out(name, target, result)
        return target
    if isinstance(target, SparseTensor):
        if not both or tuple(result.shape) != tuple(target.shape):
            raise GraphError(f"{name}: the result does not fit the sparse tensor")
        return target.become(name, result)
    if isinstance(result, SparseTensor):
        result = result.to_dense()
    check_writable(target, name)
    assign(target, result if result.dtype is target.dtype else ops.cast(result, target.dtype))
    return target
