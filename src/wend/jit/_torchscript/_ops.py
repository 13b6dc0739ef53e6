"""The list of ops that archives may call, by PyTorch's names.

A name leads to an adapter, or to a function of the same name: an op of the engine's registry, or a
function of the lists below. Nothing else of Wend's can be reached from an archive.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import wend.nn.functional as F
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentTypeError, WendError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend.jit._torchscript._adapters import ADAPTERS, PRIM
from wend.jit._torchscript._scalars import NUMBER_OPS, SCALARS
from wend.jit._torchscript._values import Number0d, as_tensors, dtype_number, dtype_of

__all__ = ["find_op"]

Function = Callable[..., Any]
T: Any = importlib.import_module(__name__.partition(".")[0])

#: Functions of `torch` that are no single op, and are safe to call with any values.
FUNCTIONS = frozenset(
    """
    adjoint allclose alpha_dropout alpha_dropout_ arange argwhere as_strided as_strided_scatter
    as_tensor atleast_2d atleast_3d bartlett_window batch_norm bernoulli binary_cross_entropy
    binary_cross_entropy_with_logits bincount blackman_window broadcast_tensors can_cast cholesky
    chunk combinations conj conv_tbc cosine_embedding_loss cross ctc_loss cumulative_trapezoid
    detach_ dropout dropout_ dsplit embedding_bag empty empty_like empty_permuted empty_strided
    equal eye feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_ fill
    fill_ frobenius_norm full full_like grid_sampler grid_sampler_2d grid_sampler_3d gru
    hamming_window hann_window hinge_embedding_loss histogram hsplit imag instance_norm inverse
    is_complex is_conj is_distributed is_floating_point is_inference is_neg is_same_size is_signed
    isin istft kaiser_window kl_div linspace logspace lstm lu_solve lu_unpack margin_ranking_loss
    masked_select matrix_exp multinomial nanquantile nonzero norm_except_dim normal nuclear_norm
    ones ones_like orgqr pdist pinverse poisson poisson_nll_loss positive promote_types qr quantile
    rand rand_like randint randint_like randn randn_like randperm range real repeat_interleave
    resolve_conj resolve_neg result_type rnn_relu rnn_tanh selu_ celu_ slogdet split
    split_with_sizes svd tensor tensor_split trapezoid trapz triangular_solve tril_indices
    triplet_margin_loss triu_indices unsafe_chunk unsafe_split unsafe_split_with_sizes vander
    view_as_complex view_as_real vsplit zero_ zeros zeros_like threshold_
    """.split()
)
METHODS = frozenset(
    """
    copy_ fill_diagonal_ new_empty new_full new_ones new_zeros polygamma_ random_ reshape_as
    sum_to_size to_dense view_as is_contiguous masked_fill_ index_add_ scatter_ add_ addcdiv_
    addcmul_ div_ divide_ pow_ sub_ subtract_ true_divide_ bool_ geometric_ cauchy_ log_normal_
    is_set_to
    """.split()
)
LAYERS = frozenset(
    """
    adaptive_avg_pool2d adaptive_avg_pool3d gelu glu hardsigmoid hardswish hardtanh leaky_relu
    linear mish relu6 silu softplus softshrink
    """.split()
)
#: Packages whose ops have a prefix: `linalg_norm` is `torch.linalg.norm`.
PACKAGES = {"linalg": "linalg", "special": "special", "fft": "fft"}
#: Results that are lists in an archive, tuples in Python.
LISTS = frozenset(
    "chunk split split_with_sizes tensor_split unsafe_chunk unsafe_split unsafe_split_with_sizes "
    "hsplit vsplit dsplit gradient broadcast_tensors".split()
)
#: Arguments that say how a tensor lies in memory, which Wend decides.
IGNORED = frozenset("layout pin_memory memory_format non_blocking implicit cudnn_enable".split())


@functools.cache
def find_op(name: str, version: int = 10) -> Function | None:
    """The function of an op such as `aten::add`; None for an op that Wend does not have.

    version: of the archive
    """
    namespace, _, op = name.partition("::")
    changed, former = FORMER.get(name, (0, None))
    if version < changed and former is not None:
        current = find_op(name)
        return functools.partial(former, current)
    if namespace == "prim" and op in PRIM:
        return _prim(PRIM[op])
    if namespace != "aten":
        return None
    if op in ("__is__", "__isnot__"):
        return _is if op == "__is__" else _is_not
    if op == "len":
        return _length
    tensor, scalar = _tensor_function(op), SCALARS.get(op)
    if tensor is None:
        return None if scalar is None else _scalar_op(op, scalar)
    return _bridge(op, tensor, scalar, NUMBER_OPS.get(op))


def _former_div(current: Function, a: Any, b: Any, *args: Any, **keywords: Any) -> Any:
    """Before version 4 a quotient of ints was an int."""
    whole = all(
        not x.dtype.is_floating_point and not x.dtype.is_complex
        if isinstance(x, Tensor)
        else isinstance(x, int) or type(x) is Number0d
        for x in (a, b)
    )
    tensors = any(isinstance(x, (Tensor, Number0d)) for x in (a, b))
    if whole and tensors and not args and not keywords.get("rounding_mode"):
        keywords = {**keywords, "rounding_mode": "trunc"}
    return current(a, b, *args, **keywords)


def _former_full(current: Function, size: Any, value: Any, **keywords: Any) -> Any:
    """Before version 5 a tensor full of an int was of floats."""
    number = isinstance(value, int) and keywords.get("dtype") is None and "out" not in keywords
    return current(size, float(value) if number else value, **keywords)


def _former_steps(
    current: Function, start: Any, end: Any, steps: Any = None, *a: Any, **k: Any
) -> Any:
    """Before versions 8 and 9 the number of steps was 100 by default."""
    return current(start, end, 100 if steps is None else steps, *a, **k)


#: Ops that meant something else: the version of the change, and the former meaning.
FORMER: dict[str, tuple[int, Function]] = {
    "aten::div": (4, _former_div),
    "aten::div_": (4, _former_div),
    "aten::full": (5, _former_full),
    "aten::linspace": (8, _former_steps),
    "aten::logspace": (9, _former_steps),
}


def _is(a: Any, b: Any) -> bool:
    return a is b


def _is_not(a: Any, b: Any) -> bool:
    return a is not b


def _length(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.shape[0]
    if isinstance(x, (list, tuple, dict, str)):
        return len(x)
    return len(as_tensors(x))


def _prim(function: Function) -> Function:
    def op(*args: Any) -> Any:
        if function is PRIM["NumToTensor"]:
            return function(*args)
        return function(*[as_tensors(a) for a in args])

    return op


def _scalar_op(name: str, function: Function) -> Function:
    """An op of no tensors."""

    def op(*args: Any, **keywords: Any) -> Any:
        if any(type(a) is Number0d for a in args) and name not in ("append", "_set_item"):
            args = tuple(a.value if type(a) is Number0d else a for a in args)
        try:
            return function(*args, **keywords)
        except (TypeError, AttributeError) as error:
            if isinstance(error, WendError):
                raise
            kinds = ", ".join(type(a).__name__ for a in args)
            raise ArgumentTypeError(f"TorchScript: {name}({kinds}): {error}") from error

    return op


def _bridge(
    name: str, tensor: Function, scalar: Function | None, number: Function | None
) -> Function:
    """An op that picks the function by the arguments: of tensors, of numbers, of known numbers."""
    scalar_op = None if scalar is None else _scalar_op(name, scalar)

    def op(*args: Any, **keywords: Any) -> Any:
        tensors = known = False
        for a in args:
            if isinstance(a, Tensor):
                tensors = True
            elif type(a) is Number0d:
                known = True
            elif type(a) is list and a and isinstance(a[0], (Tensor, Number0d)):
                known = known or any(type(x) is Number0d for x in a)
                tensors = True
        if known:
            if not tensors and number is not None and _is_whole(args, keywords):
                values = [a.value if type(a) is Number0d else a for a in args]
                return Number0d(number(*values))
            args = tuple(as_tensors(a) for a in args)
        elif not tensors and scalar_op is not None:
            return scalar_op(*args, **keywords)
        if keywords:
            keywords = _converted(name, keywords)
        return tensor(*args, **keywords)

    return op


def _is_whole(args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether numbers are ints, so that a result is exact in Python as in a tensor."""
    for a in args:
        value = a.value if type(a) is Number0d else a
        if isinstance(value, (float, complex, bool)) or not _is_int(value):
            return False
    return not keywords


def _is_int(value: Any) -> bool:
    return isinstance(value, int) or type(value).__name__ == "SymInt"


def _converted(name: str, keywords: dict[str, Any]) -> dict[str, Any]:
    """Keywords as Wend's functions take them."""
    named: dict[str, Any] = {}
    for key, value in keywords.items():
        if key in IGNORED or (key == "generator" and value is None):
            continue
        if key == "dtype":
            if value is None:
                continue
            value = dtype_of(value)
        elif key == "device" and value is None:
            continue
        elif key == "out" and isinstance(value, list):
            value = tuple(value)
        named[key] = as_tensors(value)
    return named


def _tensor_function(op: str) -> Function | None:
    """The function for tensors of a name on the list."""
    function = ADAPTERS.get(op)
    if function is None:
        function = _named_function(op)
    if function is None and op.endswith("_") and not op.startswith("_"):
        plain = _tensor_function(op[:-1])
        if plain is not None:
            function = _written(op, plain)
    if function is None:
        return None
    return _listed(function) if op in LISTS else _dtype_result(op, function)


def _named_function(op: str) -> Function | None:
    function = getattr(T, op, None)
    if op in FUNCTIONS or isinstance(function, _hot.OpFunction):
        return function
    if op in METHODS or isinstance(getattr(Tensor, op, None), _hot.OpFunction):
        method: Function | None = getattr(Tensor, op, None)
        return method
    layer = getattr(F, op, None)
    if op in LAYERS or isinstance(layer, _hot.OpFunction):
        return layer
    package, _, rest = op.partition("_")
    if package in PACKAGES and rest and not rest.startswith("_"):
        module = importlib.import_module(f"{T.__name__}.{PACKAGES[package]}")
        if rest in getattr(module, "__all__", ()):
            return getattr(module, rest, None)
    return None


def _written(op: str, plain: Function) -> Function:
    """An op in place: the method, or the op whose result is written back."""
    method = getattr(Tensor, op, None)
    if isinstance(method, _hot.OpFunction) or (method is not None and op in METHODS):
        return method

    def write(x: Tensor, *args: Any, **keywords: Any) -> Tensor:
        return x.copy_(plain(x, *args, **keywords))

    return write


def _listed(function: Function) -> Function:
    def call(*args: Any, **keywords: Any) -> list[Any]:
        return list(function(*args, **keywords))

    return call


def _dtype_result(op: str, function: Function) -> Function:
    """The function; of those that give a dtype, the number."""
    if op not in ("promote_types", "result_type"):
        return function

    def call(*args: Any) -> Any:
        result = function(*[dtype_of(a) if op == "promote_types" else a for a in args])
        return dtype_number(result) if isinstance(result, DType) else result

    return call
