"""Which ops autocast computes in which type: PyTorch's lists for the CPU.

While some thread is inside of `autocast`, the ops listed here ask about their operands; at all
other times they are as without it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import wend
from wend._engine.base.dtypes import DType, bfloat16, float16, float32
from wend._engine.core import _hot
from wend._engine.core._hot import OpFunction, Tensor
from wend._engine.core.primitive import ops
from wend._frontend.modes.asking import Asking, ask, asking_ops, leave_alone
from wend.nn import functional as F

#: Computed in the lower type.
LOWER = frozenset(
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc bmm mm "
    "matmul baddbmm addmm addbmm linear linalg.vecdot prelu scaled_dot_product_attention "
    "tensordot chain_matmul linalg.multi_dot matrix_power lstm_step rnn_tanh_step "
    "rnn_relu_step".split()
)
#: Computed in float32.
SINGLE = frozenset(
    "avg_pool3d binary_cross_entropy grid_sample polar prod quantile nanquantile stft cdist trace "
    "view_as_complex cholesky cholesky_inverse cholesky_solve inverse lu_solve orgqr ormqr "
    "pinverse reflection_pad replication_pad max_pool3d max_unpool1d max_unpool2d max_unpool3d "
    "adaptive_avg_pool3d adaptive_max_pool3d "
    "mse_loss cosine_embedding_loss nll_loss hinge_embedding_loss poisson_nll_loss "
    "smooth_l1_loss cross_entropy l1_loss huber_loss margin_ranking_loss soft_margin_loss "
    "triplet_margin_loss multi_margin_loss ctc_loss kl_div multilabel_margin_loss "
    "binary_cross_entropy_with_logits fractional_max_pool2d fractional_max_pool3d "
    "linalg.cholesky linalg.cholesky_ex linalg.cond linalg.eig linalg.eigh linalg.eigvals "
    "linalg.eigvalsh linalg.householder_product linalg.inv linalg.inv_ex linalg.lstsq "
    "linalg.matrix_rank linalg.qr linalg.solve linalg.svd linalg.svdvals linalg.tensorinv "
    "linalg.tensorsolve fft.fft fft.ifft fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.rfft fft.irfft "
    "fft.rfft2 fft.irfft2 fft.rfftn fft.irfftn fft.hfft fft.ihfft qr svd triangular_solve geqrf "
    "fake_quantize_per_tensor_affine".split()
)
#: Computed in the widest type of the operands.
WIDEST = frozenset({"cat", "stack", "index_copy"})


class State(threading.local):
    """A thread's autocast: per device whether it is on, and to which type."""

    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtypes: dict[str, DType] = {"cpu": bfloat16, "xla": bfloat16}
        self.on: frozenset[str] = frozenset()  # the devices that are there and enabled, for the ops
        self.cache_enabled = True
        self.nesting = 0
        self.cache: dict[int, tuple[Any, Any, Any, DType]] = {}


STATE = State()
#: (the lower type, positional arguments, keywords) -> the arguments, converted.
Policy = Callable[[DType, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]


def converted(value: Any, dtype: DType) -> Any:
    """A tensor, or the tensors of a list, in this type, but for float64 and ints."""
    if isinstance(value, Tensor):
        have = value.dtype
        if have is dtype or have not in (float32, bfloat16, float16):
            return value
        if dtype is not float32 and value.leaf is not None and STATE.cache_enabled:
            return _of_cache(value, dtype)
        return ops.cast(value, dtype)
    if type(value) is list or type(value) is tuple:
        return type(value)([converted(v, dtype) for v in value])
    return value


def _of_cache(weight: Tensor, dtype: DType) -> Any:
    """A weight in the lower type, converted once as long as nobody writes to it.

    A conversion that has been computed is not used again: its gradient may have been taken.
    """
    key = id(weight)
    value = _hot.refreshed(weight)
    entry = STATE.cache.get(key)
    if entry is not None:
        kept, source, conversion, to = entry
        usable = conversion.requires_grad or not wend.is_grad_enabled()
        if kept is weight and source is value and to is dtype and usable and _pending(conversion):
            return conversion
    conversion = ops.cast(weight, dtype)
    STATE.cache[key] = (weight, value, conversion, dtype)
    return conversion


def _pending(x: Tensor) -> bool:
    return x.value.buffer is None and x.value.error is None


def _in(dtype: DType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs:
        kwargs = {name: converted(value, dtype) for name, value in kwargs.items()}
    return tuple([converted(a, dtype) for a in args]), kwargs


def _lower(lower: DType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _in(lower, args, kwargs)


def _single(lower: DType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _in(float32, args, kwargs)


def _floats(values: Any) -> set[DType]:
    types: set[DType] = set()
    for value in values:
        if isinstance(value, Tensor):
            types.add(value.dtype)
        elif type(value) is list or type(value) is tuple:
            types |= _floats(value)
    return types & {float32, bfloat16, float16}


def _widest(lower: DType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    types = _floats((*args, *kwargs.values()))
    return _in(float32, args, kwargs) if len(types) > 1 else (args, kwargs)


def _einsum(lower: DType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Lower where the equation sums over a letter that operands share; else no product is due."""
    equation = args[0] if args else kwargs.get("equation")
    if isinstance(equation, str):
        left, _, out = equation.replace(" ", "").partition("->")
        shared = {c for c in left if c.isalpha() and sum(c in t for t in left.split(",")) > 1}
        if "->" in equation and shared <= set(out):
            return args, kwargs
        if not shared:
            return args, kwargs
    return _lower(lower, args, kwargs)


def _inner(lower: DType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Lower unless a scalar is multiplied."""
    numbers = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.dim() == 0]
    return (args, kwargs) if numbers else _lower(lower, args, kwargs)


_POLICIES: tuple[tuple[frozenset[str], Policy], ...] = (
    (LOWER, _lower),
    (SINGLE, _single),
    (WIDEST, _widest),
    (frozenset({"einsum"}), _einsum),
    (frozenset({"inner"}), _inner),
)


# -- ops that ask ---------------------------------------------------------------------------


def _lower_type(values: Any) -> DType | None:
    """The lower type of a call, by the device of the first tensor; None outside of autocast."""
    on = STATE.on
    kind = _kind_of(values) if on else None
    return STATE.dtypes.get(kind, float16) if kind in on and kind is not None else None


def _kind_of(values: Any) -> str | None:
    """The kind of device of the first tensor, also in lists; None if there is no tensor."""
    for value in values:
        if isinstance(value, Tensor):
            return value.device.type
        kind = _kind_of(value) if type(value) is list or type(value) is tuple else None
        if kind is not None:
            return kind
    return None


def _way(policy: Policy) -> Any:
    """The call of an op with converted operands, inside of autocast."""

    def with_converted(op: Asking, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        lower = _lower_type((*args, *kwargs.values()))
        if lower is None:
            return NotImplemented
        args, kwargs = policy(lower, args, kwargs)
        return op.twin(*args, **kwargs)

    return with_converted


def _in_python(function: Callable[..., Any], policy: Policy) -> Callable[..., Any]:
    """A function that Wend composes in Python, as an op that asks."""

    @functools.wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        lower = _lower_type((*args, *kwargs.values()))
        if lower is None:
            return function(*args, **kwargs)
        args, kwargs = policy(lower, args, kwargs)
        before, STATE.on = STATE.on, frozenset()
        try:
            return function(*args, **kwargs)
        finally:
            STATE.on = before

    return asking


class Composed(NamedTuple):
    """A function that Wend composes in Python: where its name lies, and what stands there."""

    place: Any
    name: str
    plain: Callable[..., Any]
    asking: Callable[..., Any]


@functools.cache
def _asking_ops() -> tuple[list[tuple[list[Asking], Any]], list[Composed]]:
    """The ops of each list with their way, and the functions that are composed in Python."""
    lists: list[tuple[list[Asking], Any]] = []
    composed: list[Composed] = []
    for names, policy in _POLICIES:
        functions: list[OpFunction] = []
        for full in sorted(names):
            family, _, name = full.rpartition(".")
            places = [getattr(wend, family, None)] if family else [wend, Tensor, F, ops]
            for place in filter(None, places):
                function = getattr(place, name, None)
                if isinstance(function, OpFunction):
                    functions.append(function)
                elif function is not None:
                    composed.append(Composed(place, name, function, _in_python(function, policy)))
        lists.append((asking_ops(functions), _way(policy)))
    return lists, composed


_LOCK = threading.Lock()
_INSIDE = [0]  # threads that are inside of autocast


def enter(inside: bool) -> None:
    """Count a thread that enters or leaves autocast; the ops ask while there is any."""
    with _LOCK:
        before = _INSIDE[0]
        _INSIDE[0] += 1 if inside else -1
        if (before == 0) is inside:
            lists, composed = _asking_ops()
            for asking, way in lists:
                (ask if inside else leave_alone)(asking, way)
            for one in composed:
                setattr(one.place, one.name, one.asking if inside else one.plain)
