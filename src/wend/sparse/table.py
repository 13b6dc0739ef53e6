"""The rules of ops on sparse tensors.

The rules of `as_called` take all layouts. For those of `by_coordinates` compressed operands are
converted, and a sparse matrix as result is converted back. Those of `densely` get a dense tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from wend._engine.base.dtypes import NAMES, DType
from wend._engine.core._hot import Tensor
from wend._frontend.components import OpTable, as_called
from wend._frontend.linalg.lowrank import pca_lowrank, svd_lowrank
from wend._frontend.methods import CASTS
from wend.sparse import creation, elementwise, methods, products, reductions, shapes
from wend.sparse.elementwise import of_compressed, of_values
from wend.sparse.families import by_body, by_coordinates, densely, written
from wend.sparse.tensor import SparseTensor

__all__ = ["TABLE"]

#: f(0) = 0, and f(a + b) = f(a) + f(b).
LINEAR = "neg positive deg2rad rad2deg clone detach alias conj real cast".split()
#: f(0) = 0.
KEEPS_ZERO = (
    "abs sign sgn sqrt square relu relu6 sin sinh tan tanh asin asinh atan atanh ceil floor round "
    "trunc frac expm1 log1p erf erfinv nan_to_num isnan isinf isposinf isneginf signbit angle "
    "leaky_relu elu selu celu gelu silu mish softsign hardshrink softshrink tanhshrink hardtanh "
    "threshold dropout alpha_dropout"
).split()
FILLED = "ones_like full_like rand_like randn_like randint_like".split()

TABLE = OpTable(by_body, write=written)
TABLE.family(as_called, {name: of_values(name, linear=True) for name in LINEAR})
TABLE.family(as_called, {name: of_values(name) for name in KEEPS_ZERO})
TABLE.family(as_called, {name: of_compressed(name) for name in FILLED})
TABLE.family(as_called, {
    "add": elementwise.add, "mul": elementwise.mul, "div": elementwise.div,
    "floor_divide": elementwise.floor_divide, "pow": elementwise.pow,
    "equal": elementwise.equal, "allclose": elementwise.allclose,
    "to": elementwise.to, "type_as": elementwise.type_as,
    "zeros_like": elementwise.zeros_like, "empty_like": elementwise.zeros_like,
    "new_zeros": elementwise.new_zeros, "new_empty": elementwise.new_zeros,
    "sparse_resize_": elementwise.sparse_resize_,
    "sparse_resize_and_clear_": elementwise.sparse_resize_and_clear_,
    "resize_as_sparse_": elementwise.resize_as_sparse_,
    "sparse_mask": creation.sparse_mask,
    "to_sparse": methods.to_sparse, "to_sparse_coo": methods.to_sparse_coo,
    "to_sparse_csr": methods.to_sparse_csr, "to_sparse_csc": methods.to_sparse_csc,
    "to_sparse_bsr": methods.to_sparse_bsr, "to_sparse_bsc": methods.to_sparse_bsc,
    "permute": shapes.permute, "transpose": shapes.transpose, "swapaxes": shapes.transpose,
    "t": shapes.t, "matrix_transpose": shapes.t, "adjoint": shapes.t,
    "reverse_dims": shapes.reverse_dims, "movedim": shapes.movedim, "expand": shapes.expand,
    "mm": products.mm, "mv": products.mv, "linear": products.linear,
    "matmul": products.matmul, "__matmul__": products.matmul,
    "addmm": products.addmm, "addmv": products.addmv,
    "smm": products.smm, "sspaddmm": products.sspaddmm,
})  # fmt: skip
TABLE.family(by_coordinates, {
    "sub": elementwise.sub, "rsub": elementwise.rsub, "bmm": products.bmm,
    "sum": reductions.sum_rule, "mean": reductions.mean, "any": reductions.any_rule,
    "norm": reductions.norm, "vector_norm": reductions.norm,
    "count_nonzero": reductions.count_nonzero,
    "softmax": reductions.softmax_rule, "log_softmax": reductions.log_softmax_rule,
    "select": shapes.select, "narrow": shapes.narrow, "narrow_copy": shapes.narrow,
    "slice": shapes.slice_rule, "index_select": shapes.index_select,
    "unsqueeze": shapes.unsqueeze, "squeeze": shapes.squeeze,
    "cat": shapes.cat, "stack": shapes.stack, "unbind": shapes.unbind,
    "__getitem__": shapes.getitem,
})  # fmt: skip
TABLE.family(densely, {"svd_lowrank": svd_lowrank, "pca_lowrank": pca_lowrank})
SparseTensor.__torch_function__ = TABLE.torch_function

#: Methods of dense tensors that hold for sparse tensors as they are.
_SHARED = frozenset(
    "numel nelement element_size get_device is_floating_point is_complex is_signed ndimension "
    "is_same_size is_pinned is_inference is_shared share_memory_ pin_memory is_distributed cuda "
    "is_conj is_neg resolve_conj resolve_neg size dim new_tensor".split()
)


def _forwarded(name: str, plain: FunctionType) -> Callable[..., Any]:
    """A method that is no op: asked of the table."""

    def method(self: SparseTensor, *args: object, **kwargs: object) -> Any:
        return TABLE(plain, (self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = plain.__doc__
    return method


def _conversion(dtype: DType) -> Callable[..., SparseTensor]:
    def convert(self: SparseTensor, memory_format: object = None) -> SparseTensor:
        return self.to(dtype)

    convert.__doc__ = f"The tensor as {dtype}."
    return convert


def _complete() -> None:
    """Give the class all methods of dense tensors that are Python: by the table, or refused."""
    for name, dtype in CASTS.items():
        setattr(SparseTensor, name, _conversion(NAMES[dtype]))
    for name, plain in list(vars(Tensor).items()):
        own = name.startswith("_") or name in _SHARED or name in vars(SparseTensor)
        if not own and isinstance(plain, FunctionType):
            setattr(SparseTensor, name, _forwarded(name, plain))


_complete()
