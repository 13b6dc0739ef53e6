"""The rules of ops on tensors of float8.

moved     elements move or are picked: on the bytes
joined    several tensors of a type become a single tensor
written   numbers are converted and written over elements
compared  by the numbers
"""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import NAMES, AbsentDType, DType, float32
from wend._engine.base.errors import DTypeError
from wend._frontend.components import Call
from wend._frontend.creation import full_like, ones_like, zeros_like
from wend._frontend.float8.tensor import TABLE, Float8Tensor, cast, of_bits, view_of_bits
from wend._frontend.toolkit import Tensor, ops

MOVED = (
    "__getitem__ chunk contiguous clone detach alias expand expand_as flatten movedim narrow "
    "permute repeat reshape select split squeeze swapaxes t transpose unbind unflatten unsqueeze "
    "view_as index_select roll"
).split()
QUERIES = (
    "__len__ __hash__ __delete__ size dim ndimension numel nelement stride storage_offset "
    "is_contiguous is_same_size element_size get_device is_floating_point is_complex is_signed "
    "is_inference is_shared data_ptr cpu"
).split()


def _operand(call: Call) -> Float8Tensor:
    x = call.args[0] if call.args else call.kwargs["input"]
    if not isinstance(x, Float8Tensor):
        raise DTypeError(f"{call.name}: the first operand is of {x.dtype}, and another of float8")
    return x


def moved(call: Call, rule: None) -> Any:
    """The op on the bytes, and on the tensor that was converted."""
    x = _operand(call)

    def move(part: Tensor) -> Any:
        keywords = {k: part if v is x else v for k, v in call.kwargs.items()}
        return call.func(*[part if v is x else v for v in call.args], **keywords)

    bits = move(x._bits)
    source = None if x._source is None else move(x._source)
    if isinstance(bits, Tensor):
        return of_bits(bits, x.dtype, source)
    sources = [None] * len(bits) if source is None else source
    return type(bits)(of_bits(b, x.dtype, s) for b, s in zip(bits, sources, strict=True))


def joined(call: Call, rule: Any) -> Any:
    """All bytes joined. Raises DTypeError for tensors of several types."""
    tensors, *rest = call.args
    return joined_by(lambda parts: call.func(parts, *rest, **call.kwargs), call.name, tensors)


def joined_by(join: Any, name: str, tensors: Any) -> Float8Tensor:
    """The tensor of the bytes that join(list of tensors) makes, and its history."""
    if len({str(getattr(x, "dtype", None)) for x in tensors}) > 1:
        raise DTypeError(f"{name}: tensors of several types, of which some are of float8")
    sources = [x._source for x in tensors]
    source = None
    if any(s is not None for s in sources):
        floats = [s for s in sources if s is not None]
        parts = [x.decoded() if s is None else s for x, s in zip(tensors, sources, strict=True)]
        source = join([ops.cast(part, floats[0].dtype) for part in parts])
    return of_bits(join([x._bits for x in tensors]), tensors[0].dtype, source)


def attribute(call: Call, rule: None) -> Any:
    """An attribute; a tensor, as `x.T`, is of the same type."""
    value = call()
    if not isinstance(value, Tensor) or isinstance(value, Float8Tensor):
        return value
    x = _operand(call)
    source = None if x._source is None else call.func(x._source)
    return of_bits(call.func(x._bits), x.dtype, source)


def asked(call: Call, rule: None) -> Any:
    """Asked for something else than a tensor."""
    return call()


def numbers(call: Call, rule: None) -> Any:
    """The op on the numbers: results are no tensors of float8."""

    def of(x: Any) -> Any:
        return x.decoded() if isinstance(x, Float8Tensor) else x

    return call.func(*map(of, call.args), **{k: of(v) for k, v in call.kwargs.items()})


def _where(condition: Tensor, input: Any, other: Any) -> Float8Tensor:
    return joined_by(lambda parts: ops.where(condition, *parts), "where", [input, other])


def _copy(target: Any, source: Any, non_blocking: bool = False) -> Any:
    if isinstance(target, Float8Tensor):
        return target.write(source)
    return target.copy_(source.decoded())


def _fill(target: Float8Tensor, value: Any = 0) -> Float8Tensor:
    return target.write(value)


def _set(target: Float8Tensor, key: Any, value: Any) -> None:
    part = of_bits(target._bits[key], target.dtype)
    target._bits[key] = cast(value, part.dtype)._bits.expand(part.shape)


def _view(x: Float8Tensor, *shape: Any, **keywords: Any) -> Any:
    asked_type = shape[0] if shape else keywords.get("dtype")
    if isinstance(asked_type, DType):
        return x._bits.view(asked_type)
    if isinstance(asked_type, AbsentDType):
        return view_of_bits(x._bits, asked_type)
    return x.with_bits(lambda part: part.view(*shape, **keywords))


def _to_type(dtype: Any) -> Any:
    def convert(x: Float8Tensor, memory_format: Any = None) -> Any:
        return x.decoded(dtype)

    return convert


def _type(x: Float8Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    if dtype is None:
        return f"torch.{x.dtype.name.capitalize()}Tensor"
    return x.to(dtype)


def _same_kind(make: Any) -> Any:
    """zeros_like and the like: of the same type, or of the type that is asked for."""

    def like(x: Float8Tensor, *value: Any, **keywords: Any) -> Any:
        dtype = keywords.pop("dtype", None) or x.dtype
        output = make(x._bits, *value, dtype=float32, **keywords)
        return output.to(dtype)

    return like


def _called(call: Call, rule: Any) -> Any:
    return rule(*call.args, **call.kwargs)


TABLE.family(moved, MOVED)
TABLE.family(joined, ("cat", "stack"))
TABLE.family(asked, QUERIES)
TABLE.family(attribute, ["__get__"])
TABLE.family(
    numbers,
    "eq ne isnan tolist item __bool__ __float__ __int__".split(),
)
TABLE.family(
    _called,
    {
        "abs": lambda x: cast(x.decoded().abs(), x.dtype),
        "cast": lambda x, dtype: x.to(dtype),
        "where": _where,
        "copy_": _copy,
        "fill_": _fill,
        "zero_": _fill,
        "__setitem__": _set,
        "view": _view,
        "type": _type,
        "type_": _type,
        "type_as": lambda x, other: x.to(other),
        **{
            name: _to_type(NAMES[dtype])
            for name, dtype in {
                "float": "float32", "double": "float64", "half": "float16",
                "bfloat16": "bfloat16", "int": "int32", "long": "int64", "short": "int16",
                "char": "int8", "byte": "uint8", "bool": "bool",
            }.items()
        },
        "empty_like": _same_kind(zeros_like),
        "zeros_like": _same_kind(zeros_like),
        "ones_like": _same_kind(ones_like),
        "full_like": _same_kind(full_like),
    },
)  # fmt: skip
