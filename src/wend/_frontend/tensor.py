"""The Python half of Tensor: upward calls of the core, and methods that are not ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from wend._engine.base import config, dtypes
from wend._engine.base.devices import CPU, usable
from wend._engine.base.errors import (
    AmbiguousError,
    ArgumentTypeError,
    DataRefused,
    DeviceError,
    DTypeError,
    GraphError,
    WendError,
)
from wend._engine.base.shapes import normalize_dim
from wend._engine.core import _hot, _indexing, _types
from wend._engine.core._hot import OpFunction, Tensor, Trace, Value
from wend._engine.core._types import Mode
from wend._engine.core.primitive import ops
from wend._engine.core.provenance import current_site, module_path, one_site, surface
from wend._engine.core.signature import weak_number
from wend._engine.core.symbolic import SymInt, SymNumber
from wend._engine.core.whole import one_at_a_time
from wend._engine.ops.indexing import keys as indexing
from wend._engine.ops.indexing import subscript
from wend._engine.runtime import flush as _plans  # noqa: F401  (fills the core's slots)
from wend._frontend import creation
from wend._frontend.aliasing import rebinding as aliasing
from wend._frontend.aliasing.versions import count_write, keep_count, leave_memory
from wend._frontend.batching import flush_points as _rhythm  # noqa: F401  (fills a slot of the core)
from wend._frontend.interop.memory import common_dtype, is_array
from wend._frontend.strides import may_repeat, repeats

# -- modes ----------------------------------------------------------------------------------


def default_mode() -> Mode:
    """The mode of a new trace."""
    return _types.intern_mode(
        True, False, None, dtypes.get_default_dtype(), config.settings.deterministic, False
    )


def default_eager() -> bool:
    """Whether new traces compute after each op."""
    return config.settings.eager


# -- reading values -------------------------------------------------------------------------


def array_of(x: Tensor) -> Any:
    """The NumPy array behind a tensor, computed if pending.  Not to be written to."""
    return _hot.ensure(_hot.refreshed(x))


def unavailable(value: Value) -> None:
    """Raise why a value cannot be had."""
    if value.error is not None:
        if getattr(value.error, "fill", None) is not None and value.error.fill(value):
            return  # a constant of a function that is being explored
        anew = getattr(value.error, "anew", None)  # an error that names the line that asks
        error = value.error if anew is None else anew()
        error.__traceback__ = None  # that of an earlier use
        surface(error)
        raise error
    raise GraphError("a value was lost: it was not computed when its trace was flushed")


def _one_element(x: Tensor, what: str) -> Any:
    array = array_of(x)
    if array.size != 1:
        raise AmbiguousError(
            f"{what}: a Tensor with {array.size} elements cannot be converted to a scalar"
        )
    return array.item()


def _explores(x: Tensor) -> bool:
    """Whether a tensor is made by the function that is being explored, and has no data."""
    explores = getattr(_hot.current_trace().symbolic, "explores", None)
    return explores is not None and explores(x)


def _explored(x: Tensor) -> Any:
    """The run of the function that is being explored, for a one-element tensor that it made."""
    return _hot.current_trace().symbolic if _explores(x) and x.numel() == 1 else None


def item(self: Tensor) -> Any:
    """The value of a tensor with a single element, as a Python number.  Raises RuntimeError."""
    explored = _explored(self)
    if explored is not None:
        return explored.number(self)
    try:
        number = _one_element(self, "item")
    except WendError as error:
        error.shorten()
        raise
    return float(number) if self.dtype.category == 2 else number


def to_bool(x: Tensor) -> bool:
    """Truth of a one-element tensor."""
    explored = _explored(x)
    if explored is not None:
        return bool(explored.truth(x))
    array = _hot.ensure(_hot.refreshed(x))
    if array.size != 1:
        word = "no values" if array.size == 0 else "more than one value"
        raise AmbiguousError(f"bool: Boolean value of Tensor with {word} is ambiguous")
    return bool(array.item())


def to_int(x: Tensor) -> int:
    """A tensor with a single element, as an int."""
    explored = _explored(x)
    if explored is not None:
        explored.convert("int")
    return int(_one_element(x, "int"))


def to_float(x: Tensor) -> float:
    """A tensor with a single element, as a float."""
    explored = _explored(x)
    if explored is not None:
        explored.convert("float")
    return float(_one_element(x, "float"))


def to_index(x: Tensor) -> int:
    """A one-element integer tensor as an index."""
    if x.dtype.category > 1 or x.numel() != 1:
        raise ArgumentTypeError(
            "index: only integer tensors of a single element can be converted to an index"
        )
    return int(_one_element(x, "index"))


def length(x: Tensor) -> int:
    """Extent of the first dim."""
    if x.dim() == 0:
        raise ArgumentTypeError("len() of a 0-d tensor")
    return int(x.shape[0])


def iterate(x: Tensor) -> Iterator[Tensor]:
    """The parts along the first dim."""
    if x.dim() == 0:
        raise ArgumentTypeError("iteration over a 0-d tensor")
    trace = _hot.current_trace()
    if getattr(trace.symbolic, "keeps_loops", False):
        return trace.symbolic.parts(x)
    if trace.site_code is not None or type(x) is not Tensor:
        return iter(ops.unbind(x, 0))
    with one_site(trace):
        return iter(ops.unbind(x, 0))


def contains(x: Tensor, element: object) -> bool:
    """Whether any element equals `element`."""
    if not isinstance(element, (Tensor, bool, int, float, complex)):
        raise DataRefused(
            f"contains: Tensor.__contains__ only supports Tensor or scalar, "
            f"but you passed in a {type(element)}"
        )
    return bool(array_of((x == element).any()))


def size_of_dim(x: Tensor, dim: Any) -> int:
    """Extent of a dim; raises DimError."""
    return int(x.shape[normalize_dim(dim, x.dim(), "size")])


# -- operators and overrides ----------------------------------------------------------------


_BITWISE = frozenset(("__and__", "__or__", "__xor__", "__iand__", "__ior__", "__ixor__"))


def operator(name: str, function: Callable[..., Any], x: Tensor, y: Any, swap: bool) -> Any:
    """A binary operator whose right side is neither Tensor, float nor int."""
    if isinstance(y, (bool, int, float, complex, SymInt, SymNumber)):
        return function(y, x) if swap else function(x, y)
    if type(y).__module__ == "numpy" and hasattr(y, "dtype"):
        if is_array(y):  # NumPy's rules, in which an array of no dims is as strong as any array
            dtype = common_dtype(x.dtype, y)
            x = x if name.startswith("__i") else ops.cast(x, dtype)
            y = creation.as_tensor(y, dtype=dtype)
        else:  # NumPy's numbers are as weak as Python's
            number = y.item()
            bits = type(number) is bool and name in _BITWISE  # which PyTorch refuses
            y = number if bits else weak_number(number)
            if y is None:
                return NotImplemented
        return function(y, x) if swap else function(x, y)
    if hasattr(type(y), "__torch_function__"):
        return function(y, x) if swap else function(x, y)
    if name in ("__eq__", "__ne__") and y is None:
        return name == "__ne__"
    return NotImplemented


def is_plain(cls: type) -> bool:
    """Whether ops on a class's instances give plain tensors: on those of `Tensor` and Parameter.

    Such classes have `disabled_torch_function`.
    """
    override = getattr(cls, "__torch_function__", None)
    return cls is Tensor or getattr(override, "__func__", override) is disabled_torch_function


def disabled_torch_function(
    cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """The `__torch_function__` of classes whose instances ops treat as plain tensors."""
    return func(*args, **(kwargs or {}))


def op_by_name(name: str, inplace: bool) -> OpFunction:
    """For pickling: the op of that name."""
    return getattr(Tensor, name) if inplace else getattr(ops, name)


def strip_device(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Check and drop device=, requires_grad= and other arguments without meaning for an op."""
    kwargs = dict(kwargs)
    usable(kwargs.pop("device"), function.__name__)
    return args, kwargs


def call_out(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`out=`: compute, then rebind the given tensors."""
    kwargs = dict(kwargs)
    out = kwargs.pop("out")
    result = function(*args, **kwargs)
    if out is None:
        return result
    name = function.__name__
    if isinstance(out, Tensor):
        write_out(name, out, result)
        return out
    targets = out if isinstance(out, (tuple, list)) else (out,)
    wrong = next((t for t in targets if not isinstance(t, Tensor)), None)
    if wrong is not None or isinstance(result, Tensor):
        kind = type(out if wrong is None else wrong).__name__
        raise ArgumentTypeError(f"{name}: argument 'out' must be Tensor, not {kind}")
    for target, value in zip(out, result, strict=True):
        write_out(name, target, value)
    return type(result)(out) if not hasattr(result, "_make") else result._make(out)


#: Ops that write to an `out` of the result's own dtype only; PyTorch converts in the others.
_OF_ONE_DTYPE = frozenset(
    """
    abs addbmm addmm addmv alias_copy amax amin aminmax as_strided_copy avg_pool2d avg_pool3d
    baddbmm bmm ceil cholesky cholesky_ex complex conj cross cross_along cummax cummin det diag
    diagonal_copy diff dot eigh eigvalsh expand_copy float_power floor former_lu_solve former_qr
    former_svd frac frexp gather gelu hardshrink heaviside histc histogram ifft ihfft index_add
    index_copy index_reduce index_select inner inv inv_ex kthvalue ldl_factor ldl_factor_ex
    ldl_solve linear log_softmax logcumsumexp logsigmoid lu lu_factor lu_factor_ex lu_solve
    lu_unpack masked_select matmul matrix_norm mm mode msort multi_dot mv nan_to_num nanquantile
    narrow_copy neg norm ormqr permute_copy polar qr quantile renorm round scatter scatter_add
    scatter_reduce sgn sign slice_scatter_of slogdet softmax softplus softshrink solve solve_ex
    solve_triangular sort split_with_sizes_copy squeeze_copy svd svdvals t_copy take
    take_along_dim tensordot topk transpose_copy triangular_solve tril triu trunc unbind_copy
    unfold_copy unsqueeze_copy vdot vecdot vector_norm view_copy
    """.split()
)


def write_out(name: str, out: Tensor, result: Tensor) -> None:
    """Put a result into the tensor given as `out`; `out` is resized to the shape of the result."""
    if _hot.current_trace().mode.grad and (out.requires_grad or result.requires_grad):
        raise GraphError(
            f"{name}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )
    if result.device is not out.device and out.is_cpu is not result.is_cpu:
        raise DeviceError(
            f"{name}: expected all tensors to be on the same device, but found at least two "
            f"devices, {result.device} and {out.device} of the argument 'out'"
        )
    if result.dtype is not out.dtype and name in _OF_ONE_DTYPE:
        raise DTypeError(
            f"{name}: expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead"
        )
    if not dtypes.can_cast(result.dtype, out.dtype):
        raise DTypeError(
            f"{name}: result type {result.dtype} can't be cast to the desired output type "
            f"{out.dtype}"
        )
    if result.dtype is not out.dtype:
        result = ops.cast(result, out.dtype)
    if result.alias is not None:
        result = ops.clone(result)
    if tuple(result.shape) != tuple(out.shape):
        writes = leave_memory(out)
        out.value = result.value
        keep_count(out, writes)
        count_write(out)
        return
    aliasing.check_repeats(out, name)
    aliasing.rebind(out, result.value)


# -- gradients ------------------------------------------------------------------------------


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Make this leaf require grad, or not.  Raises GraphError for a tensor with a history."""
    if not isinstance(requires_grad, bool):
        raise ArgumentTypeError(
            "requires_grad_: argument 'requires_grad' must be bool, not "
            f"{type(requires_grad).__name__}"
        )
    flag = requires_grad
    if _explores(self):
        return self  # the graph's gradients are those of its inputs and parameters
    value = _hot.refreshed(self)
    failed = value.error is not None and not hasattr(value.error, "allows_leaf")
    if flag and value.buffer is None and failed:
        raise value.error
    if self.leaf is None and value.requires_grad:
        if flag:
            return self
        raise GraphError(
            "requires_grad_: you can only change requires_grad flags of leaf variables. If you "
            "want to use a computed variable in a subgraph that doesn't require "
            "differentiation use var_no_grad = var.detach()."
        )
    if flag and value.type.dtype.category < 2:
        raise GraphError(
            "requires_grad_: only Tensors of floating point and complex dtype can require "
            f"gradients, and this one is {value.type.dtype}"
        )
    if flag and value.inference and not _hot.current_trace().mode.inference:
        raise GraphError(
            "requires_grad_: Setting requires_grad=True on inference tensor outside "
            "InferenceMode is not allowed."
        )
    if flag:
        retired = _hot.own_attribute(self, "_retired_leaf")
        if retired is not None:
            del self.__dict__["_retired_leaf"]
        if self.leaf is None:
            if retired is not None:
                retired.requires_grad = True
                self.leaf = retired
            else:
                _hot.make_leaf(self)
            alias = self.alias
            if alias is not None and alias.leaf is not None:
                alias.leaf = self.leaf
    elif self.leaf is not None:
        self.leaf.requires_grad = False
        self.__dict__["_retired_leaf"] = self.leaf
        self.leaf = None
        _hot.refreshed(self)  # its value must not stay that of a variable
    return self


def set_grad(x: Tensor, grad: object) -> None:
    """`x.grad = g`, not None.  Raises ArgumentTypeError or GraphError if g does not fit."""
    if grad is x:
        raise GraphError("grad: can't assign Variable as its own grad")
    if not isinstance(grad, Tensor):
        raise ArgumentTypeError(
            f"grad: assigned grad expected to be a Tensor or None but got {type(grad).__name__}"
        )
    if tuple(grad.shape) != tuple(x.shape):
        raise GraphError(
            f"grad: assigned grad has data of a different size: {tuple(grad.shape)} for a tensor "
            f"of shape {tuple(x.shape)}"
        )
    if grad.dtype is not x.dtype:
        raise GraphError(
            f"grad: assigned grad has data of a different type: {grad.dtype} for {x.dtype}"
        )
    if grad.device is not x.device:
        raise GraphError(
            f"grad: attempting to assign a gradient with device type '{grad.device}' to a tensor "
            f"with device type '{x.device}'"
        )
    x._grad = grad


def module_error(error: BaseException, trace: Trace) -> None:
    """Note the user's line and the module path on an error that passes a module's call."""
    if isinstance(error, WendError) and error.site is None:
        site = current_site()
        if trace.site_code is not None:
            site.code, site.lasti = trace.site_code, trace.site_lasti
        site.module = module_path(trace.modules)
        error.site = site


def setitem(x: Tensor, key: object, value: object) -> None:
    """x[key] = value: an in-place op."""
    if type(value) is not Tensor and isinstance(value, Tensor) and _hot.has_override(value):
        _hot.slot("torch_function")(Tensor.__setitem__, (x, key, value), {})
        return
    try:
        aliasing.check_writable(x, "setitem")
    except GraphError:
        subscript.check_key(x, key)  # an index that does not fit is the first fault, as in PyTorch
        raise
    with one_at_a_time():
        if may_repeat(x.alias) and repeats(x) and _set_part(x, key, value):
            return
        result = subscript.setitem(x, key, value)
        if _hot.current_trace().symbolic is None:
            aliasing.replace(x, result, "setitem")
        else:
            aliasing.assign(x, result, None)


def _set_part(x: Tensor, key: Any, value: object) -> bool:
    """x[key] = value by way of the view x[key], if this is a view: whether that was done."""
    part = x[key]
    if part.alias is None or part.alias.base is not x.alias.base:
        return False
    if isinstance(value, (bool, int, float, complex)):
        aliasing.check_repeats(part, "copy_")
        part.fill_(value)
    else:
        part.copy_(creation.as_tensor(value, dtype=x.dtype))
    return True


def _read_int(x: Tensor) -> int | None:
    """The value of a 0-d index tensor, unless a rule is being traced."""
    return None if _hot.current_trace().symbolic is not None else int(item(x))


_SLOTS = {
    "getitem": subscript.getitem,
    "setitem": setitem,
    "default_mode": default_mode,
    "default_eager": default_eager,
    "default_device": lambda: CPU,
    "unavailable": unavailable,
    "bool": to_bool,
    "int": to_int,
    "float": to_float,
    "complex": lambda x: complex(_one_element(x, "complex")),
    "index": to_index,
    "len": length,
    "iter": iterate,
    "contains": contains,
    "size": size_of_dim,
    "operator": operator,
    "is_plain": is_plain,
    "override_enabled": lambda: True,
    "op_by_name": op_by_name,
    "strip_device": strip_device,
    "call_out": call_out,
    "requires_grad_": requires_grad_,
    "set_grad": set_grad,
    "module_error": module_error,
}
for _name, _function in _SLOTS.items():
    _hot.set_slot(_name, _function)


# -- methods that are not ops ---------------------------------------------------------------


def numel(self: Tensor) -> int:
    """Number of elements."""
    n = 1
    for extent in self.shape:
        n *= extent
    return n


def backward(x: Tensor, gradient: Any, retain: Any, create_graph: bool, inputs: Any) -> None:
    """The call of Tensor.backward where the path is not known yet."""
    from wend._frontend.autograd import backward as autograd

    autograd.backward(x, gradient, retain, create_graph, inputs=inputs)


_hot.set_slot("backward", backward)


def _data(self: Tensor) -> Tensor:
    """The values without history; assigning takes over the values of another tensor."""
    return aliasing.uncounted(ops.detach(self))


def _set_data(self: Tensor, other: Tensor) -> None:
    if not isinstance(other, Tensor):
        raise ArgumentTypeError(f"data: expected a Tensor, not {type(other).__name__}")
    aliasing.share(self, other)


def detach_(self: Tensor) -> Tensor:
    """Cut this tensor from its history."""
    value = _hot.refreshed(self)
    if self.leaf is not None:
        requires_grad_(self, False)
    elif value.requires_grad:
        hidden = aliasing.hidden_base(self)
        if hidden is not None:
            hidden.value = ops.stop_gradient(hidden).value
        elif self.alias is not None and self.alias.base is not None:
            raise GraphError("detach_: can't detach views in-place. Use detach() instead.")
        self.value = ops.stop_gradient(self).value
    return self


_INDEXED_DIMS = range(6)
_indexing.set_index_primitives(
    [ops.select.primitive.of(("T", "I"), dim=d) for d in _INDEXED_DIMS],
    {
        4 * d + 2 * a + b: ops.slice.primitive.of(
            ("T", "I" if a else None, "I" if b else None, "I"), dim=d
        )
        for d in _INDEXED_DIMS
        for a in (0, 1)
        for b in (0, 1)
    },
)
indexing.set_readers(creation.as_tensor, _read_int)
_METHODS = {
    "item": item,
    "numel": numel,
    "nelement": numel,
    "requires_grad_": requires_grad_,
    "detach_": detach_,
    "data": property(_data, _set_data),
}
for _name, _function in _METHODS.items():
    setattr(Tensor, _name, _function)
