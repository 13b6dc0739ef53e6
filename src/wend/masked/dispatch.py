"""Ops on masked tensors: results are computed on the data; the kind of the op says their mask."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._frontend.methods import DisableTorchFunctionSubclass
from wend._frontend.toolkit import Tensor, ones_like, ops
from wend.masked import reductions, scans
from wend.masked.tensor import _ASKED, MaskedTensor, as_masked_tensor, wrapped

__all__ = ["dispatch"]

#: Functions of an element: the mask stays.
UNARY = frozenset(
    """abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh conj
    arctanh bitwise_not ceil clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp
    exp2 expm1 fix floor frac lgamma log log10 log1p log2 logit i0 isnan nan_to_num neg negative
    positive pow rad2deg reciprocal round rsqrt sigmoid sign sgn signbit sin sinc sinh sqrt square
    tan tanh trunc __pos__ __invert__ __neg__ __abs__ __pow__""".split()
)
#: Functions of two elements: masks must be equal.
BINARY = frozenset(
    """add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift
    div divide floor_divide fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract
    rsub true_divide eq ne le ge greater greater_equal gt less_equal lt less maximum minimum fmax
    fmin not_equal""".split()
)
#: Moves of elements: the mask is moved as the data is.
MOVED = frozenset(
    """__getitem__ cat chunk concat concatenate col2im im2col diagonal expand expand_as flatten flip
    gather hstack index_select movedim moveaxis narrow permute repeat reshape reshape_as select
    split squeeze stack swapaxes swapdims t take_along_dim tile transpose unbind unflatten unfold
    unsqueeze view view_as vstack roll""".split()
)
#: The mask stays, and the op makes or copies the data.
KEPT = frozenset(
    """alias clone contiguous detach to type type_as double float half long int short char bool
    requires_grad_ detach_ ones_like zeros_like full_like rand_like randn_like empty_like cpu
    """.split()
)
#: Asked for something else than a tensor, or about gradients.
QUERIES = frozenset(
    """__len__ __format__ __hash__ __set__ __delete__ size dim ndimension numel nelement stride
    storage_offset is_contiguous is_same_size element_size get_device backward register_hook
    retain_grad is_floating_point is_complex is_signed is_inference is_shared data_ptr
    untyped_storage register_post_accumulate_grad_hook""".split()
)

Rule = Callable[..., Any]


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of an op of which some operands have a mask.

    Raises ArgumentTypeError for an op that nothing is known of, and ArgumentError for two masks.
    """
    name = getattr(func, "__name__", str(func))
    base = name[:-1] if name[-1:] == "_" and name[-2:] != "__" else name
    with DisableTorchFunctionSubclass():
        if name in RULES:
            return RULES[name](*args, **kwargs)
        if base in REDUCTIONS:
            return _reduced(base, *args, **kwargs)
        if name in QUERIES:
            return func(*args, **kwargs)
        if name == "__get__":
            return _attribute(func, args, kwargs)
        if name in KEPT:
            made = func(*args, **kwargs)
            return made if made is args[0] else wrapped(made, args[0]._masked_mask)
        if base in UNARY or base in BINARY:
            return _elementwise(name, func, args, kwargs, base != name)
        if name in MOVED:
            return _moved(func, args, kwargs)
    raise ArgumentTypeError(
        f"{name} is not implemented for MaskedTensor; use get_data(), to_tensor(value), or a "
        "function of torch.masked with a mask"
    )


def _mask_of(x: Any) -> Tensor | None:
    return x._masked_mask if isinstance(x, MaskedTensor) else None


def _attribute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An attribute; a tensor, as `x.T`, has the mask with the same attribute asked."""
    found = func(*args, **kwargs)
    if isinstance(found, Tensor):
        return wrapped(found, func(args[0]._masked_mask))
    return found


# -- elementwise ----------------------------------------------------------------------------


def _elementwise(
    name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], in_place: bool
) -> Any:
    """Ops of elements; further tensors among the arguments must be second operands.

    Raises ArgumentError for masks that differ, ArgumentTypeError for a result that is given.
    """
    operands = [x for x in args if isinstance(x, Tensor)]
    if kwargs.get("out") is not None:
        raise ArgumentTypeError(f"{name}: a MaskedTensor is made anew; leave out= away")
    masks = [m for m in map(_mask_of, operands) if m is not None]
    if not masks or (in_place and _mask_of(args[0]) is None):
        raise ArgumentTypeError(f"{name}: the first operand must be a MaskedTensor")
    if any(not _equal(masks[0], m) for m in masks[1:]):
        raise ArgumentError(f"{name}: Input masks must match; set both to a common mask")
    made = func(*args, **kwargs)
    if in_place:
        return made
    mask = masks[0]
    return wrapped(made, mask if mask.shape == made.shape else mask.expand(made.shape))


def _equal(a: Tensor, b: Tensor) -> bool:
    if a is b:
        return True
    return a.dim() == b.dim() and bool(ops.eq(a, b).all())


# -- moves ----------------------------------------------------------------------------------


def _moved(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The op on the data and on the masks. A plain tensor beside masked ones in a list counts.

    Indices are passed on as given.
    """
    data = func(*args, **kwargs)
    masks = func(*[_masks(a) for a in args], **_masks(kwargs))
    if isinstance(data, Tensor):
        return wrapped(data, masks)
    return type(data)(wrapped(d, m) for d, m in zip(data, masks, strict=True))


def _masks(given: Any) -> Any:
    """Arguments with masks in the place of masked tensors, also inside of lists of tensors."""
    if isinstance(given, MaskedTensor):
        return given._masked_mask
    if isinstance(given, dict):
        return {key: _masks(value) for key, value in given.items()}
    if isinstance(given, (list, tuple)) and type(given) in (list, tuple):
        if any(isinstance(x, MaskedTensor) for x in given):
            of_tensors = all(isinstance(x, Tensor) for x in given)
            return type(given)(
                _masks(x) if not of_tensors or isinstance(x, MaskedTensor) else _all(x)
                for x in given
            )
        return type(given)(_masks(x) for x in given)
    return given


def _all(x: Tensor) -> Tensor:
    return ones_like(x, dtype=ops.eq(x, x).dtype)


# -- reductions -----------------------------------------------------------------------------


def _all_true(input: Tensor, dim: Any = None, *, keepdim: bool = False, mask: Tensor) -> Tensor:
    """Whether all elements that count are true."""
    x = ops.where(mask, input.bool(), True)
    return ops.all(x) if dim is None else ops.all(x, dim, keepdim)  # type: ignore[no-any-return]


REDUCTIONS: dict[str, Rule] = {
    name: getattr(reductions, name)
    for name in "sum mean amin amax argmin argmax prod var std".split()
} | {"all": _all_true}


def _norm(
    input: MaskedTensor, p: Any = 2.0, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> MaskedTensor:
    """The norm of the elements that count, with the arguments of `Tensor.norm`."""
    mask = input._masked_mask
    order = 2.0 if p in (None, "fro") else float(p)
    made = reductions.norm(input.get_data(), order, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return as_masked_tensor(made, _left(mask, dim, keepdim))


def _left(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Where a reduction has elements that count."""
    axes = tuple(range(mask.dim())) if dim is None else dim
    return ops.any(mask, axes, keepdim) if mask.dim() else mask  # type: ignore[no-any-return]


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
    made = REDUCTIONS[name](input.get_data(), dim=dim, keepdim=keepdim, mask=mask, **more)
    return as_masked_tensor(made, _left(mask, dim, keepdim))


# -- rules of single ops --------------------------------------------------------------------


def _where(condition: Tensor, input: Any, other: Any) -> MaskedTensor:
    """Data and mask, each from the first or the second operand. Numbers and tensors count."""
    operands = [x.get_data() if isinstance(x, MaskedTensor) else x for x in (input, other)]
    masks = [True if _mask_of(x) is None else _mask_of(x) for x in (input, other)]
    made = ops.where(condition, *operands)
    mask = ops.where(condition, *masks)
    return wrapped(made, mask.expand(made.shape))


def _where_method(self: Any, condition: Tensor, other: Any) -> MaskedTensor:
    return _where(condition, self, other)


def _softmax(input: MaskedTensor, dim: int, dtype: Any = None, **more: Any) -> MaskedTensor:
    """The softmax over the elements that count."""
    mask = input._masked_mask
    return wrapped(scans.softmax(input.get_data(), dim, dtype=dtype, mask=mask), mask)


def _copy(self: MaskedTensor, src: Any, non_blocking: bool = False) -> MaskedTensor:
    """The data of a tensor with an equal mask, in place."""
    theirs = _mask_of(src)
    if theirs is not None and not _equal(self._masked_mask, theirs):
        raise ArgumentError("copy_: args[0] mask and args[1] mask must match but do not")
    Tensor.copy_(self, src)
    return self


def _item(self: MaskedTensor) -> Any:
    """The only element. Raises ArgumentError if the element does not count."""
    found = self.get_data().item()
    if not self._masked_mask.all():
        raise ArgumentError("item: the element of this MaskedTensor is masked out")
    return found


def _number(kind: Callable[[Any], Any]) -> Rule:
    """The only element as a number of Python's."""

    def rule(self: MaskedTensor) -> Any:
        return kind(_item(self))

    return rule


RULES: dict[str, Rule] = {
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
}

_ASKED.append(dispatch)
