# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"

import builtins as _builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, SupportsIndex, TypeAlias, TypeVar
from typing import overload

from wend._engine.base.devices import device as _device
from wend._engine.base.dtypes import DType
from wend._engine.base.shapes import Size
from wend._engine.core._types import TensorType

_bool: TypeAlias = _builtins.bool
_int: TypeAlias = _builtins.int
_float: TypeAlias = _builtins.float
_complex: TypeAlias = _builtins.complex
_str: TypeAlias = _builtins.str
_bytes: TypeAlias = _builtins.bytes
_dtype: TypeAlias = DType
_Number: TypeAlias = _builtins.bool | _builtins.int | _builtins.float | _builtins.complex
_Size: TypeAlias = Size

import numpy as _numpy
from wend._frontend.autograd.nodes import Node as _Node
from wend._frontend.linalg.named_results import CholeskyInfo as _CholeskyInfo
from wend._frontend.linalg.named_results import LuFactors as _LuFactors
from wend._frontend.linalg.named_results import LuFactorsInfo as _LuFactorsInfo
from wend._frontend.linalg.named_results import LuParts as _LuParts
from wend._frontend.linalg.named_results import LdlFactors as _LdlFactors
from wend._frontend.linalg.named_results import LdlFactorsInfo as _LdlFactorsInfo
from wend._frontend.linalg.named_results import QrParts as _QrParts
from wend._frontend.linalg.named_results import Eigensystem as _Eigensystem
from wend._frontend.linalg.named_results import SvdParts as _SvdParts
from wend._frontend.linalg.named_results import FormerSvdParts as _FormerSvdParts
from wend._frontend.linalg.named_results import SignAndLog as _SignAndLog
from wend._frontend.linalg.named_results import InverseInfo as _InverseInfo
from wend._frontend.linalg.named_results import SolveInfo as _SolveInfo
from wend._frontend.linalg.named_results import TriangularSolution as _TriangularSolution
from wend._frontend.linalg.named_results import LeastSquares as _LeastSquares
from wend._frontend.formats import layout as _layout, memory_format as _memory_format
from wend._frontend.random import Generator as _Generator
from wend._frontend.removable import RemovableHandle as _RemovableHandle
from wend._frontend.storage import TypedStorage as _TypedStorage
from wend._frontend.storage import UntypedStorage as _UntypedStorage

_Array: TypeAlias = _numpy.ndarray[Any, Any]
_Index: TypeAlias = (
    None | SupportsIndex | slice | EllipsisType | Tensor | _builtins.list[Any] | range
)

class _a_tau(NamedTuple):
    a: Tensor
    tau: Tensor

class _mantissa_exponent(NamedTuple):
    mantissa: Tensor
    exponent: Tensor

class _min_max(NamedTuple):
    min: Tensor
    max: Tensor

class _values_indices(NamedTuple):
    values: Tensor
    indices: Tensor

INFERENCE: _int
OPERATORS: Any
class Cold:
    ...
def set_slot(name: Any, function: Any) -> Any: ...
def slot(name: Any) -> Any: ...
def new_epoch() -> Any: ...
def set_count(name: Any, value: Any) -> Any: ...
def count(name: Any) -> Any: ...
def set_operator(name: Any, function: Any) -> Any: ...
class Value:
    ...
    type: TensorType
    serial: _int
    index: _int
    leaf: Any
    buffer: Any
    trace: Any
    requires_grad: _bool
    inference: _bool
    segment: Any
    seg_index: _int
    error: Any
    extra: Any
    packed: Any
    def __init__(self, type: Any) -> None: ...
class Leaf:
    ...
    requires_grad: _bool
    ref: Any
    hooks: Any
    post_hooks: Any
    node: Any
    def __init__(self, handle: Any) -> None: ...
class Alias:
    ...
    base: Any
    plain: _bool
    prim: Any
    args: Any
    outer: Any
    version: _int
    storage: Any
    storage_version: _int
    layout: Any
    writes: Any
    leaf: Any
    def __init__(self) -> None: ...
    @property
    def chain(self) -> Any: ...
    @chain.setter
    def chain(self, steps: Any) -> Any: ...
VOLATILE: _str
class Storage:
    ...
    data: Any
    version: _int
    shared: Any
    def __init__(self, data: Any) -> None: ...
class Segment:
    ...
    serial: _int
    structure: Any
    inputs: Any
    saved: Any
    types: Any
    args: Any
    freed: _bool
    sites: Any
    spent: Any
    hooks: Any
    depth: _int
    origin: _int
    def __init__(self, serial: Any, structure: Any) -> None: ...
class Tensor:
    """A multi-dimensional array of a single dtype, with the history that gradients need."""
    value: Value
    leaf: Any
    _layout: Any
    _grad: Any
    version: _int
    _views: _int
    _moved: _bool
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __add__(self, other: Tensor | _Number) -> Tensor: ...
    def __radd__(self, other: Tensor | _Number) -> Tensor: ...
    def __sub__(self, other: Tensor | _Number) -> Tensor: ...
    def __rsub__(self, other: Tensor | _Number) -> Tensor: ...
    def __mul__(self, other: Tensor | _Number) -> Tensor: ...
    def __rmul__(self, other: Tensor | _Number) -> Tensor: ...
    def __truediv__(self, other: Tensor | _Number) -> Tensor: ...
    def __rtruediv__(self, other: Tensor | _Number) -> Tensor: ...
    def __floordiv__(self, other: Tensor | _Number) -> Tensor: ...
    def __rfloordiv__(self, other: Tensor | _Number) -> Tensor: ...
    def __mod__(self, other: Tensor | _Number) -> Tensor: ...
    def __rmod__(self, other: Tensor | _Number) -> Tensor: ...
    def __pow__(self, other: Tensor | _Number) -> Tensor: ...
    def __rpow__(self, other: Tensor | _Number) -> Tensor: ...
    def __matmul__(self, other: Tensor | _Number) -> Tensor: ...
    def __rmatmul__(self, other: Tensor | _Number) -> Tensor: ...
    def __and__(self, other: Tensor | _Number) -> Tensor: ...
    def __rand__(self, other: Tensor | _Number) -> Tensor: ...
    def __or__(self, other: Tensor | _Number) -> Tensor: ...
    def __ror__(self, other: Tensor | _Number) -> Tensor: ...
    def __xor__(self, other: Tensor | _Number) -> Tensor: ...
    def __rxor__(self, other: Tensor | _Number) -> Tensor: ...
    def __lshift__(self, other: Tensor | _Number) -> Tensor: ...
    def __rlshift__(self, other: Tensor | _Number) -> Tensor: ...
    def __rshift__(self, other: Tensor | _Number) -> Tensor: ...
    def __rrshift__(self, other: Tensor | _Number) -> Tensor: ...
    def __iadd__(self, other: Tensor | _Number) -> Tensor: ...
    def __isub__(self, other: Tensor | _Number) -> Tensor: ...
    def __imul__(self, other: Tensor | _Number) -> Tensor: ...
    def __itruediv__(self, other: Tensor | _Number) -> Tensor: ...
    def __ifloordiv__(self, other: Tensor | _Number) -> Tensor: ...
    def __imod__(self, other: Tensor | _Number) -> Tensor: ...
    def __ipow__(self, other: Tensor | _Number) -> Tensor: ...
    def __iand__(self, other: Tensor | _Number) -> Tensor: ...
    def __ior__(self, other: Tensor | _Number) -> Tensor: ...
    def __ixor__(self, other: Tensor | _Number) -> Tensor: ...
    def __ilshift__(self, other: Tensor | _Number) -> Tensor: ...
    def __irshift__(self, other: Tensor | _Number) -> Tensor: ...
    def __lt__(self, other: Tensor | _Number) -> Tensor: ...
    def __le__(self, other: Tensor | _Number) -> Tensor: ...
    def __gt__(self, other: Tensor | _Number) -> Tensor: ...
    def __ge__(self, other: Tensor | _Number) -> Tensor: ...
    def __eq__(self, other: Any) -> Tensor: ...
    def __ne__(self, other: Any) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __hash__(self) -> _int: ...
    def __bool__(self) -> _bool: ...
    def __int__(self) -> _int: ...
    def __float__(self) -> _float: ...
    def __complex__(self) -> _complex: ...
    def __index__(self) -> _int: ...
    def __len__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, item: _builtins.object) -> _bool: ...
    def __getitem__(self, key: _Index | tuple[_Index, ...]) -> Tensor: ...
    def __setitem__(self, key: _Index | tuple[_Index, ...], value: Tensor | _Number) -> None: ...
    def __repr__(self) -> _str: ...
    @property
    def shape(self) -> _Size:
        """Extents of the dims, as a Size."""
    @overload
    def size(self, dim: None = None) -> _Size: ...
    @overload
    def size(self, dim: _int) -> _int:
        """The shape, or the extent of a dim."""
    def dim(self) -> _int:
        """Number of dims."""
    @property
    def ndim(self) -> _int:
        """Number of dims."""
    @property
    def dtype(self) -> _dtype:
        """Element type."""
    @property
    def device(self) -> _device:
        """Where the data lies."""
    @property
    def requires_grad(self) -> _bool:
        """Whether gradients flow to, or through, this tensor."""
    @requires_grad.setter
    def requires_grad(self, flag: _bool) -> None: ...
    @property
    def is_leaf(self) -> _bool:
        """Whether this tensor was made by the user, or does not require grad."""
    @property
    def alias(self) -> Any:
        """Derivation from bases or a storage (an `Alias`), or None."""
    @alias.setter
    def alias(self, alias: Any) -> None: ...
    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient, or None."""
    @grad.setter
    def grad(self, value: Tensor | None) -> None: ...
    def backward(self, gradient: Tensor | None = None, retain_graph: _bool | None = None, create_graph: _bool = False, inputs: Tensor | Sequence[Tensor] | None = None) -> None:
        """Accumulate gradients of this tensor into the `.grad` of the leaves it depends on."""
    @property
    def _version(self) -> _int: ...
    @property
    def H(self) -> Tensor: ...
    T: Tensor
    def __array__(self, dtype: Any = None, copy: _bool | None = None) -> _Array:
        """The call behind `np.asarray(tensor)`: an array in shared memory, or of another dtype."""
    def __array_namespace__(self, *, api_version: _str | None = None) -> Any:
        """`wend.xp`, the array API over tensors. Raises ValueRefused for an unknown version."""
    def __array_wrap__(self, array: _Array, context: _builtins.object = None, return_scalar: _bool = False) -> Tensor:
        """The result of a NumPy function with a tensor among its arguments: a tensor."""
    def __buffer__(self, flags: _int) -> _builtins.memoryview:
        """The buffer protocol (`memoryview(tensor)`), which Python offers to classes from 3.12 on."""
    def __copy__(self) -> Tensor:
        """The result of `copy.copy(tensor)`: another tensor in the same memory."""
    def __deepcopy__(self, memo: dict[Any, Any]) -> Tensor:
        """A copy of the values; tensors that share memory share memory in the copy too."""
    def __dlpack__(self, *, stream: _builtins.object = None, max_version: tuple[_int, _int] | None = None, dl_device: tuple[_int, _int] | None = None, copy: _bool | None = None) -> Any:
        """A DLPack capsule of this tensor's memory."""
    def __dlpack_device__(self) -> tuple[_int, _int]:
        """(kind, index) of the device in DLPack's terms: (1, 0) for the cpu."""
    def __format__(self, spec: _str) -> _str:
        """`format(tensor, spec)`: that of the number for a 0-d tensor."""
    @classmethod
    def __init_subclass__(cls, **options: _builtins.object) -> None:
        """Called for each new subclass of Tensor."""
    def __reduce_ex__(self, protocol: _int) -> tuple[Any, ...]:
        """Pickled by value. `wend.save` has a way of its own, which keeps shared memory shared."""
    def __reversed__(self) -> Tensor:
        """The tensor with the first dim in reverse order, for `reversed`."""
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = ..., kwargs: Any = None) -> Any:
        """Call the op on plain tensors; results become instances of the subclass."""
    @property
    def _backward_hooks(self) -> dict[_int, Any] | None: ...
    @property
    def _base(self) -> Tensor | None: ...
    def _indices(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor._indices`: see `wend.sparse`."""
    def _is_view(self) -> _bool:
        """Whether this tensor is a view of another tensor."""
    @staticmethod
    def _make_subclass(cls: _builtins.type, data: Tensor, require_grad: _bool = False) -> Tensor:
        """An instance of a subclass of Tensor that shares the values of `data`, without history."""
    def _nnz(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor._nnz`: see `wend.sparse`."""
    def _repr_html_(self) -> _str:
        """The HTML of a tensor in a notebook."""
    def _typed_storage(self) -> _TypedStorage:
        """The memory of this tensor, as elements of the tensor's dtype."""
    def _values(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor._values`: see `wend.sparse`."""
    def abs(self) -> Tensor:
        """y = |input|, a real number; gradient 0 at 0."""
    def abs_(self) -> Tensor:
        """y = |input|, a real number; gradient 0 at 0."""
    def absolute(self) -> Tensor:
        """y = |input|, a real number; gradient 0 at 0."""
    def absolute_(self) -> Tensor:
        """y = |input|, a real number; gradient 0 at 0."""
    def acos(self) -> Tensor:
        """y = arccos(input), in radians; NaN outside [-1, 1]."""
    def acos_(self) -> Tensor:
        """y = arccos(input), in radians; NaN outside [-1, 1]."""
    def acosh(self) -> Tensor:
        """y = arcosh(input); NaN below 1."""
    def acosh_(self) -> Tensor:
        """y = arcosh(input); NaN below 1."""
    @overload
    def add(self, other: Tensor | _Number) -> Tensor:
        """y = input + other; or, of bools."""
    @overload
    def add(self, other: Tensor | _Number, *, alpha: Tensor | _Number) -> Tensor:
        """y = input + other; or, of bools."""
    @overload
    def add(self, alpha: Tensor | _Number, other: Tensor) -> Tensor:
        """y = input + other; or, of bools."""
    @overload
    def add_(self, other: Tensor | _Number) -> Tensor:
        """y = input + other; or, of bools."""
    @overload
    def add_(self, other: Tensor | _Number, *, alpha: Tensor | _Number) -> Tensor:
        """y = input + other; or, of bools."""
    @overload
    def add_(self, alpha: Tensor | _Number, other: Tensor) -> Tensor:
        """y = input + other; or, of bools."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None) -> Tensor:
        """y = beta * input + alpha * sum over b of batch1[b] @ batch2[b]."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None) -> Tensor:
        """y = beta * input + alpha * sum over b of batch1[b] @ batch2[b]."""
    @overload
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _Number = 1) -> Tensor:
        """y = input + value * tensor1 / tensor2. Raises DTypeError for ints."""
    @overload
    def addcdiv(self, value: Tensor | _Number, tensor1: Tensor, tensor2: Tensor) -> Tensor:
        """y = input + value * tensor1 / tensor2. Raises DTypeError for ints."""
    @overload
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _Number = 1) -> Tensor:
        """y = input + value * tensor1 / tensor2. Raises DTypeError for ints."""
    @overload
    def addcdiv_(self, value: Tensor | _Number, tensor1: Tensor, tensor2: Tensor) -> Tensor:
        """y = input + value * tensor1 / tensor2. Raises DTypeError for ints."""
    @overload
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _Number = 1) -> Tensor:
        """y = input + value * tensor1 * tensor2."""
    @overload
    def addcmul(self, value: Tensor | _Number, tensor1: Tensor, tensor2: Tensor) -> Tensor:
        """y = input + value * tensor1 * tensor2."""
    @overload
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _Number = 1) -> Tensor:
        """y = input + value * tensor1 * tensor2."""
    @overload
    def addcmul_(self, value: Tensor | _Number, tensor1: Tensor, tensor2: Tensor) -> Tensor:
        """y = input + value * tensor1 * tensor2."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None) -> Tensor:
        """y = beta * input + alpha * (mat1 @ mat2)."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None) -> Tensor:
        """y = beta * input + alpha * (mat1 @ mat2)."""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None) -> Tensor:
        """y = beta * input + alpha * (mat @ vec)."""
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None) -> Tensor:
        """y = beta * input + alpha * (mat @ vec)."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None) -> Tensor:
        """y[i, j] = beta * input[i, j] + alpha * vec1[i] * vec2[j]; of bool, `or` and `and`."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None) -> Tensor:
        """y[i, j] = beta * input[i, j] + alpha * vec1[i] * vec2[j]; of bool, `or` and `and`."""
    def adjoint(self) -> Tensor:
        """The last two dims swapped, and conjugated. Raises ShapeError for less than 2 dims."""
    def all(self, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False) -> Tensor:
        """y = whether all elements of x over `dim` are not 0."""
    def allclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
        """Whether |input - other| <= atol + rtol * |other| everywhere."""
    def amax(self, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False) -> Tensor:
        """y = max of x over `dim`. Ties share the gradient evenly; NaN wins."""
    def amin(self, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False) -> Tensor:
        """y = min of x over `dim`. Ties share the gradient evenly; NaN wins."""
    def aminmax(self, *, dim: _int | None = None, keepdim: _bool = False) -> _min_max:
        """(min, max) of x along `dim`, or of all elements of x."""
    def angle(self) -> Tensor:
        """y = the angle of a complex number, in radians; pi where a real number is negative, else 0."""
    def any(self, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False) -> Tensor:
        """y = whether any element of x over `dim` is not 0."""
    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Overwrite each element by callable(element): Python speed."""
    def arccos(self) -> Tensor:
        """y = arccos(input), in radians; NaN outside [-1, 1]."""
    def arccos_(self) -> Tensor:
        """y = arccos(input), in radians; NaN outside [-1, 1]."""
    def arccosh(self) -> Tensor:
        """y = arcosh(input); NaN below 1."""
    def arccosh_(self) -> Tensor:
        """y = arcosh(input); NaN below 1."""
    def arcsin(self) -> Tensor:
        """y = arcsin(input), in radians; NaN outside [-1, 1]."""
    def arcsin_(self) -> Tensor:
        """y = arcsin(input), in radians; NaN outside [-1, 1]."""
    def arcsinh(self) -> Tensor:
        """y = arsinh(input)."""
    def arcsinh_(self) -> Tensor:
        """y = arsinh(input)."""
    def arctan(self) -> Tensor:
        """y = arctan(input), in radians."""
    def arctan2(self, other: Tensor) -> Tensor:
        """y = the angle of the point (other, input), in radians; gradient 0 at the origin."""
    def arctan2_(self, other: Tensor) -> Tensor:
        """y = the angle of the point (other, input), in radians; gradient 0 at the origin."""
    def arctan_(self) -> Tensor:
        """y = arctan(input), in radians."""
    def arctanh(self) -> Tensor:
        """y = artanh(input); NaN outside [-1, 1]."""
    def arctanh_(self) -> Tensor:
        """y = artanh(input); NaN outside [-1, 1]."""
    def argmax(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """y = index of the first greatest element along `dim`, of the flat tensor for None."""
    def argmin(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """y = index of the first least element along `dim`, of the flat tensor for None."""
    def argsort(self, dim: _int = -1, descending: _bool = False, stable: _bool | None = None) -> Tensor:
        """y = the indices that put the elements in order along `dim`; ties keep their order."""
    def argwhere(self) -> Tensor:
        """As `nonzero`."""
    def as_strided(self, size: Sequence[_int] | _int, stride: Sequence[_int] | _int, storage_offset: Any = None) -> Tensor:
        """A view of the memory that input lies in, with the given extents and steps between elements."""
    def as_strided_(self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """Make this tensor the view that `as_strided` gives of its memory."""
    def as_strided_scatter(self, src: Tensor, size: Sequence[_int] | _int, stride: Sequence[_int] | _int, storage_offset: _int | None = None) -> Tensor:
        """input, with the elements that as_strided would view replaced by src."""
    def as_subclass(self, cls: _builtins.type) -> Tensor:
        """This tensor as an instance of a subclass of Tensor, with the same value."""
    def asin(self) -> Tensor:
        """y = arcsin(input), in radians; NaN outside [-1, 1]."""
    def asin_(self) -> Tensor:
        """y = arcsin(input), in radians; NaN outside [-1, 1]."""
    def asinh(self) -> Tensor:
        """y = arsinh(input)."""
    def asinh_(self) -> Tensor:
        """y = arsinh(input)."""
    def atan(self) -> Tensor:
        """y = arctan(input), in radians."""
    def atan2(self, other: Tensor) -> Tensor:
        """y = the angle of the point (other, input), in radians; gradient 0 at the origin."""
    def atan2_(self, other: Tensor) -> Tensor:
        """y = the angle of the point (other, input), in radians; gradient 0 at the origin."""
    def atan_(self) -> Tensor:
        """y = arctan(input), in radians."""
    def atanh(self) -> Tensor:
        """y = artanh(input); NaN outside [-1, 1]."""
    def atanh_(self) -> Tensor:
        """y = artanh(input); NaN outside [-1, 1]."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None) -> Tensor:
        """y[b] = beta * input[b] + alpha * (batch1[b] @ batch2[b])."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Tensor | _Number | None = None, alpha: Tensor | _Number | None = None) -> Tensor:
        """y[b] = beta * input[b] + alpha * (batch1[b] @ batch2[b])."""
    def bernoulli(self, p: Any = None, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
        """1 with probability input (or p), else 0; the dtype of `input`."""
    def bernoulli_(self, p: _float | Tensor = 0.5, *, generator: _Generator | None = None) -> Tensor:
        """Fill with 1 (probability p) and 0. Raises as `probability`."""
    def bfloat16(self) -> Tensor:
        """This tensor as torch.bfloat16."""
    def bincount(self, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
        """y[k] = how often k occurs in input, or the sum of the weights there."""
    def bitwise_and(self, other: Tensor | _Number) -> Tensor:
        """y = input & other."""
    def bitwise_and_(self, other: Tensor | _Number) -> Tensor:
        """y = input & other."""
    def bitwise_left_shift(self, other: Tensor | _Number) -> Tensor:
        """y = input << other; 0 if other is not in [0, bits)."""
    def bitwise_left_shift_(self, other: Tensor | _Number) -> Tensor:
        """y = input << other; 0 if other is not in [0, bits)."""
    def bitwise_not(self) -> Tensor:
        """y = ~input; logical not, of bools."""
    def bitwise_not_(self) -> Tensor:
        """y = ~input; logical not, of bools."""
    def bitwise_or(self, other: Tensor | _Number) -> Tensor:
        """y = input | other."""
    def bitwise_or_(self, other: Tensor | _Number) -> Tensor:
        """y = input | other."""
    def bitwise_right_shift(self, other: Tensor | _Number) -> Tensor:
        """y = input >> other; only the sign is left (0 or -1) if other is not in [0, bits)."""
    def bitwise_right_shift_(self, other: Tensor | _Number) -> Tensor:
        """y = input >> other; only the sign is left (0 or -1) if other is not in [0, bits)."""
    def bitwise_xor(self, other: Tensor | _Number) -> Tensor:
        """y = input ^ other."""
    def bitwise_xor_(self, other: Tensor | _Number) -> Tensor:
        """y = input ^ other."""
    def bmm(self, mat2: Tensor) -> Tensor:
        """y[b] = x[b] @ w[b]. x: (b, n, m)   mat2: (b, m, p)   ->   (b, n, p)."""
    def bool(self) -> Tensor:
        """This tensor as torch.bool."""
    @overload
    def broadcast_to(self, size: Sequence[_int] | _int) -> Tensor:
        """y = x repeated, without a copy, along dims of extent 1 and along new leading dims."""
    @overload
    def broadcast_to(self, *size: _int) -> Tensor:
        """y = x repeated, without a copy, along dims of extent 1 and along new leading dims."""
    def byte(self) -> Tensor:
        """This tensor as torch.uint8."""
    def cauchy_(self, median: _float = 0.0, sigma: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill with Cauchy numbers. Raises ValueRefused unless sigma > 0."""
    def ccol_indices(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.ccol_indices`: see `wend.sparse`."""
    def cdouble(self) -> Tensor:
        """This tensor as torch.complex128."""
    def ceil(self) -> Tensor:
        """y = the smallest integer that is not below input."""
    def ceil_(self) -> Tensor:
        """y = the smallest integer that is not below input."""
    def cfloat(self) -> Tensor:
        """This tensor as torch.complex64."""
    def char(self) -> Tensor:
        """This tensor as torch.int8."""
    def cholesky(self, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """linalg.cholesky."""
    def cholesky_inverse(self, upper: _bool = False) -> Tensor:
        """The inverse of A, of its Cholesky factor: L L^H = A, or with `upper` U^H U = A."""
    def cholesky_solve(self, input2: Tensor, upper: _bool = False) -> Tensor:
        """X such that A X = B, of the Cholesky factor of A: L L^H = A, or with `upper` U^H U = A."""
    def chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Views of at most `chunks` parts of equal size along `dim`; the last may be smaller."""
    @overload
    def clamp(self, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clamp(self, min: Tensor, max: Tensor | _Number) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clamp(self, min: Tensor | _Number, max: Tensor) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clamp(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clamp_(self, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clamp_(self, min: Tensor, max: Tensor | _Number) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clamp_(self, min: Tensor | _Number, max: Tensor) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clamp_(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    def clamp_max(self, max: Tensor | _Number) -> Tensor:
        """y = min(input, max)."""
    def clamp_max_(self, max: Tensor | _Number) -> Tensor:
        """y = min(input, max)."""
    def clamp_min(self, min: Tensor | _Number) -> Tensor:
        """y = max(input, min)."""
    def clamp_min_(self, min: Tensor | _Number) -> Tensor:
        """y = max(input, min)."""
    @overload
    def clip(self, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clip(self, min: Tensor, max: Tensor | _Number) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clip(self, min: Tensor | _Number, max: Tensor) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clip(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clip_(self, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clip_(self, min: Tensor, max: Tensor | _Number) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clip_(self, min: Tensor | _Number, max: Tensor) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    @overload
    def clip_(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        """y = min(max(input, min), max) for tensors; either bound may be None."""
    def clone(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """y = x, in new memory."""
    def coalesce(self) -> Tensor:
        """This tensor: dense, with nothing put off."""
    def col_indices(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.col_indices`: see `wend.sparse`."""
    def combinations(self, r: _int = 2, with_replacement: _bool = False) -> Tensor:
        """(count, r): all choices of r elements of a vector, in the order of places."""
    def conj(self) -> Tensor:
        """The complex conjugate of the elements; a real tensor gives itself."""
    def conj_physical(self) -> Tensor:
        """y = the complex conjugate of input, in memory of its own."""
    def conj_physical_(self) -> Tensor:
        """y = the complex conjugate of input, in memory of its own."""
    def contiguous(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor if its elements lie in row-major (or the given) order, else a copy that does."""
    def copy_(self, other: Any, non_blocking: _bool = False) -> Tensor:
        """Overwrite this tensor by `other`, broadcast and cast.  Gradients flow to `other`."""
    def copysign(self, other: Tensor | _Number) -> Tensor:
        """y = |input| with the sign of other; gradient 0 where input is 0, NaN where infinite."""
    def copysign_(self, other: Tensor | _Number) -> Tensor:
        """y = |input| with the sign of other; gradient 0 where input is 0, NaN where infinite."""
    def corrcoef(self) -> Tensor:
        """y[i, j] = the correlation of rows i and j over the observations, given by columns."""
    def cos(self) -> Tensor:
        """y = cos(input), of radians."""
    def cos_(self) -> Tensor:
        """y = cos(input), of radians."""
    def cosh(self) -> Tensor:
        """y = cosh(input)."""
    def cosh_(self) -> Tensor:
        """y = cosh(input)."""
    @overload
    def count_nonzero(self, dim: Sequence[_int] | _int | None = None) -> Tensor:
        """y = number of elements over `dim` that are not 0 (int64)."""
    @overload
    def count_nonzero(self, *dim: _int) -> Tensor:
        """y = number of elements over `dim` that are not 0 (int64)."""
    def cov(self, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """y[i, j] = the covariance of rows i and j over the observations, given by columns."""
    def cpu(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor on the CPU: itself if it lies there."""
    def cross(self, other: Tensor, dim: _int | None = None, *, out: Any = None) -> Tensor:
        """input x other for vectors of 3 along `dim`, by default the first dim that has 3 entries."""
    def crow_indices(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.crow_indices`: see `wend.sparse`."""
    def cuda(self, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: Any = None) -> Tensor:
        """This tensor on a CUDA device.  Raises DeviceError if there is no such device."""
    def cummax(self, dim: _int | None) -> _values_indices:
        """(values, indices): greatest element so far along `dim`, and the last place of that value."""
    def cummin(self, dim: _int | None) -> _values_indices:
        """(values, indices): least element so far along `dim`, and the last place of that value."""
    def cumprod(self, dim: _int | None, *, dtype: _dtype | None = None) -> Tensor:
        """y[i] = x[0] * ... * x[i] along `dim`; bool and ints in int64 unless dtype says otherwise."""
    def cumprod_(self, dim: _int | None, *, dtype: _dtype | None = None) -> Tensor:
        """y[i] = x[0] * ... * x[i] along `dim`; bool and ints in int64 unless dtype says otherwise."""
    def cumsum(self, dim: _int | None, *, dtype: _dtype | None = None) -> Tensor:
        """y[i] = x[0] + ... + x[i] along `dim`; bool and ints in int64 unless dtype says otherwise."""
    def cumsum_(self, dim: _int | None, *, dtype: _dtype | None = None) -> Tensor:
        """y[i] = x[0] + ... + x[i] along `dim`; bool and ints in int64 unless dtype says otherwise."""
    @property
    def data(self) -> Tensor: ...
    @data.setter
    def data(self, value: Any) -> None: ...
    def data_ptr(self) -> _int:
        """Address of the first element, 0 without elements; the memory stays shared until freed."""
    def deg2rad(self) -> Tensor:
        """y = input * pi / 180."""
    def deg2rad_(self) -> Tensor:
        """y = input * pi / 180."""
    def dense_dim(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.dense_dim`: see `wend.sparse`."""
    def det(self) -> Tensor:
        """y = the determinant of square matrices; 1 for 0 x 0. Its gradient exists everywhere."""
    def detach(self) -> Tensor:
        """y = x, as a separate variable: no gradient passes."""
    def detach_(self) -> Tensor:
        """Cut this tensor from its history."""
    def diag(self, diagonal: _int = 0) -> Tensor:
        """y = a matrix with input on the diagonal, or the diagonal of a matrix."""
    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
        """y = zeros with the last dim of input on the diagonal of two new dims dim1 and dim2."""
    def diagflat(self, offset: _int = 0) -> Tensor:
        """y = a matrix with all elements of input, in row-major order, on the diagonal."""
    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """y[..., k] = x[..., k - min(offset, 0), ..., k + max(offset, 0), ...] over dims dim1, dim2."""
    def diagonal_scatter(self, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """y = input, with the diagonal over dims dim1 and dim2 replaced by src."""
    def diff(self, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
        """y[i] = x[i + 1] - x[i] along `dim`, n times over; of bool: whether they differ."""
    def digamma(self) -> Tensor:
        """y = the derivative of lgamma at input."""
    def digamma_(self) -> Tensor:
        """y = the derivative of lgamma at input."""
    def dim_order(self, *, ambiguity_check: Any = False) -> tuple[_int, ...]:
        """The dims from the slowest to the quickest in memory, as the strides order them."""
    def dist(self, other: Tensor, p: _float | _str | None = 2) -> Tensor:
        """y = p-norm of all elements of x - other."""
    @overload
    def div(self, other: Tensor | _Number) -> Tensor:
        """y = input / other, the true quotient: ints are divided as floats."""
    @overload
    def div(self, other: Tensor | _Number, *, rounding_mode: _str | None) -> Tensor:
        """y = input / other, the true quotient: ints are divided as floats."""
    @overload
    def div_(self, other: Tensor | _Number) -> Tensor:
        """y = input / other, the true quotient: ints are divided as floats."""
    @overload
    def div_(self, other: Tensor | _Number, *, rounding_mode: _str | None) -> Tensor:
        """y = input / other, the true quotient: ints are divided as floats."""
    @overload
    def divide(self, other: Tensor | _Number) -> Tensor:
        """y = input / other, the true quotient: ints are divided as floats."""
    @overload
    def divide(self, other: Tensor | _Number, *, rounding_mode: _str | None) -> Tensor:
        """y = input / other, the true quotient: ints are divided as floats."""
    @overload
    def divide_(self, other: Tensor | _Number) -> Tensor:
        """y = input / other, the true quotient: ints are divided as floats."""
    @overload
    def divide_(self, other: Tensor | _Number, *, rounding_mode: _str | None) -> Tensor:
        """y = input / other, the true quotient: ints are divided as floats."""
    def dot(self, tensor: Tensor) -> Tensor:
        """y = sum of x * v for two vectors of equal length."""
    def double(self) -> Tensor:
        """This tensor as torch.float64."""
    def dsplit(self, indices_or_sections: _int | Sequence[_int] | Tensor) -> tuple[Tensor, ...]:
        """Views of parts along dim 2."""
    def eig(*args: _builtins.object, **kwargs: _builtins.object) -> Any:
        """Removed from PyTorch: raises, and names linalg.eig."""
    def element_size(self) -> _int:
        """Bytes of an element."""
    def eq(self, other: Tensor | _Number) -> Tensor:
        """y = input == other."""
    def eq_(self, other: Tensor | _Number) -> Tensor:
        """y = input == other."""
    def equal(self, other: Tensor) -> _bool:
        """Whether shape and all elements are equal, whatever their dtypes."""
    def erf(self) -> Tensor:
        """y = 2 / sqrt(pi) * the integral of exp(-t^2) from 0 to input."""
    def erf_(self) -> Tensor:
        """y = 2 / sqrt(pi) * the integral of exp(-t^2) from 0 to input."""
    def erfc(self) -> Tensor:
        """y = 1 - erf(input), exact where erf is near 1."""
    def erfc_(self) -> Tensor:
        """y = 1 - erf(input), exact where erf is near 1."""
    def erfinv(self) -> Tensor:
        """y with erf(y) = input; NaN outside [-1, 1]."""
    def erfinv_(self) -> Tensor:
        """y with erf(y) = input; NaN outside [-1, 1]."""
    def exp(self) -> Tensor:
        """y = e ** input."""
    def exp2(self) -> Tensor:
        """y = 2 ** input."""
    def exp2_(self) -> Tensor:
        """y = 2 ** input."""
    def exp_(self) -> Tensor:
        """y = e ** input."""
    @overload
    def expand(self, size: Sequence[_int] | _int) -> Tensor:
        """y = x repeated, without a copy, along dims of extent 1 and along new leading dims."""
    @overload
    def expand(self, *size: _int) -> Tensor:
        """y = x repeated, without a copy, along dims of extent 1 and along new leading dims."""
    def expand_as(self, other: Tensor) -> Tensor:
        """self expanded to the shape of other."""
    def expm1(self) -> Tensor:
        """y = e ** input - 1, exact near 0."""
    def expm1_(self) -> Tensor:
        """y = e ** input - 1, exact near 0."""
    def exponential_(self, lambd: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill with exponential numbers of rate lambd. Raises ValueRefused unless lambd > 0."""
    def fill_(self, value: _builtins.object) -> Tensor:
        """Overwrite every element by `value`, a number or a 0-d tensor."""
    def fill_diagonal_(self, fill_value: Any, wrap: _bool = False) -> Tensor:
        """Overwrite the elements whose indices are all equal."""
    def fix(self) -> Tensor:
        """y = input without the fraction."""
    def fix_(self) -> Tensor:
        """y = input without the fraction."""
    def flatten(self, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
        """y = x with dims start_dim..end_dim merged; a 0-d tensor becomes 1-d."""
    @overload
    def flip(self, dims: Sequence[_int] | _int) -> Tensor:
        """y = x with the order of elements reversed along each of dims."""
    @overload
    def flip(self, *dims: _int) -> Tensor:
        """y = x with the order of elements reversed along each of dims."""
    def fliplr(self) -> Tensor:
        """y = input with columns in reverse order. Raises ShapeError below 2 dims."""
    def flipud(self) -> Tensor:
        """y = input with rows in reverse order. Raises ShapeError for a 0-d tensor."""
    def float(self) -> Tensor:
        """This tensor as torch.float32."""
    def float_power(self, exponent: Tensor | _Number) -> Tensor:
        """y = input ** exponent, computed in float64, or in complex128 if either is complex."""
    def float_power_(self, exponent: Tensor | _Number) -> Tensor:
        """y = input ** exponent, computed in float64, or in complex128 if either is complex."""
    def floor(self) -> Tensor:
        """y = the largest integer that is not above input."""
    def floor_(self) -> Tensor:
        """y = the largest integer that is not above input."""
    def floor_divide(self, other: Tensor | _Number) -> Tensor:
        """y = floor(input / other), in Python's sense. Raises ExecutionError for ints over 0."""
    def floor_divide_(self, other: Tensor | _Number) -> Tensor:
        """y = floor(input / other), in Python's sense. Raises ExecutionError for ints over 0."""
    def fmax(self, other: Tensor) -> Tensor:
        """y = the larger of input and other; a NaN gives the number beside it. A tie goes to input."""
    def fmin(self, other: Tensor) -> Tensor:
        """y = the smaller of input and other; a NaN gives the number beside it. A tie goes to input."""
    def fmod(self, other: Tensor | _Number) -> Tensor:
        """y = input - trunc(input / other) * other: the remainder with the sign of input."""
    def fmod_(self, other: Tensor | _Number) -> Tensor:
        """y = input - trunc(input / other) * other: the remainder with the sign of input."""
    def frac(self) -> Tensor:
        """y = input - trunc(input)."""
    def frac_(self) -> Tensor:
        """y = input - trunc(input)."""
    def frexp(self) -> _mantissa_exponent:
        """(mantissa, exponent): input = mantissa * 2^exponent, |mantissa| in [1/2, 1) unless 0."""
    def gather(self, dim: _int, index: Tensor, *, sparse_grad: _bool = False) -> Tensor:
        """y[i, j, k] = input[index[i, j, k], j, k] for dim 0, and alike for every dim."""
    def gcd(self, other: Tensor) -> Tensor:
        """y = the greatest common divisor of input and other, at least 0."""
    def gcd_(self, other: Tensor) -> Tensor:
        """y = the greatest common divisor of input and other, at least 0."""
    def ge(self, other: Tensor | _Number) -> Tensor:
        """y = input >= other."""
    def ge_(self, other: Tensor | _Number) -> Tensor:
        """y = input >= other."""
    def geometric_(self, p: _float, *, generator: _Generator | None = None) -> Tensor:
        """Fill with the number of trials up to the first success."""
    def geqrf(self) -> _a_tau:
        """(a, tau): the factors of a QR decomposition as reflections: R above, vectors below."""
    def ger(self, vec2: Tensor) -> Tensor:
        """y[i, j] = x[i] * v[j]. input: (n,)   vec2: (m,)   ->   (n, m)."""
    def get_device(self) -> _int:
        """The number of the device, -1 on the CPU."""
    @property
    def grad_fn(self) -> _Node | None: ...
    def greater(self, other: Tensor | _Number) -> Tensor:
        """y = input > other."""
    def greater_(self, other: Tensor | _Number) -> Tensor:
        """y = input > other."""
    def greater_equal(self, other: Tensor | _Number) -> Tensor:
        """y = input >= other."""
    def greater_equal_(self, other: Tensor | _Number) -> Tensor:
        """y = input >= other."""
    def gt(self, other: Tensor | _Number) -> Tensor:
        """y = input > other."""
    def gt_(self, other: Tensor | _Number) -> Tensor:
        """y = input > other."""
    def half(self) -> Tensor:
        """This tensor as torch.float16."""
    def hardshrink(self, lambd: Tensor | _Number = ...) -> Tensor:
        """y = 0 where |x| <= lambd, else x."""
    def hash_tensor(self, dim: Any = ..., *, keepdim: _bool = False, mode: _int = 0, out: Any = None) -> Tensor:
        """y = the exclusive or of the elements over `dim`, as 64-bit floats or ints (uint64)."""
    def heaviside(self, values: Tensor) -> Tensor:
        """y = 0, values or 1, as input is negative (or NaN), zero or positive. No gradient."""
    def heaviside_(self, values: Tensor) -> Tensor:
        """y = 0, values or 1, as input is negative (or NaN), zero or positive. No gradient."""
    def histc(self, bins: _int = 100, min: Tensor | _Number = 0, max: Tensor | _Number = 0) -> Tensor:
        """y[b] = how many elements fall into the b-th of `bins` equal parts of [min, max]."""
    def histogram(self, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: _bool = False, out: Any = None) -> Any:
        """(hist, bin_edges): the number of elements (or the sum of their weights) in each bin."""
    def hsplit(self, indices_or_sections: _int | Sequence[_int] | Tensor) -> tuple[Tensor, ...]:
        """Views of parts along dim 1 (of a vector along dim 0)."""
    def hypot(self, other: Tensor) -> Tensor:
        """y = sqrt(input^2 + other^2), without overflow in between."""
    def hypot_(self, other: Tensor) -> Tensor:
        """y = sqrt(input^2 + other^2), without overflow in between."""
    def i0(self) -> Tensor:
        """y = I0(input), the modified Bessel function of order 0."""
    def i0_(self) -> Tensor:
        """y = I0(input), the modified Bessel function of order 0."""
    def igamma(self, other: Tensor) -> Tensor:
        """y = P(input, other), the regularised lower incomplete gamma function. NaN below 0."""
    def igamma_(self, other: Tensor) -> Tensor:
        """y = P(input, other), the regularised lower incomplete gamma function. NaN below 0."""
    def igammac(self, other: Tensor) -> Tensor:
        """y = Q(input, other), the regularised upper incomplete gamma function. NaN below 0."""
    def igammac_(self, other: Tensor) -> Tensor:
        """y = Q(input, other), the regularised upper incomplete gamma function. NaN below 0."""
    @property
    def imag(self) -> Tensor: ...
    @imag.setter
    def imag(self, value: Any) -> None: ...
    @overload
    def index_add(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """y = input, with y[..., index[k], ...] += source[..., k, ...] along dim `dim`."""
    @overload
    def index_add(self, dim: _int, index: Tensor, source: Tensor, *, alpha: Tensor | _Number) -> Tensor:
        """y = input, with y[..., index[k], ...] += source[..., k, ...] along dim `dim`."""
    @overload
    def index_add_(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """y = input, with y[..., index[k], ...] += source[..., k, ...] along dim `dim`."""
    @overload
    def index_add_(self, dim: _int, index: Tensor, source: Tensor, *, alpha: Tensor | _Number) -> Tensor:
        """y = input, with y[..., index[k], ...] += source[..., k, ...] along dim `dim`."""
    def index_copy(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """y = input, with y[..., index[k], ...] = source[..., k, ...] along dim `dim`."""
    def index_copy_(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """y = input, with y[..., index[k], ...] = source[..., k, ...] along dim `dim`."""
    def index_fill(self, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
        """y = input, with y[..., index[k], ...] = value along dim `dim`."""
    def index_fill_(self, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
        """y = input, with y[..., index[k], ...] = value along dim `dim`."""
    def index_put(self, indices: Any, values: Any, accumulate: _bool = False) -> Tensor:
        """input, with input[indices] = values, or += with `accumulate`."""
    def index_put_(self, indices: Any, values: _builtins.object, accumulate: _bool = False) -> Tensor:
        """self[indices] = values, or += with accumulate."""
    def index_reduce(self, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """y = input, with y[..., index[k], ...] reduced with all source[..., k, ...] that go there."""
    def index_reduce_(self, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """y = input, with y[..., index[k], ...] reduced with all source[..., k, ...] that go there."""
    def index_select(self, dim: _int, index: Tensor) -> Tensor:
        """y[..., k, ...] = input[..., index[k], ...] along dim `dim`."""
    def indices(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.indices`: see `wend.sparse`."""
    def inner(self, other: Tensor) -> Tensor:
        """y = sum over the last dims of both; plain multiplication if either is 0-d."""
    def int(self) -> Tensor:
        """This tensor as torch.int32."""
    def inverse(self, *, out: Tensor | None = None) -> Tensor:
        """linalg.inv."""
    def is_coalesced(self) -> _bool:
        """False: there are no such tensors here."""
    def is_complex(self) -> _bool:
        """Whether the dtype is complex."""
    def is_conj(self) -> _bool:
        """False: there are no such tensors here."""
    def is_contiguous(self, memory_format: _memory_format | None = None) -> _bool:
        """Whether the elements lie in row-major (or the given) order without gaps."""
    @property
    def is_cpu(self) -> Any: ...
    @property
    def is_cuda(self) -> _bool: ...
    def is_distributed(self) -> _bool:
        """False: there are no such tensors here."""
    def is_floating_point(self) -> _bool:
        """Whether the dtype is a floating-point dtype."""
    def is_inference(self) -> _bool:
        """Whether this tensor was made in inference mode."""
    @property
    def is_ipu(self) -> _bool: ...
    @property
    def is_maia(self) -> _bool: ...
    @property
    def is_meta(self) -> _bool: ...
    @property
    def is_mkldnn(self) -> _bool: ...
    @property
    def is_mps(self) -> _bool: ...
    @property
    def is_mtia(self) -> _bool: ...
    def is_neg(self) -> _bool:
        """False: there are no such tensors here."""
    @property
    def is_nested(self) -> _bool: ...
    def is_nonzero(self) -> _bool:
        """Truth of a one-element tensor."""
    def is_pinned(self, device: _device | _str | _int | None = None) -> _bool:
        """Whether the tensor is a copy by `pin_memory`, or in the memory of such a copy."""
    @property
    def is_quantized(self) -> _bool: ...
    def is_same_size(self, other: Tensor) -> _bool:
        """Whether the shapes are equal."""
    def is_set_to(self, tensor: Tensor) -> _bool:
        """Whether both are the same elements of the same memory."""
    def is_shared(self) -> _bool:
        """Whether the tensor lies in memory that processes share."""
    def is_signed(self) -> _bool:
        """Whether the dtype has negative numbers."""
    @property
    def is_sparse(self) -> _bool: ...
    @property
    def is_sparse_csr(self) -> _bool: ...
    @property
    def is_vulkan(self) -> _bool: ...
    @property
    def is_xla(self) -> _bool: ...
    @property
    def is_xpu(self) -> _bool: ...
    def isclose(self, other: Tensor, rtol: _float = ..., atol: _float = ..., equal_nan: _bool = False) -> Tensor:
        """y = |input - other| <= atol + rtol * |other|; equal infinities are close."""
    def isfinite(self) -> Tensor:
        """y = input is neither infinite nor NaN."""
    def isin(self, test_elements: Any, *, assume_unique: _bool = False, invert: _bool = False, out: Any = None) -> Tensor:
        """y = whether each element is among test_elements (invert: is not). Either may be a number."""
    def isinf(self) -> Tensor:
        """y = input is infinite."""
    def isnan(self) -> Tensor:
        """y = input is not a number."""
    def isneginf(self) -> Tensor:
        """y = input is -inf."""
    def isposinf(self) -> Tensor:
        """y = input is +inf."""
    def isreal(self) -> Tensor:
        """y = True where the imaginary part is 0, as that of a real number is."""
    def istft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False, *, out: Any = None) -> Tensor:
        """The signal whose stft is nearest to the input, in the sense of least squares."""
    def item(self) -> _builtins.bool | _builtins.int | _builtins.float:
        """The value of a tensor with a single element, as a Python number.  Raises RuntimeError."""
    @property
    def itemsize(self) -> _int: ...
    def kron(self, other: Tensor) -> Tensor:
        """y[i * m + k, ...] = input[i, ...] * other[k, ...] in every dim, of extent n * m."""
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False) -> _values_indices:
        """(values, indices): the k-th least element along `dim`, k from 1; NaN is the greatest."""
    @property
    def layout(self) -> Any: ...
    def lcm(self, other: Tensor) -> Tensor:
        """y = the least common multiple of ints, at least 0; 0 if either is 0."""
    def lcm_(self, other: Tensor) -> Tensor:
        """y = the least common multiple of ints, at least 0; 0 if either is 0."""
    def ldexp(self, other: Tensor) -> Tensor:
        """y = input * 2 ** other."""
    def ldexp_(self, other: Tensor) -> Tensor:
        """y = input * 2 ** other."""
    def le(self, other: Tensor | _Number) -> Tensor:
        """y = input <= other."""
    def le_(self, other: Tensor | _Number) -> Tensor:
        """y = input <= other."""
    def lerp(self, end: Tensor, weight: Tensor | _Number) -> Tensor:
        """y = input + weight * (end - input), counted from the end that is nearer."""
    def lerp_(self, end: Tensor, weight: Tensor | _Number) -> Tensor:
        """y = input + weight * (end - input), counted from the end that is nearer."""
    def less(self, other: Tensor | _Number) -> Tensor:
        """y = input < other."""
    def less_(self, other: Tensor | _Number) -> Tensor:
        """y = input < other."""
    def less_equal(self, other: Tensor | _Number) -> Tensor:
        """y = input <= other."""
    def less_equal_(self, other: Tensor | _Number) -> Tensor:
        """y = input <= other."""
    def lgamma(self) -> Tensor:
        """y = log |gamma(input)|."""
    def lgamma_(self) -> Tensor:
        """y = log |gamma(input)|."""
    def log(self) -> Tensor:
        """y = the natural logarithm of input."""
    def log10(self) -> Tensor:
        """y = the logarithm of input to base 10."""
    def log10_(self) -> Tensor:
        """y = the logarithm of input to base 10."""
    def log1p(self) -> Tensor:
        """y = log(1 + input), exact near 0."""
    def log1p_(self) -> Tensor:
        """y = log(1 + input), exact near 0."""
    def log2(self) -> Tensor:
        """y = the logarithm of input to base 2."""
    def log2_(self) -> Tensor:
        """y = the logarithm of input to base 2."""
    def log_(self) -> Tensor:
        """y = the natural logarithm of input."""
    def log_normal_(self, mean: _float = 1.0, std: _float = 2.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill with numbers whose logarithm is normal. Raises ValueRefused unless std > 0."""
    def log_softmax(self, dim: _int, dtype: _dtype | None = None) -> Tensor:
        """y = x - log of the sum of exp(x) along dim: log(softmax(x)), without overflow."""
    def logaddexp(self, other: Tensor) -> Tensor:
        """y = log(exp(input) + exp(other)), without overflow in between."""
    def logaddexp2(self, other: Tensor) -> Tensor:
        """y = log2(2 ** input + 2 ** other), without overflow in between."""
    def logcumsumexp(self, dim: _int | None) -> Tensor:
        """y[i] = log(exp(x[0]) + ... + exp(x[i])) along `dim`, without overflow."""
    def logdet(self) -> Tensor:
        """The logarithm of the determinant: -inf for 0; of real matrices, NaN if negative."""
    def logical_and(self, other: Tensor) -> Tensor:
        """y = input != 0 and other != 0."""
    def logical_and_(self, other: Tensor) -> Tensor:
        """y = input != 0 and other != 0."""
    def logical_not(self) -> Tensor:
        """y = input == 0."""
    def logical_not_(self) -> Tensor:
        """y = input == 0."""
    def logical_or(self, other: Tensor) -> Tensor:
        """y = input != 0 or other != 0."""
    def logical_or_(self, other: Tensor) -> Tensor:
        """y = input != 0 or other != 0."""
    def logical_xor(self, other: Tensor) -> Tensor:
        """y = either input or other, and not both, is not 0."""
    def logical_xor_(self, other: Tensor) -> Tensor:
        """y = either input or other, and not both, is not 0."""
    def logit(self, eps: Tensor | _Number | None = None) -> Tensor:
        """y = log(input / (1 - input)); input is clamped to [eps, 1 - eps] first if eps is given."""
    def logit_(self, eps: Tensor | _Number | None = None) -> Tensor:
        """y = log(input / (1 - input)); input is clamped to [eps, 1 - eps] first if eps is given."""
    def logsumexp(self, dim: Sequence[_int] | _int | None, keepdim: _bool = False) -> Tensor:
        """y = log(sum of exp(x) over `dim`), without overflow; -inf over nothing."""
    def long(self) -> Tensor:
        """This tensor as torch.int64."""
    def lstsq(*args: _builtins.object, **kwargs: _builtins.object) -> Any:
        """Removed from PyTorch: raises, and names linalg.lstsq."""
    def lt(self, other: Tensor | _Number) -> Tensor:
        """y = input < other."""
    def lt_(self, other: Tensor | _Number) -> Tensor:
        """y = input < other."""
    def lu(self, pivot: _bool = True, get_infos: _bool = False, out: tuple[Tensor, ...] | None = None) -> Any:
        """linalg.lu_factor_ex: (LU, pivots), and with `get_infos` info."""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
        """X such that A X = input, of the factors of A."""
    @property
    def mH(self) -> Tensor: ...
    mT: Tensor
    def map2_(self, x: Tensor, y: Tensor, callable: Callable[..., Any]) -> Tensor:
        """Overwrite each element by callable(element, of x, of y): Python speed."""
    def map_(self, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
        """Overwrite each element by callable(element, element of `other`): Python speed."""
    def masked_fill(self, mask: Tensor, value: Tensor | _Number) -> Tensor:
        """y = value where mask is True, else input; mask and input broadcast together."""
    def masked_fill_(self, mask: Tensor, value: Tensor | _Number) -> Tensor:
        """y = value where mask is True, else input; mask and input broadcast together."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """y = input, with elements where mask is True replaced by those of source, in order."""
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """y = input, with elements where mask is True replaced by those of source, in order."""
    def masked_select(self, mask: Tensor, *, out: Any = None) -> Tensor:
        """(count,): the elements of input where mask is True, in row-major order."""
    def matmul(self, other: Tensor) -> Tensor:
        """y = x @ w over the last two dims; the dims before broadcast; a 1-D operand is a vector."""
    def matrix_exp(self, *, out: Any = None) -> Tensor:
        """The exponential of square matrices: I + A + A^2 / 2 + A^3 / 6 + ..."""
    def matrix_power(self, n: _int) -> Tensor:
        """y = x @ x @ ... @ x (n times); the identity for 0, powers of the inverse below 0."""
    @overload
    def max(self) -> Tensor:
        """max(input): the greatest element; max(input, dim): (values, indices) along dim; max(input, other): the greater of each pair."""
    @overload
    def max(self, other: Tensor) -> Tensor:
        """max(input): the greatest element; max(input, dim): (values, indices) along dim; max(input, other): the greater of each pair."""
    @overload
    def max(self, dim: _int | None, keepdim: _bool = False) -> _values_indices:
        """max(input): the greatest element; max(input, dim): (values, indices) along dim; max(input, other): the greater of each pair."""
    def maximum(self, other: Tensor) -> Tensor:
        """y = the larger of input and other; NaN if either is."""
    def mean(self, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """y = sum of x over `dim` / number of elements summed."""
    @overload
    def median(self) -> Tensor:
        """y = the median of all elements, the lower in the middle; NaN beside any NaN."""
    @overload
    def median(self, dim: _int, keepdim: _bool = False) -> _values_indices:
        """y = the median of all elements, the lower in the middle; NaN beside any NaN."""
    @overload
    def min(self) -> Tensor:
        """min(input): the least element; min(input, dim): (values, indices) along dim; min(input, other): the lesser of each pair."""
    @overload
    def min(self, other: Tensor) -> Tensor:
        """min(input): the least element; min(input, dim): (values, indices) along dim; min(input, other): the lesser of each pair."""
    @overload
    def min(self, dim: _int | None, keepdim: _bool = False) -> _values_indices:
        """min(input): the least element; min(input, dim): (values, indices) along dim; min(input, other): the lesser of each pair."""
    def minimum(self, other: Tensor) -> Tensor:
        """y = the smaller of input and other; NaN if either is."""
    def mm(self, mat2: Tensor) -> Tensor:
        """y = x @ w for matrices. x: (n, m)   mat2: (m, p)   ->   (n, p)."""
    def mode(self, dim: _int = -1, keepdim: _bool = False) -> _values_indices:
        """(values, indices): the most frequent element along `dim`, and the last place of it."""
    @overload
    def moveaxis(self, source: Sequence[_int] | _int | None, destination: Sequence[_int] | _int | None) -> Tensor:
        """y = x with dims `source` moved to positions `destination`; all else keeps the order."""
    @overload
    def moveaxis(self, source: Sequence[_int] | _int | None, *destination: _int) -> Tensor:
        """y = x with dims `source` moved to positions `destination`; all else keeps the order."""
    @overload
    def movedim(self, source: Sequence[_int] | _int | None, destination: Sequence[_int] | _int | None) -> Tensor:
        """y = x with dims `source` moved to positions `destination`; all else keeps the order."""
    @overload
    def movedim(self, source: Sequence[_int] | _int | None, *destination: _int) -> Tensor:
        """y = x with dims `source` moved to positions `destination`; all else keeps the order."""
    def msort(self) -> Tensor:
        """y = the elements in order along dim 0."""
    def mul(self, other: Tensor | _Number) -> Tensor:
        """y = input * other; and, of bools."""
    def mul_(self, other: Tensor | _Number) -> Tensor:
        """y = input * other; and, of bools."""
    def multinomial(self, num_samples: _int, replacement: _bool = False, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
        """Indices drawn with probabilities proportional to the rows of `input`."""
    def multiply(self, other: Tensor | _Number) -> Tensor:
        """y = input * other; and, of bools."""
    def multiply_(self, other: Tensor | _Number) -> Tensor:
        """y = input * other; and, of bools."""
    def mv(self, vec: Tensor) -> Tensor:
        """y = x @ v. x: (n, m)   vec: (m,)   ->   (n,)."""
    def mvlgamma(self, p: _int) -> Tensor:
        """y = the logarithm of the multivariate gamma function of dimension p >= 1."""
    def mvlgamma_(self, p: _int) -> Tensor:
        """y = the logarithm of the multivariate gamma function of dimension p >= 1."""
    @property
    def name(self) -> Any: ...
    def nan_to_num(self, nan: Tensor | _Number | None = None, posinf: Tensor | _Number | None = None, neginf: Tensor | _Number | None = None) -> Tensor:
        """y = input, NaN replaced by nan (0), inf and -inf by posinf, neginf (the dtype's limits)."""
    def nan_to_num_(self, nan: Tensor | _Number | None = None, posinf: Tensor | _Number | None = None, neginf: Tensor | _Number | None = None) -> Tensor:
        """y = input, NaN replaced by nan (0), inf and -inf by posinf, neginf (the dtype's limits)."""
    def nanmean(self, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """y = mean over `dim` of the elements that are not NaN. Raises DTypeError for bool and ints."""
    @overload
    def nanmedian(self) -> Tensor:
        """y = the median of all elements that are not NaN, the lower of the two in the middle."""
    @overload
    def nanmedian(self, dim: _int, keepdim: _bool = False) -> _values_indices:
        """y = the median of all elements that are not NaN, the lower of the two in the middle."""
    def nanquantile(self, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Any = None) -> Tensor:
        """The q-th quantiles of the elements that are not NaN; see `quantiles`."""
    def nansum(self, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """y = sum of x over `dim`, NaN counted as 0. Raises DTypeError for complex."""
    def narrow(self, dim: _int, start: _int | Tensor, length: _int) -> Tensor:
        """y = x[..., start:start+length, ...] along dim `dim`; a negative start counts from the end."""
    def narrow_copy(*args: Any, **kwargs: Any) -> Any:
        """As `narrow`, in memory of its own."""
    @property
    def nbytes(self) -> Any: ...
    def ndimension(self) -> _int:
        """Number of dims."""
    def ne(self, other: Tensor | _Number) -> Tensor:
        """y = input != other."""
    def ne_(self, other: Tensor | _Number) -> Tensor:
        """y = input != other."""
    def neg(self) -> Tensor:
        """y = -input. Raises DTypeError for bools."""
    def neg_(self) -> Tensor:
        """y = -input. Raises DTypeError for bools."""
    def negative(self) -> Tensor:
        """y = -input. Raises DTypeError for bools."""
    def negative_(self) -> Tensor:
        """y = -input. Raises DTypeError for bools."""
    def nelement(self) -> _int:
        """Number of elements."""
    def new(self, *args: Any, **kwargs: _builtins.object) -> Tensor:
        """A tensor of this dtype from sizes or data."""
    @overload
    def new_empty(self, *, size: Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor: ...
    @overload
    def new_empty(self, *size: _int | Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
        """A tensor of this tensor's type, with arbitrary elements."""
    def new_empty_strided(self, size: Sequence[_int], stride: Sequence[_int], **keywords: Any) -> Tensor:
        """A tensor of this tensor's type and of these strides, with arbitrary elements."""
    def new_full(self, size: _int | Sequence[_int], fill_value: Any, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
        """A constant of this tensor's type."""
    @overload
    def new_ones(self, *, size: Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor: ...
    @overload
    def new_ones(self, *size: _int | Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
        """Ones of this tensor's type."""
    def new_tensor(self, data: Any, *, dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
        """`tensor(data)` of this tensor's type."""
    @overload
    def new_zeros(self, *, size: Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor: ...
    @overload
    def new_zeros(self, *size: _int | Sequence[_int], dtype: _dtype | None = ..., device: _device | _str | _int | None = ..., layout: _layout | None = ..., requires_grad: _bool = ..., pin_memory: _bool = ..., out: Tensor | None = ..., memory_format: _memory_format | None = ...) -> Tensor:
        """Zeros of this tensor's type."""
    def nextafter(self, other: Tensor) -> Tensor:
        """y = the next number that the dtype has after input, towards other."""
    def nextafter_(self, other: Tensor) -> Tensor:
        """y = the next number that the dtype has after input, towards other."""
    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor:
        """(count, rank) of int64: the positions of the elements that are not zero, in order."""
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]:
        """(count, rank) of int64: the positions of the elements that are not zero, in order."""
    def nonzero_static(self, *, size: _int, fill_value: Tensor | _Number = -1) -> Tensor:
        """y[k, :] = the position of the k-th element that is not zero, in row-major order."""
    def norm(self, p: _float | _str | None = 'fro', dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, dtype: _dtype | None = None) -> Tensor:
        """y = p-norm of the elements of x over `dim`; 'fro' is 2, 'nuc' the sum of singular values."""
    def normal_(self, mean: _float = 0.0, std: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill with normal numbers."""
    def not_equal(self, other: Tensor | _Number) -> Tensor:
        """y = input != other."""
    def not_equal_(self, other: Tensor | _Number) -> Tensor:
        """y = input != other."""
    def numel(self) -> _int:
        """Number of elements."""
    def numpy(self, *, force: _bool = False) -> _Array:
        """The array that shares this tensor's memory: writes to either show in both."""
    def orgqr(self, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """linalg.householder_product."""
    def ormqr(self, input2: Tensor, input3: Tensor, left: _bool = True, transpose: _bool = False) -> Tensor:
        """Q C (left) or C Q, Q the product of the reflections, or its transpose."""
    def outer(self, vec2: Tensor) -> Tensor:
        """y[i, j] = x[i] * v[j]. input: (n,)   vec2: (m,)   ->   (n, m)."""
    @property
    def output_nr(self) -> _int: ...
    @overload
    def permute(self, dims: Sequence[_int] | _int) -> Tensor:
        """y = x with dims in the order `dims`: dim k of y is dim dims[k] of x."""
    @overload
    def permute(self, *dims: _int) -> Tensor:
        """y = x with dims in the order `dims`: dim k of y is dim dims[k] of x."""
    def pin_memory(self, device: _device | _str | _int | None = None) -> Tensor:
        """A copy that counts as pinned if an accelerator is there, else this tensor."""
    def pinverse(self, rcond: _float = 1e-15, *, out: Any = None) -> Tensor:
        """linalg.pinv with singular values up to rcond times the largest taken for 0."""
    def polygamma(self, n: _int) -> Tensor:
        """The n-th derivative of `digamma` of each element, n >= 0."""
    def polygamma_(self, n: _int) -> Tensor:
        """`polygamma` in place. Raises DTypeError for a tensor of integers."""
    def positive(self) -> Tensor:
        """The tensor itself.  Raises DTypeError for bool."""
    def pow(self, exponent: Tensor | _Number) -> Tensor:
        """y = input ** exponent, for exponents that need only products, quotients and roots."""
    def pow_(self, exponent: Tensor | _Number) -> Tensor:
        """y = input ** exponent, for exponents that need only products, quotients and roots."""
    def prelu(self, weight: Tensor) -> Tensor:
        """y = x if x > 0 else weight * x."""
    def prod(self, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """y = product of x over `dim`; types as for sum."""
    def put(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """y = input, with y.ravel()[index[k]] = source[k], or += with `accumulate`."""
    def put_(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """y = input, with y.ravel()[index[k]] = source[k], or += with `accumulate`."""
    def qr(self, some: _bool = True, *, out: tuple[Tensor, ...] | None = None) -> _QrParts:
        """linalg.qr, 'complete' unless `some`."""
    def quantile(self, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Any = None) -> Tensor:
        """The q-th quantiles along `dim`, or of all elements; see `quantiles`."""
    def rad2deg(self) -> Tensor:
        """y = input * 180 / pi."""
    def rad2deg_(self) -> Tensor:
        """y = input * 180 / pi."""
    def random_(self, *bounds: _int, generator: _Generator | None = None, **kw: Any) -> Tensor:
        """Fill with integers: random_(), random_(to), random_(from, to)."""
    def ravel(self) -> Tensor:
        """y = x as one dim, in row-major order."""
    @property
    def real(self) -> Tensor: ...
    @real.setter
    def real(self, value: Any) -> None: ...
    def reciprocal(self) -> Tensor:
        """y = 1 / input."""
    def reciprocal_(self) -> Tensor:
        """y = 1 / input."""
    def register_hook(self, hook: Callable[..., Any]) -> _RemovableHandle:
        """Call `hook(grad)` when this tensor's gradient is known; a result replaces the gradient."""
    def register_post_accumulate_grad_hook(self, hook: Callable[..., Any]) -> _RemovableHandle:
        """Call `hook(tensor)` after the gradient has been added to this leaf's `.grad`."""
    def relu(self) -> Tensor:
        """y = max(input, 0); gradient 0 at 0."""
    def relu_(self) -> Tensor:
        """y = max(input, 0); gradient 0 at 0."""
    def remainder(self, other: Tensor | _Number) -> Tensor:
        """y = input - floor(input / other) * other: the remainder with the sign of other."""
    def remainder_(self, other: Tensor | _Number) -> Tensor:
        """y = input - floor(input / other) * other: the remainder with the sign of other."""
    def renorm(self, p: _float | _str | None, dim: _int, maxnorm: Tensor | _Number) -> Tensor:
        """y = input, each slice along `dim` of p-norm above maxnorm scaled down to maxnorm."""
    def renorm_(self, p: _float | _str | None, dim: _int, maxnorm: Tensor | _Number) -> Tensor:
        """y = input, each slice along `dim` of p-norm above maxnorm scaled down to maxnorm."""
    @overload
    def repeat(self, repeats: Sequence[_int] | _int) -> Tensor:
        """y = input, repeats[d] times over along dim d; there may be more repeats than dims."""
    @overload
    def repeat(self, *repeats: _int) -> Tensor:
        """y = input, repeats[d] times over along dim d; there may be more repeats than dims."""
    @overload
    def repeat_interleave(self, repeats: Tensor | _int, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
        """input, slice k along `dim` repeated repeats[k] times in a row (by default: of all elements)."""
    @overload
    def repeat_interleave(self, *, output_size: _int | None = None) -> Tensor:
        """input, slice k along `dim` repeated repeats[k] times in a row (by default: of all elements)."""
    def requires_grad_(self, requires_grad: _bool = True) -> Tensor:
        """Make this leaf require grad, or not.  Raises GraphError for a tensor with a history."""
    @overload
    def reshape(self, shape: Sequence[_int] | _int) -> Tensor:
        """y = x in the given shape; an extent may be -1: it follows from the rest."""
    @overload
    def reshape(self, *shape: _int) -> Tensor:
        """y = x in the given shape; an extent may be -1: it follows from the rest."""
    def reshape_as(self, other: Tensor) -> Tensor:
        """self in the shape of other."""
    def resize(self, *sizes: _builtins.object) -> Tensor:
        """`resize_` without a change of this tensor; PyTorch has deprecated the method."""
    def resize_(self, *sizes: _builtins.object, size: Any = None, memory_format: _memory_format | None = None) -> Tensor:
        """Give this tensor a new shape; elements are kept in row-major order, new elements are 0."""
    def resize_as(self, tensor: Tensor) -> Tensor:
        """`resize` to the shape of another tensor; PyTorch has deprecated the method."""
    def resize_as_(self, the_template: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
        """resize_ to the shape of `the_template`."""
    def resize_as_sparse_(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.resize_as_sparse_`: see `wend.sparse`."""
    def resolve_conj(self) -> Tensor:
        """This tensor: dense, with nothing put off."""
    def resolve_neg(self) -> Tensor:
        """This tensor: dense, with nothing put off."""
    def retain_grad(self) -> None:
        """Let backward passes set `.grad` of this tensor, although the tensor is no leaf."""
    @property
    def retains_grad(self) -> _bool: ...
    @overload
    def roll(self, shifts: Sequence[_int] | _int, dims: Sequence[_int] | _int | None = None) -> Tensor:
        """y[..., i, ...] = x[..., (i - shift) mod n, ...] along each of dims."""
    @overload
    def roll(self, shifts: Sequence[_int] | _int, *dims: _int) -> Tensor:
        """y[..., i, ...] = x[..., (i - shift) mod n, ...] along each of dims."""
    @overload
    def rot90(self, k: _int = 1, dims: Sequence[_int] | _int = ...) -> Tensor:
        """y = input turned k times by 90 degrees, from dims[0] towards dims[1]. Raises ShapeError."""
    @overload
    def rot90(self, k: _int = 1, *dims: _int) -> Tensor:
        """y = input turned k times by 90 degrees, from dims[0] towards dims[1]. Raises ShapeError."""
    @overload
    def round(self) -> Tensor:
        """y = the nearest integer, halves to the even integer."""
    @overload
    def round(self, *, decimals: _int) -> Tensor:
        """y = the nearest integer, halves to the even integer."""
    @overload
    def round_(self) -> Tensor:
        """y = the nearest integer, halves to the even integer."""
    @overload
    def round_(self, *, decimals: _int) -> Tensor:
        """y = the nearest integer, halves to the even integer."""
    def row_indices(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.row_indices`: see `wend.sparse`."""
    def rsqrt(self) -> Tensor:
        """y = 1 / sqrt(input)."""
    def rsqrt_(self) -> Tensor:
        """y = 1 / sqrt(input)."""
    @overload
    def scatter(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """y = input, with y[index[i, j], j] = src[i, j] for dim 0, and alike for every dim."""
    @overload
    def scatter(self, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
        """y = input, with y[index[i, j], j] = src[i, j] for dim 0, and alike for every dim."""
    @overload
    def scatter(self, dim: _int, index: Tensor, src: Tensor | _Number, *, reduce: _str) -> Tensor:
        """y = input, with y[index[i, j], j] = src[i, j] for dim 0, and alike for every dim."""
    @overload
    def scatter_(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """y = input, with y[index[i, j], j] = src[i, j] for dim 0, and alike for every dim."""
    @overload
    def scatter_(self, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
        """y = input, with y[index[i, j], j] = src[i, j] for dim 0, and alike for every dim."""
    @overload
    def scatter_(self, dim: _int, index: Tensor, src: Tensor | _Number, *, reduce: _str) -> Tensor:
        """y = input, with y[index[i, j], j] = src[i, j] for dim 0, and alike for every dim."""
    def scatter_add(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """y = input, with y[index[i, j], j] += src[i, j] for dim 0, and alike for every dim."""
    def scatter_add_(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """y = input, with y[index[i, j], j] += src[i, j] for dim 0, and alike for every dim."""
    def scatter_reduce(self, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """y = input, with y[index[i, j], j] reduced with all src[i, j] that go there, for dim 0, ..."""
    def scatter_reduce_(self, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """y = input, with y[index[i, j], j] reduced with all src[i, j] that go there, for dim 0, ..."""
    def select(self, dim: _int, index: _int) -> Tensor:
        """y = x[..., index, ...] along dim `dim`, which goes; a negative index counts from the end."""
    def select_scatter(self, src: Tensor, dim: _int, index: _int) -> Tensor:
        """y = input, with input[..., index, ...] along dim `dim` replaced by src."""
    def set_(self, source: Any = None, *unused: _builtins.object, **more: _builtins.object) -> Tensor:
        """Share the data of `source`; without arguments, become empty."""
    def sgn(self) -> Tensor:
        """y = input / |input|, and 0 for 0: the sign of real numbers."""
    def sgn_(self) -> Tensor:
        """y = input / |input|, and 0 for 0: the sign of real numbers."""
    def share_memory_(self) -> Tensor:
        """Move the tensor into memory that processes share: each sees what the others write."""
    def short(self) -> Tensor:
        """This tensor as torch.int16."""
    def sigmoid(self) -> Tensor:
        """y = 1 / (1 + exp(-input))."""
    def sigmoid_(self) -> Tensor:
        """y = 1 / (1 + exp(-input))."""
    def sign(self) -> Tensor:
        """y = 1, 0 or -1, as input is positive, zero (or NaN) or negative."""
    def sign_(self) -> Tensor:
        """y = 1, 0 or -1, as input is positive, zero (or NaN) or negative."""
    def signbit(self) -> Tensor:
        """y = input has a minus sign: -0.0 too, unlike input < 0."""
    def sin(self) -> Tensor:
        """y = sin(input), of radians."""
    def sin_(self) -> Tensor:
        """y = sin(input), of radians."""
    def sinc(self) -> Tensor:
        """y = sin(pi input) / (pi input), 1 at 0."""
    def sinc_(self) -> Tensor:
        """y = sin(pi input) / (pi input), 1 at 0."""
    def sinh(self) -> Tensor:
        """y = sinh(input)."""
    def sinh_(self) -> Tensor:
        """y = sinh(input)."""
    def slice_scatter(self, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1) -> Tensor:
        """y = input, with input[..., start:end:step, ...] along dim `dim` replaced by src."""
    def slogdet(self, *, out: tuple[Tensor, ...] | None = None) -> _SignAndLog:
        """linalg.slogdet."""
    def smm(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.smm`: see `wend.sparse`."""
    def softmax(self, dim: _int, dtype: _dtype | None = None) -> Tensor:
        """y = exp(x) / sum of exp(x) along dim."""
    def solve(*args: _builtins.object, **kwargs: _builtins.object) -> Any:
        """Removed from PyTorch: raises, and names linalg.solve."""
    def sort(self, dim: _int = -1, descending: _bool = False, stable: _bool | None = None) -> _values_indices:
        """(values, indices): the elements in order along `dim`; values[k] = x[indices[k]]."""
    def sparse_dim(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.sparse_dim`: see `wend.sparse`."""
    def sparse_mask(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.sparse_mask`: see `wend.sparse`."""
    def sparse_resize_(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.sparse_resize_`: see `wend.sparse`."""
    def sparse_resize_and_clear_(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.sparse_resize_and_clear_`: see `wend.sparse`."""
    def split(self, split_size_or_sections: _int | Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Views of parts along `dim`: of equal size (the last may be smaller), or of the sizes given."""
    def split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Views of parts of the given sizes along `dim`. Raises ShapeError for sizes of another sum."""
    def sqrt(self) -> Tensor:
        """y = the square root of input; NaN below 0; gradient inf at 0."""
    def sqrt_(self) -> Tensor:
        """y = the square root of input; NaN below 0; gradient inf at 0."""
    def square(self) -> Tensor:
        """y = input ** 2; an int64 of bools."""
    def square_(self) -> Tensor:
        """y = input ** 2; an int64 of bools."""
    @overload
    def squeeze(self, dim: Sequence[_int] | _int | None = None) -> Tensor:
        """y = x without dims of extent 1: all such dims, or those among `dim`."""
    @overload
    def squeeze(self, *dim: _int) -> Tensor:
        """y = x without dims of extent 1: all such dims, or those among `dim`."""
    def squeeze_(self, dim: Sequence[_int] | _int | None = None) -> Tensor:
        """y = x without dims of extent 1: all such dims, or those among `dim`."""
    def sspaddmm(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.sspaddmm`: see `wend.sparse`."""
    def std(self, dim: Sequence[_int] | _int | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: Tensor | _Number | None = None) -> Tensor:
        """y = sqrt(var(x)); the gradient at 0 is 0. See var."""
    def stft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, pad_mode: _str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None, align_to_window: _bool | None = None, *, out: Any = None) -> Tensor:
        """y[..., f, t] = the entry f of the transform of the window that begins at t * hop_length."""
    def storage(self) -> _TypedStorage:
        """The memory of this tensor, as elements of the tensor's dtype."""
    def storage_offset(self) -> _int:
        """Position of the first element in the storage, in elements."""
    @overload
    def stride(self, dim: None = None) -> tuple[_int, ...]:
        """Steps in elements from an index to the next, per dim or of a dim."""
    @overload
    def stride(self, dim: _int) -> _int:
        """Steps in elements from an index to the next, per dim or of a dim."""
    @overload
    def sub(self, other: Tensor | _Number) -> Tensor:
        """y = input - other. Raises DTypeError for bools."""
    @overload
    def sub(self, other: Tensor | _Number, *, alpha: Tensor | _Number) -> Tensor:
        """y = input - other. Raises DTypeError for bools."""
    @overload
    def sub(self, alpha: Tensor | _Number, other: Tensor) -> Tensor:
        """y = input - other. Raises DTypeError for bools."""
    @overload
    def sub_(self, other: Tensor | _Number) -> Tensor:
        """y = input - other. Raises DTypeError for bools."""
    @overload
    def sub_(self, other: Tensor | _Number, *, alpha: Tensor | _Number) -> Tensor:
        """y = input - other. Raises DTypeError for bools."""
    @overload
    def sub_(self, alpha: Tensor | _Number, other: Tensor) -> Tensor:
        """y = input - other. Raises DTypeError for bools."""
    @overload
    def subtract(self, other: Tensor | _Number) -> Tensor:
        """y = input - other. Raises DTypeError for bools."""
    @overload
    def subtract(self, other: Tensor | _Number, *, alpha: Tensor | _Number) -> Tensor:
        """y = input - other. Raises DTypeError for bools."""
    @overload
    def subtract(self, other: Tensor | _Number, alpha: Tensor | _Number) -> Tensor:
        """y = input - other. Raises DTypeError for bools."""
    @overload
    def subtract_(self, other: Tensor | _Number) -> Tensor:
        """y = input - other. Raises DTypeError for bools."""
    @overload
    def subtract_(self, other: Tensor | _Number, *, alpha: Tensor | _Number) -> Tensor:
        """y = input - other. Raises DTypeError for bools."""
    @overload
    def subtract_(self, other: Tensor | _Number, alpha: Tensor | _Number) -> Tensor:
        """y = input - other. Raises DTypeError for bools."""
    def sum(self, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """y = sum of x over `dim`."""
    def sum_to_size(self, *sizes: Any, size: Any = None) -> Tensor:
        """self summed over the dims that broadcasting the size to self's shape would repeat."""
    def svd(self, some: _bool = True, compute_uv: _bool = True, *, out: Any = None) -> _FormerSvdParts:
        """(U, S, V): input = U diag(S) V^T; without `compute_uv`, U and V are zeros."""
    def swapaxes(self, axis0: _int, axis1: _int) -> Tensor:
        """y = x with dims axis0 and axis1 swapped (NumPy's name of `transpose`)."""
    def swapaxes_(self, axis0: _int, axis1: _int) -> Tensor:
        """y = x with dims axis0 and axis1 swapped (NumPy's name of `transpose`)."""
    def swapdims(self, dim0: _int, dim1: _int) -> Tensor:
        """y = x with dims dim0 and dim1 swapped."""
    def swapdims_(self, dim0: _int, dim1: _int) -> Tensor:
        """y = x with dims dim0 and dim1 swapped."""
    def symeig(*args: _builtins.object, **kwargs: _builtins.object) -> Any:
        """Removed from PyTorch: raises, and names linalg.eigh."""
    def t(self) -> Tensor:
        """y = x.T of a tensor of at most 2 dims. Raises ShapeError beyond."""
    def t_(self) -> Tensor:
        """y = x.T of a tensor of at most 2 dims. Raises ShapeError beyond."""
    def take(self, index: Tensor) -> Tensor:
        """y[...] = input.ravel()[index[...]]: elements by place in row-major order."""
    def take_along_dim(self, indices: Tensor, dim: _int | None = None) -> Tensor:
        """y[i, j] = input[indices[i, j], j] for dim 0, and so on; all dims but `dim` broadcast."""
    def tan(self) -> Tensor:
        """y = tan(input), of radians."""
    def tan_(self) -> Tensor:
        """y = tan(input), of radians."""
    def tanh(self) -> Tensor:
        """y = tanh(input)."""
    def tanh_(self) -> Tensor:
        """y = tanh(input)."""
    def tensor_split(self, indices_or_sections: _int | Sequence[_int] | Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
        """Views of parts along `dim`: so many of nearly equal size, or cut at the given places."""
    @overload
    def tile(self, dims: Sequence[_int] | _int) -> Tensor:
        """y = input, dims[d] times over along dim d; missing leading repeats are 1."""
    @overload
    def tile(self, *dims: _int) -> Tensor:
        """y = input, dims[d] times over along dim d; missing leading repeats are 1."""
    @overload
    def to(self, dtype: _dtype, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(dtype), to(device[, dtype]), to(other): this tensor converted, or itself."""
    @overload
    def to(self, device: _device | _str | _int | None = None, dtype: _dtype | None = None, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(dtype), to(device[, dtype]), to(other): this tensor converted, or itself."""
    @overload
    def to(self, other: Tensor, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(dtype), to(device[, dtype]), to(other): this tensor converted, or itself."""
    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: _bool | None = None) -> Tensor:
        """This tensor, dense already, in that dtype."""
    def to_device(self, device: _device | _str | _int | None, *, stream: Any = None) -> Tensor:
        """This tensor on a device: the array API's name of `to`."""
    def to_padded_tensor(self, padding: _float, output_size: Sequence[_int] | None = None) -> Tensor:
        """Raises ArgumentTypeError: only a nested tensor has components to pad."""
    def to_sparse(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.to_sparse`: see `wend.sparse`."""
    def to_sparse_bsc(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.to_sparse_bsc`: see `wend.sparse`."""
    def to_sparse_bsr(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.to_sparse_bsr`: see `wend.sparse`."""
    def to_sparse_coo(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.to_sparse_coo`: see `wend.sparse`."""
    def to_sparse_csc(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.to_sparse_csc`: see `wend.sparse`."""
    def to_sparse_csr(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.to_sparse_csr`: see `wend.sparse`."""
    def tolist(self) -> _builtins.list[Any]:
        """The values as nested lists of Python numbers; a number for a 0-d tensor."""
    def topk(self, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True) -> _values_indices:
        """(values, indices): the k greatest (or least) elements along `dim`, in order."""
    def trace(self) -> Tensor:
        """The sum of the main diagonal of a matrix. Raises ShapeError unless input is 2-d."""
    def transpose(self, dim0: _int, dim1: _int) -> Tensor:
        """y = x with dims dim0 and dim1 swapped."""
    def transpose_(self, dim0: _int, dim1: _int) -> Tensor:
        """y = x with dims dim0 and dim1 swapped."""
    def triangular_solve(self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False, *, out: tuple[Tensor, ...] | None = None) -> _TriangularSolution:
        """(solution, cloned_coefficient): X such that A X = input, and a copy of A."""
    def tril(self, diagonal: _int = 0) -> Tensor:
        """y = input on and below a diagonal of the last two dims, zero above."""
    def tril_(self, diagonal: _int = 0) -> Tensor:
        """y = input on and below a diagonal of the last two dims, zero above."""
    def triu(self, diagonal: _int = 0) -> Tensor:
        """y = input on and above a diagonal of the last two dims, zero below."""
    def triu_(self, diagonal: _int = 0) -> Tensor:
        """y = input on and above a diagonal of the last two dims, zero below."""
    def true_divide(self, other: Tensor | _Number) -> Tensor:
        """y = input / other, the true quotient: ints are divided as floats."""
    def true_divide_(self, other: Tensor | _Number) -> Tensor:
        """y = input / other, the true quotient: ints are divided as floats."""
    def trunc(self) -> Tensor:
        """y = input without the fraction."""
    def trunc_(self) -> Tensor:
        """y = input without the fraction."""
    @overload
    def type(self, dtype: None = None, non_blocking: _bool = False) -> _str:
        """The name of this tensor's type, or the tensor converted to `dtype` (or type name)."""
    @overload
    def type(self, dtype: _dtype | _str | _builtins.type[Tensor], non_blocking: _bool = False) -> Tensor:
        """The name of this tensor's type, or the tensor converted to `dtype` (or type name)."""
    def type_as(self, other: Tensor) -> Tensor:
        """This tensor in the dtype of `other`, on the device of `other`."""
    def unbind(self, dim: _int = 0) -> tuple[Tensor, ...]:
        """Views of all slices along `dim`, without that dim. Raises DimError for a 0-d tensor."""
    @overload
    def unflatten(self, dim: _int, sizes: Sequence[_int] | _int) -> Tensor:
        """y = x with dim `dim` split into dims of the given sizes; a size may be -1."""
    @overload
    def unflatten(self, dim: _int, *sizes: _int) -> Tensor:
        """y = x with dim `dim` split into dims of the given sizes; a size may be -1."""
    def unfold(self, dimension: _int, size: _int, step: _int) -> Tensor:
        """y[..., w, ..., k] = x[..., w * step + k, ...]: the windows of `size` elements along a dim."""
    def uniform_(self, from_: _float = 0.0, to: _float = 1.0, *, generator: Any = None, **kw: Any) -> Tensor:
        """Fill with uniform numbers from..to; both parts of complex numbers."""
    @overload
    def unique(self, sorted: _bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: _int | None = None) -> Tensor:
        """The different elements (or slices along `dim`) in order, each once."""
    @overload
    def unique(self, sorted: _bool = True, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: _int | None = None) -> tuple[Tensor, Tensor]:
        """The different elements (or slices along `dim`) in order, each once."""
    @overload
    def unique(self, sorted: _bool = True, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: _int | None = None) -> tuple[Tensor, Tensor]:
        """The different elements (or slices along `dim`) in order, each once."""
    @overload
    def unique(self, sorted: _bool = True, *, return_inverse: Literal[True], return_counts: Literal[True], dim: _int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The different elements (or slices along `dim`) in order, each once."""
    @overload
    def unique_consecutive(self, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: _int | None = None) -> Tensor:
        """The first element (or slice along `dim`) of each run of equal elements, in place order."""
    @overload
    def unique_consecutive(self, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: _int | None = None) -> tuple[Tensor, Tensor]:
        """The first element (or slice along `dim`) of each run of equal elements, in place order."""
    @overload
    def unique_consecutive(self, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: _int | None = None) -> tuple[Tensor, Tensor]:
        """The first element (or slice along `dim`) of each run of equal elements, in place order."""
    @overload
    def unique_consecutive(self, *, return_inverse: Literal[True], return_counts: Literal[True], dim: _int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The first element (or slice along `dim`) of each run of equal elements, in place order."""
    def unsafe_chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """As `chunk`."""
    def unsafe_split(self, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """As `split`."""
    def unsafe_split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0, *, out: Any = None) -> tuple[Tensor, ...]:
        """split_with_sizes whose parts may be written to without gradients noticing; here they do."""
    def unsqueeze(self, dim: _int) -> Tensor:
        """y = x with a dim of extent 1 put in at position dim (-rank-1 <= dim <= rank)."""
    def unsqueeze_(self, dim: _int) -> Tensor:
        """y = x with a dim of extent 1 put in at position dim (-rank-1 <= dim <= rank)."""
    def untyped_storage(self) -> _UntypedStorage:
        """The bytes of the memory that this tensor lies in."""
    def values(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.values`: see `wend.sparse`."""
    def var(self, dim: Sequence[_int] | _int | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: Tensor | _Number | None = None) -> Tensor:
        """y = sum((x - mean)**2) / max(0, n - correction) over `dim`."""
    def vdot(self, other: Tensor) -> Tensor:
        """y = sum of conj(x) * v for two vectors of equal length."""
    @overload
    def view(self, *shape: _int) -> Tensor:
        """y = x in the given shape, sharing x's elements; an extent may be -1."""
    @overload
    def view(self, size: Sequence[_int]) -> Tensor:
        """y = x in the given shape, sharing x's elements; an extent may be -1."""
    @overload
    def view(self, dtype: _dtype) -> Tensor:
        """y = x in the given shape, sharing x's elements; an extent may be -1."""
    def view_as(self, other: Tensor) -> Tensor:
        """This tensor viewed in the shape of `other`."""
    def vsplit(self, indices_or_sections: _int | Sequence[_int] | Tensor) -> tuple[Tensor, ...]:
        """Views of parts along dim 0."""
    def where(self, condition: Tensor, other: Any) -> Tensor:
        """self where condition holds, else other."""
    def xlogy(self, other: Tensor | _Number) -> Tensor:
        """y = input * log(other); 0 where input is 0, unless other is NaN."""
    def xlogy_(self, other: Tensor | _Number) -> Tensor:
        """y = input * log(other); 0 where input is 0, unless other is NaN."""
    def xpu(self, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: Any = None) -> Tensor:
        """This tensor on an OpenCL device.  Raises DeviceError if there is no such device."""
    def zero_(self) -> Tensor:
        """Overwrite every element by 0."""
def native_new(cls: Any) -> Any: ...
def wrap(value: Any) -> Tensor: ...
def symbolic_value(type_: Any, serial: Any, index: Any) -> Value: ...
def fresh_serial() -> Any: ...
def held(type_: Any, buffer: Any) -> Value: ...
def held_in_segment(type_: Any, buffer: Any, segment: Any, index: Any) -> Value: ...
def slim(value: Any) -> Value: ...
def make_leaf(handle: Any) -> Any: ...
def value_of(handle: Any) -> Value: ...
def bump(handle: Any) -> Any: ...
class Record:
    ...
    prim: Any
    mode: Any
    out_type: TensorType
    code: Any
    program: Any
    rest: Any
    outs: Any
    i0: _int
    i1: _int
    i2: _int
    lasti: _int
    n_in: _int
    first: _int
    n_out: _int
    arg0: _int
    requires_grad: _bool
    many: _bool
    is_step: _bool
    linked: _bool
    within: _bool
    def operand_indices(self) -> Any: ...
class State(Record):
    ...
    child: Any
    t0: TensorType
    t1: TensorType
    parent: Any
    last_args: Any
    t2: TensorType
    trest: Any
    simple: _int
    depth: _int
    children: Any
    plans: Any
    nodes: Any
    leaves: Any
    step: Any
    inner: _int
    stamp: _int
    born: _int
    passed: _int
    gained: _int
    ending: _int
    prim: Any
    i0: Any
    i1: Any
    i2: Any
    linked: Any
    def __init__(self, parent: Any, prim: Any) -> None: ...
    def path(self) -> Any: ...
    def key(self) -> Any: ...
    def offspring(self) -> Any: ...
    def retain(self, kept: Any) -> Any: ...
class Trace:
    ...
    root: Any
    lock: Any
    take: Any
    give: Any
    serial: _int
    mode: Any
    symbolic: Any
    eager: _bool
    volatile: _bool
    foreign: Any
    soft_nodes: _int
    hard_nodes: _int
    soft_bytes: _int
    hard_bytes: _int
    modules: Any
    flushing: _bool
    fiber: Any
    journal: Any
    state: Any
    states: Any
    values: Any
    args: Any
    touched: Any
    sites: Any
    live: Any
    n_live: _int
    n: _int
    nbytes: _int
    held_bytes: _int
    ops: _int
    ops_before: _int
    extra: Any
    site_code: Any
    site_lasti: _int
    ref: Any
    room: Any
    def __init__(self, root: Any) -> None: ...
    def begin(self, root: Any) -> Any: ...
    def renew_lock(self) -> Any: ...
    def reset(self) -> Any: ...
def current_trace() -> Trace: ...
def swap_trace(trace: Any) -> Trace: ...
INTERNAL_PREFIX: list[Any]
def is_internal(code: Any) -> _bool: ...
def refreshed(handle: Any) -> Value: ...
def enter(trace: Any, v: Any) -> _int: ...
def exchange_classes(a: Any, b: Any) -> Any: ...
def own_attribute(handle: Any, name: Any) -> Any: ...
def rebase(alias: Any, base: Any) -> Any: ...
def set_autobatch(on: Any) -> Any: ...
class FlushJob:
    ...
    states: Any
    values: Any
    args: Any
    state: Any
    sites: Any
    serial: _int
    touched: Any
    extra: Any
    fault: Any
    def __init__(self, states: Any, values: Any, args: Any, state: Any, sites: Any, serial: Any, touched: Any, extra: Any) -> None: ...
def wanted(trace: Any) -> list[Any]: ...
def flush(trace: Any) -> Any: ...
def flush_now(trace: Any) -> Any: ...
def several() -> _bool: ...
def passed(trace: Any, states: Any) -> Any: ...
def synchronize() -> Any: ...
def ensure(v: Any) -> Any: ...
class OpFunction:
    ...
    binder: Any
    inplace: _bool
    plans: Any
    plan0: Any
    overloads: Any
    primitive: Any
    general: Any
    vectorcall: Any
    __name__: Any
    __qualname__: Any
    __module__: Any
    lengths: Any
    one: Any
    two: Any
    three: Any
    pair: Any
    with_float: Any
    with_int: Any
    from_float: Any
    from_int: Any
    def __init__(self, name: Any, binder: Any, inplace: Any) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, obj: Any, cls: Any) -> Any: ...
    @property
    def __signature__(self) -> Any: ...
    def __repr__(self) -> _str: ...
    def __reduce__(self) -> Any: ...
    def call1(self, x: Any) -> Any: ...
    def quick2(self, x: Any, y: Any) -> Any: ...
    def call(self, args: Any, nargs: Any, kwnames: Any) -> Any: ...
    def call_planned(self, args: Any, nargs: Any, kwnames: Any) -> Any: ...
    def record_planned(self, plan: Any, k: Any, args: Any, nargs: Any, kwnames: Any) -> Any: ...
    def promote(self, k: Any, plan: Any) -> Any: ...
def record_list(prim: Any, tensors: Any, values: Any) -> Any: ...
def has_override(a: Any) -> Any: ...
def call_op(function: Any, args: Any, nargs: Any, kwnames: Any) -> Any: ...
def end_value(v: Any) -> Any: ...
def end_record(step: Any) -> Any: ...
def end_tensor(handle: Any) -> Any: ...
def end_alias(alias: Any) -> Any: ...
def install() -> Any: ...
