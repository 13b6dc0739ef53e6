"""The rules of ops on masked tensors: results are computed on the data, families say the mask."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._frontend.components import Call, as_called
from wend._frontend.toolkit import Tensor, ones_like, ops
from wend.masked import reductions, scans
from wend.masked.tensor import TABLE, MaskedTensor, as_masked_tensor, wrapped

__all__ = ["BINARY", "TABLE", "UNARY"]

#: Functions of an element: the mask stays.
UNARY = (
    "abs acos acosh angle asin asinh atan atanh conj bitwise_not ceil clamp clip cos cosh deg2rad "
    "digamma erf erfc erfinv exp exp2 expm1 floor frac lgamma log log10 log1p log2 logit i0 isnan "
    "nan_to_num neg positive pow rad2deg reciprocal round rsqrt sigmoid sign sgn signbit sin sinc "
    "sinh sqrt square tan tanh trunc __pos__ __invert__ __neg__ __abs__ __pow__"
).split()
#: Functions of two elements: masks must be equal.
BINARY = (
    "add atan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div "
    "floor_divide fmod logaddexp logaddexp2 mul nextafter remainder sub rsub eq ne le ge gt lt "
    "maximum minimum fmax fmin"
).split()
#: Moves of elements: the mask is moved as the data is.
MOVED = (
    "__getitem__ cat chunk col2im im2col diagonal expand expand_as flatten flip gather hstack "
    "index_select movedim narrow permute repeat reshape reshape_as select split squeeze stack "
    "swapaxes t take_along_dim tile transpose unbind unflatten unfold unsqueeze view "
    "view_as vstack roll"
).split()
#: The mask stays, and the op makes or copies the data.
KEPT = (
    "alias clone contiguous detach to type type_as double float half long int short char bool "
    "requires_grad_ detach_ ones_like zeros_like full_like rand_like randn_like empty_like cpu"
).split()
#: Asked for something else than a tensor, or about gradients.
QUERIES = (
    "__len__ __format__ __hash__ __set__ __delete__ size dim ndimension numel stride "
    "storage_offset is_contiguous is_same_size element_size get_device backward register_hook "
    "retain_grad is_floating_point is_complex is_signed is_inference is_shared data_ptr "
    "untyped_storage register_post_accumulate_grad_hook"
).split()


# -- families -------------------------------------------------------------------------------


def attribute(call: Call, rule: None) -> Any:
    """An attribute; a tensor, as `x.T`, has the mask with the same attribute asked."""
    value = call()
    if isinstance(value, Tensor):
        return wrapped(value, call.func(call.args[0]._masked_mask))
    return value


def kept(call: Call, rule: None) -> Any:
    """The result has the mask of the operand."""
    result = call()
    x = call.args[0]
    return result if result is x else wrapped(result, x._masked_mask)


def elementwise(call: Call, rule: None) -> Any:
    """Ops of elements; further tensors among the arguments must be second operands.

    Raises ArgumentError for masks that differ, ArgumentTypeError for `out=`.
    """
    if call.kwargs.get("out") is not None:
        raise ArgumentTypeError(f"{call.name}: a MaskedTensor is made anew; leave out= away")
    masks = [x._masked_mask for x in call.args if isinstance(x, MaskedTensor)]
    if not masks or (call.in_place and not isinstance(call.args[0], MaskedTensor)):
        raise ArgumentTypeError(f"{call.name}: the first operand must be a MaskedTensor")
    if not all(_equal(masks[0], mask) for mask in masks[1:]):
        raise ArgumentError(f"{call.name}: Input masks must match; set both to a common mask")
    result = call()
    if call.in_place:
        return result
    mask = masks[0]
    return wrapped(result, mask if mask.shape == result.shape else mask.expand(result.shape))


def _equal(a: Tensor, b: Tensor) -> bool:
    if a is b:
        return True
    return a.dim() == b.dim() and bool(ops.eq(a, b).all())


def moved(call: Call, rule: None) -> Any:
    """The op on the data and on the masks. A plain tensor beside masked ones in a list counts.

    Indices are passed on as given.
    """
    data = call()
    masks = call.func(*map(_masks, call.args), **_masks(call.kwargs))
    if isinstance(data, Tensor):
        return wrapped(data, masks)
    return type(data)(wrapped(d, m) for d, m in zip(data, masks, strict=True))


def _masks(value: Any) -> Any:
    """Arguments with masks in the place of masked tensors, also inside of lists of tensors."""
    if isinstance(value, MaskedTensor):
        return value._masked_mask
    if isinstance(value, dict):
        return {key: _masks(x) for key, x in value.items()}
    if type(value) not in (list, tuple):
        return value
    if any(isinstance(x, MaskedTensor) for x in value) and all(
        isinstance(x, Tensor) for x in value
    ):
        return type(value)(_masks(x) if isinstance(x, MaskedTensor) else _all(x) for x in value)
    return type(value)(_masks(x) for x in value)


def _all(x: Tensor) -> Tensor:
    return ones_like(x, dtype=ops.eq(x, x).dtype)


def reduced(call: Call, rule: Callable[..., Tensor]) -> MaskedTensor:
    """A reduction over the elements that count."""
    return _reduced(call.base, *call.args, **call.kwargs)


def _reduced(
    name: str, input: MaskedTensor, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> MaskedTensor:
    """A reduction over the elements that count; a result of none of these does not count."""
    mask = input._masked_mask
    if not isinstance(dim, (int, tuple, list, type(None))) or isinstance(dim, bool):
        raise ArgumentTypeError(
            f"{name}: of a MaskedTensor takes dim, keepdim and dtype; use torch.masked.{name}"
        )
    more = {} if dtype is None else {"dtype": dtype}
    result = REDUCTIONS[name](input.get_data(), dim=dim, keepdim=keepdim, mask=mask, **more)
    return as_masked_tensor(result, _left(mask, dim, keepdim))


def _left(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Where a reduction has elements that count."""
    axes = tuple(range(mask.dim())) if dim is None else dim
    return ops.any(mask, axes, keepdim) if mask.dim() else mask  # type: ignore[no-any-return]


# -- rules of single ops --------------------------------------------------------------------


def _all_true(input: Tensor, dim: Any = None, *, keepdim: bool = False, mask: Tensor) -> Tensor:
    """Whether all elements that count are true."""
    x = ops.where(mask, input.bool(), True)
    return ops.all(x) if dim is None else ops.all(x, dim, keepdim)  # type: ignore[no-any-return]


def _norm(
    input: MaskedTensor, p: Any = 2.0, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> MaskedTensor:
    """The norm of the elements that count, with the arguments of `Tensor.norm`."""
    mask = input._masked_mask
    order = 2.0 if p in (None, "fro") else float(p)
    size = reductions.norm(input.get_data(), order, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return as_masked_tensor(size, _left(mask, dim, keepdim))


def _where(condition: Tensor, input: Any, other: Any) -> MaskedTensor:
    """Data and mask, each from the first or the second operand. Numbers and tensors count."""
    pair = (input, other)
    operands = [x.get_data() if isinstance(x, MaskedTensor) else x for x in pair]
    masks = [x._masked_mask if isinstance(x, MaskedTensor) else True for x in pair]
    chosen = ops.where(condition, *operands)
    return wrapped(chosen, ops.where(condition, *masks).expand(chosen.shape))


def _where_method(self: Any, condition: Tensor, other: Any) -> MaskedTensor:
    return _where(condition, self, other)


def _softmax(input: MaskedTensor, dim: int, dtype: Any = None, **more: Any) -> MaskedTensor:
    """The softmax over the elements that count."""
    mask = input._masked_mask
    return wrapped(scans.softmax(input.get_data(), dim, dtype=dtype, mask=mask), mask)


def _copy(self: MaskedTensor, src: Any, non_blocking: bool = False) -> MaskedTensor:
    """The data of a tensor with an equal mask, in place."""
    if isinstance(src, MaskedTensor) and not _equal(self._masked_mask, src._masked_mask):
        raise ArgumentError("copy_: args[0] mask and args[1] mask must match but do not")
    Tensor.copy_(self, src)
    return self


def _item(self: MaskedTensor) -> Any:
    """The only element. Raises ArgumentError if the element does not count."""
    number = self.get_data().item()
    if not self._masked_mask.all():
        raise ArgumentError("item: the element of this MaskedTensor is masked out")
    return number


def _number(kind: Callable[[Any], Any]) -> Callable[[MaskedTensor], Any]:
    """The only element as a number of Python's."""

    def rule(self: MaskedTensor) -> Any:
        return kind(_item(self))

    return rule


# -- the table ------------------------------------------------------------------------------

REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    name: getattr(reductions, name)
    for name in "sum mean amin amax argmin argmax prod var std".split()
} | {"all": _all_true}

TABLE.family(elementwise, UNARY + BINARY, in_place=True)
TABLE.family(moved, MOVED)
TABLE.family(kept, KEPT)
TABLE.family(attribute, ["__get__"])
TABLE.family(lambda call, rule: call(), QUERIES)
TABLE.family(reduced, REDUCTIONS)
TABLE.family(
    as_called,
    {
        "where": _where,
        "where_method": _where_method,
        "softmax": _softmax,
        "copy_": _copy,
        "norm": _norm,
        "item": _item,
        "__bool__": _number(bool),
        "__complex__": _number(complex),
        "__float__": _number(float),
        "__index__": _number(operator.index),
        "__int__": _number(int),
    },
)
