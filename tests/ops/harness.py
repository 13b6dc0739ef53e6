"""What the tests that come from the registry share: samples, special values, snippets, PyTorch.

Nothing here names an op.  A family of ops gives samples (`Primitive.samples`) as float64, int64
and bool arrays; the harness converts the float64 ones to every dtype the op supports, and leaves
the others (indices, masks) as they are.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import wend._engine.ops
from wend._engine.base import dtypes
from wend._engine.base.devices import CPU
from wend._engine.base.dtypes import CATEGORY_NAMES, DType
from wend._engine.base.errors import ExecutionError
from wend._engine.core import _hot, _types
from wend._engine.core.primitive import PUBLIC, REGISTRY, Composite, Sample
from wend._engine.core.signature import Binder
from wend._engine.core.symbolic import category_of
from wend._engine.core.types import Number, Spec

#: Without PyTorch the comparisons with it are left out. It is imported when first needed.
HAS_TORCH = importlib.util.find_spec("torch") is not None


def load_all_ops() -> None:
    """Import every module under wend._engine.ops, so that the registry is complete."""
    for module in pkgutil.walk_packages(wend._engine.ops.__path__, "wend._engine.ops."):
        importlib.import_module(module.name)


load_all_ops()
OPS = [REGISTRY[name] for name in sorted(REGISTRY)]
PRIMITIVES = [op for op in OPS if not issubclass(op, Composite)]
ELEMENTWISE = [op for op in PRIMITIVES if op.facts.elementwise]
#: The unsigned types beyond uint8 have `test_unsigned.py`.
REAL = [dtype for dtype in dtypes.ALL[:12] if dtype.category < dtypes.COMPLEX]
TOLERANCE = {  # relative to the magnitude of the expected value, and absolute
    dtypes.float64: 1e-9,
    dtypes.float32: 2e-5,
    dtypes.float16: 4e-3,
    dtypes.bfloat16: 3e-2,
    dtypes.complex64: 2e-5,
    dtypes.complex128: 1e-9,
}


def supported(op: Any) -> list[DType]:
    """The dtypes that the op says it takes; complex ones if it takes no others."""
    found = [dtype for dtype in REAL if CATEGORY_NAMES[dtype.category] in op.facts.supports]
    return found or [dtypes.complex64, dtypes.complex128]


def by_dtype(ops: list[Any]) -> list[Any]:
    """(op, dtype) parameters, with ids."""
    import pytest

    return [
        pytest.param(op, dtype, id=f"{op.name}-{dtype.name}")
        for op in ops
        for dtype in supported(op)
    ]


def instance(op: Any) -> Any:
    """An object to call `samples` on, which may not depend on attributes."""
    return op.__new__(op)


# -- samples ----------------------------------------------------------------------------------


def samples(op: Any, dtype: DType | None = None) -> list[Sample]:
    """The op's samples, the same in each run, floats converted to `dtype`."""
    seed = sum(map(ord, op.name))
    found = list(instance(op).samples(np.random.default_rng(seed)))
    return [convert(sample, dtype or dtypes.float64) for sample in found]


def convert(sample: Sample, dtype: DType) -> Sample:
    """The sample with float64 arrays (lists of them too) of another dtype."""
    return Sample(
        *(_convert(a, dtype) for a in sample.args),
        **{key: _convert(a, dtype) for key, a in sample.kwargs.items()},
    )


def _convert(value: Any, dtype: DType) -> Any:
    if isinstance(value, np.generic):  # arithmetic on a 0-d array made it a scalar
        value = np.asarray(value)
    if isinstance(value, (list, tuple)) and any(isinstance(v, np.ndarray) for v in value):
        return type(value)(_convert(v, dtype) for v in value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "c" and dtype.is_complex:
        return np.asarray(value).astype(dtype.numpy)
    if not isinstance(value, np.ndarray) or value.dtype != np.float64:
        return value
    if dtype is dtypes.bool_:
        return np.asarray(value > 0)
    if dtype is dtypes.uint8:
        return np.asarray(np.ceil(np.abs(value))).astype(np.uint8)
    with np.errstate(all="ignore"):
        if dtype.category == dtypes.INT:
            # Away from 0, so that a divisor stays one.
            return np.asarray(np.where(value < 0, np.floor(value), np.ceil(value))).astype(
                dtype.numpy
            )
        return np.asarray(value).astype(dtype.numpy)


_INF, _NAN = float("inf"), float("nan")
# fmt: off
_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 1.5, -2.5, 0.1, 1e-3, 7.25, -31.0,
           88.0, 3e-5, -3e-5, 200.0, _INF, -_INF, _NAN]
# fmt: on


def special_values(dtype: DType, with_ends: bool = True) -> np.ndarray:
    """Values at which formulas go wrong: zeros, infinities, NaN, ends of the range."""
    if dtype is dtypes.bool_:
        return np.array([False, True])
    if dtype.category == dtypes.INT:
        info = dtypes.iinfo(dtype)
        values = [0, 1, 2, 3, 5, 7, 8, 31, 100, info.max, info.max - 1]
        values += [-1, -2, -3, -7, -8, -100, info.min + 1] if dtype.is_signed else []
        return np.array(values).astype(dtype.numpy)
    info = dtypes.finfo(dtype)
    ends = [info.max, info.min, info.smallest_normal, 1 + info.eps, 1 - info.eps]
    values = np.array(_FLOATS + (ends if with_ends else []))
    with np.errstate(all="ignore"):
        values = values.astype(dtype.numpy)
    if dtype is dtypes.bfloat16:  # conversions do not agree on the sign of NaN
        values.view(np.uint16)[np.isnan(values)] = 0x7FC0
    return values


def special_grid(op: Any, dtype: DType, with_ends: bool = True) -> list[np.ndarray]:
    """Flat operands that hold every combination of special values."""
    kinds = [p.kind for p in op.params if p.kind in ("tensor", "operand")]
    promotes = op.promotes or (True,) * len(kinds)
    axes = [special_values(dtype if p else dtypes.bool_, with_ends) for p in promotes]
    if len(axes) > 2:
        axes = [axis[: 12 if i else 2] for i, axis in enumerate(axes)]
    return [np.ascontiguousarray(a.ravel()) for a in np.meshgrid(*axes, indexing="ij")]


def has_grid(op: Any) -> bool:
    """Whether the op is elementwise and needs nothing but tensors."""
    return op.facts.elementwise and all(p.kind in ("tensor", "operand") for p in op.params)


def accepted(op: Any, sample: Sample) -> tuple[Sample, bool]:
    """(the elements of a sample of flat operands of which the op does not raise, whether all)."""

    def evaluate(part: Sample) -> None:
        prim, params = bind(op, part)
        prim.reference(*params)

    if not isinstance(outcomes(evaluate, sample)[1], ExecutionError):
        return sample, True
    size = next(a.size for a in sample.args if isinstance(a, np.ndarray))
    keep = [i for i in range(size) if outcomes(evaluate, narrowed(sample, i))[1] is None]
    return map_arrays(sample, lambda a: a[keep]), False


# -- from a call to the rules -----------------------------------------------------------------


def tensor(array: np.ndarray, requires_grad: bool = False) -> Any:
    """A Wend tensor of a copy of the array."""
    array = np.array(array, copy=True, order="C")
    type_ = _types.intern_type(array.shape, dtypes.from_numpy(array.dtype), device())
    made = _hot.wrap(_hot.held(type_, array))
    if requires_grad:
        made.requires_grad_(True)
    return made


#: Where `tensor` puts what it makes, innermost last.
_PLACES: list[Any] = [CPU]


def device() -> Any:
    return _PLACES[-1]


@contextmanager
def on(place: Any) -> Iterator[None]:
    """A block in which `tensor` puts what it makes on a device, the default device there."""
    _PLACES.append(place)
    try:
        with place:
            yield
    finally:
        _PLACES.pop()


def map_arrays(sample: Sample, function: Any) -> Sample:
    """The sample with each array replaced by function(array)."""

    def each(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return function(value)
        if isinstance(value, (list, tuple)) and any(isinstance(v, np.ndarray) for v in value):
            return type(value)(each(v) for v in value)
        return value

    return Sample(*map(each, sample.args), **{k: each(v) for k, v in sample.kwargs.items()})


def bind(op: Any, sample: Sample) -> tuple[Any, list[Any]]:
    """(interned primitive, its non-attribute parameters with arrays as operands) of a call."""
    bound = map_arrays(sample, tensor)
    prim, tensors, args, _ = Binder(op.name, op).bind(bound.args, bound.kwargs)
    return prim, prim.arrange([t.value.buffer for t in tensors], args)


def specs(prim: Any, params: list[Any]) -> list[Any]:
    """The parameters as a type rule sees them."""

    def each(value: Any, kind: str) -> Any:
        if isinstance(value, np.ndarray):
            return Spec(value.shape, dtypes.from_numpy(value.dtype))
        if kind == "tensors":
            return [each(v, "tensor") for v in value]
        if kind in ("operand", "scalar", "scalar?") and value is not None:
            return Number(category_of(value))
        return value

    kinds = [p.kind for p in prim.params if not p.is_attr]
    return [each(p, kind) for p, kind in zip(params, kinds, strict=True)]


def map_operands(params: list[Any], function: Any) -> list[Any]:
    """The parameters with each array, in lists too, replaced by function(array)."""
    return [
        function(p)
        if isinstance(p, np.ndarray)
        else map_operands(p, function)
        if isinstance(p, list)
        else p
        for p in params
    ]


def operands(params: list[Any]) -> list[np.ndarray]:
    """The arrays among the parameters, those in lists too."""
    found: list[np.ndarray] = []
    map_operands(params, found.append)
    return found


def as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


# -- PyTorch ----------------------------------------------------------------------------------


_OVERLOADED = {
    op: name for name, function in PUBLIC.items() for op in getattr(function, "overloads", ()) or ()
}


def torch_function(op: Any) -> Any:
    """PyTorch's function or method of the op's public name, or None."""
    if not HAS_TORCH:
        return None
    import torch

    if op in _OVERLOADED and hasattr(torch, _OVERLOADED[op]):
        return getattr(torch, _OVERLOADED[op])
    for name in op.torch.functions:
        if hasattr(torch, name):
            return getattr(torch, name)
    for name in getattr(op, "functional", ()):
        if hasattr(torch.nn.functional, name):
            return getattr(torch.nn.functional, name)
    for name in op.torch.methods:
        if hasattr(torch.Tensor, name):
            return getattr(torch.Tensor, name)
    return None


def to_torch(array: np.ndarray, requires_grad: bool = False) -> Any:
    """A PyTorch tensor of a copy of the array."""
    import torch

    array = np.array(array, copy=True, order="C")
    if dtypes.from_numpy(array.dtype) is dtypes.bfloat16:  # bits, not values: a NaN has a sign
        made = torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    else:
        made = torch.from_numpy(array)
    return made.requires_grad_(True) if requires_grad else made


def from_torch(result: Any) -> np.ndarray:
    """The array of a PyTorch tensor, in Wend's dtype of the same name."""
    name = str(result.dtype).removeprefix("torch.")
    result = result.detach()
    if name == "complex32":  # which NumPy lacks
        name, result = "complex64", result.cfloat()
    wide = result.float() if name == "bfloat16" else result
    return wide.numpy().astype(dtypes.named(name).numpy)


def torch_sample(sample: Sample, requires_grad: bool = False) -> Sample:
    """The sample with PyTorch's tensors and dtypes."""
    import torch

    def each(array: np.ndarray) -> Any:
        return to_torch(array, requires_grad and array.dtype.kind == "f")

    def attribute(value: Any) -> Any:
        return getattr(torch, value.name) if isinstance(value, DType) else value

    moved = map_arrays(sample, each)
    return Sample(*map(attribute, moved.args), **{k: attribute(v) for k, v in moved.kwargs.items()})


def map_tensors(sample: Sample, function: Any) -> Sample:
    """The sample with each of PyTorch's tensors, in lists too, replaced by function(tensor)."""

    def each(value: Any) -> Any:
        if hasattr(value, "untyped_storage"):
            return function(value)
        return type(value)(map(each, value)) if isinstance(value, (list, tuple)) else value

    return Sample(*map(each, sample.args), **{k: each(v) for k, v in sample.kwargs.items()})


# -- comparing --------------------------------------------------------------------------------


def difference(got: Any, want: Any, loose: bool = False) -> str:
    """What differs between two arrays: dtype, shape, or the first value; "" if they agree.

    loose: for composites and gradients, where each framework rounds at other places
    """
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype:
        return f"dtype is {got.dtype}, should be {want.dtype}"
    if got.shape != want.shape:
        return f"shape is {got.shape}, should be {want.shape}"
    if got.dtype.kind in "biu":
        wrong = got != want
    else:
        dtype = dtypes.from_numpy(got.dtype)
        bound = TOLERANCE[dtype]
        if loose:
            bound = bound * 4 if dtype.itemsize == 2 else max(bound, 1e-7)
        exact = np.complex128 if dtype.is_complex else np.float64
        a, b = got.astype(exact), want.astype(exact)
        floor = 1.0 if bound > 1e-3 else 1e-2  # halves: rounding in between is not ours to match
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= bound * (np.abs(b) + floor)
        wrong = ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
    if not wrong.any():
        return ""
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {wrong.size} values differ, first at {where}: "
        f"{got[where]!s}, should be {want[where]!s}"
    )


def first_difference(got: Any, want: Any) -> int | None:
    """Flat index of the worst element of two arrays of one shape, or None."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or not got.size:
        return None
    for i, (a, b) in enumerate(zip(got.ravel(), want.ravel(), strict=True)):
        if difference(a, b):
            return i
    return None


def narrowed(sample: Sample, i: int | None) -> Sample:
    """Of a sample whose operands are flat and equally long, only the i-th element."""
    sizes = {a.shape for a in sample.args if isinstance(a, np.ndarray)}
    if i is None or len(sizes) != 1 or len(next(iter(sizes))) != 1:
        return sample
    return map_arrays(sample, lambda a: a[i : i + 1])


def literal(value: Any) -> str:
    """Python source of an argument."""
    if isinstance(value, np.ndarray):
        flat = np.array2string(value.astype(_printable(value)), separator=", ", threshold=10**6)
        shape = "" if value.size else f".reshape({value.shape})"
        name = dtypes.from_numpy(value.dtype).name
        text = " ".join(flat.split())
        return f"torch.tensor(np.array({text}){shape}, dtype=torch.{name})"
    if isinstance(value, DType):
        return str(value)
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(literal, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)"
    return repr(value)


def _printable(value: np.ndarray) -> Any:
    return np.float64 if value.dtype.kind not in "biu" else value.dtype


def snippet(op: Any, sample: Sample, fault: str) -> str:
    """A failure as a program that can be pasted; `import torch` for PyTorch's answer."""
    arguments = [literal(a) for a in sample.args]
    arguments += [f"{key}={literal(a)}" for key, a in sample.kwargs.items()]
    joined = ",\n    ".join(arguments)
    return (
        f"{op.name}: {fault}\n"
        "-----\n"
        "import numpy as np\nfrom numpy import inf, nan\nimport wend as torch\n"
        "from wend._engine.core.primitive import ops\n"
        f"print(ops.{op.name}(\n    {joined}))\n"
        "-----"
    )


def report(faults: list[str]) -> None:
    """Fail with all faults, the first three in full."""
    if faults:
        more = f"\n... and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise AssertionError("\n\n".join(faults[:3]) + more)


def outcomes(function: Any, *args: Any, **kwargs: Any) -> Any:
    """(result, None) or (None, the exception) of a call."""
    try:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs), None
    except Exception as error:
        return None, error


def each_sample(op: Any, dtype: DType) -> Iterator[Sample]:
    yield from samples(op, dtype)


def enter(operand: Any, target: DType | None) -> Any:
    """An operand as generated code sees it: in the dtype of the computation."""
    if operand is None:
        return None
    array = np.asarray(operand)
    if target is None:
        return array
    with np.errstate(all="ignore"):
        return array.astype(target.numpy)


# -- recorded calls ---------------------------------------------------------------------------


def value(t: Any) -> np.ndarray:
    """The data of a Wend tensor."""
    return np.asarray(_hot.ensure(_hot.value_of(t)))


def leaves(sample: Sample) -> list[np.ndarray]:
    """The float arrays of a sample, in order: what gradients are taken of."""
    found: list[np.ndarray] = []
    map_arrays(sample, lambda a: found.append(a) if is_float(a) else None)
    return found


def is_float(array: np.ndarray) -> bool:
    return dtypes.from_numpy(array.dtype).category >= dtypes.FLOAT


def with_leaves(sample: Sample, arrays: list[Any]) -> Sample:
    """The sample with its float arrays replaced, in order; the others become Wend tensors."""
    rest = iter(arrays)
    return map_arrays(sample, lambda a: next(rest) if is_float(a) else tensor(a))


def call(op: Any, sample: Sample, arrays: list[Any]) -> list[Any]:
    """Float outputs of the op, recorded, on Wend tensors in the place of the float arrays."""
    moved = with_leaves(sample, arrays)
    results = as_tuple(op.function(*moved.args, **moved.kwargs))
    return [r for r in results if hasattr(r, "dtype")]


def floating(results: list[Any]) -> list[Any]:
    return [r for r in results if r.dtype.category >= dtypes.FLOAT]


def forward(op: Any, sample: Sample, arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [value(r) for r in floating(call(op, sample, [tensor(a) for a in arrays]))]


def cotangents(results: list[Any], seed: int) -> list[np.ndarray]:
    """Fixed random weights of the results' shapes and dtypes."""
    rng = np.random.default_rng(seed)
    return [_weights(rng, tuple(r.shape), r.dtype.numpy) for r in results]


def _weights(rng: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    found = np.asarray(rng.uniform(0.5, 1.5, size=shape))
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng.uniform(0.5, 1.5, size=shape)
    return np.asarray(found).astype(dtype)


def computed(op: Any, sample: Sample) -> list[np.ndarray]:
    """Results of the op, recorded and flushed."""
    moved = map_arrays(sample, tensor)
    results = as_tuple(op.function(*moved.args, **moved.kwargs))
    return [value(r) for r in results]


class Unused(Exception):
    """No result depends on any of the inputs."""


def gradients(op: Any, sample: Sample, arrays: list[np.ndarray], twice: bool = False) -> Any:
    """Gradients of the weighted sum of the results; with `twice`, of those gradients' sum."""
    from wend._frontend.autograd.backward import grad

    inputs = [tensor(a, requires_grad=True) for a in arrays]
    outs = [r for r in floating(call(op, sample, inputs)) if r.requires_grad]
    if not outs or not inputs:
        raise Unused
    weights = [tensor(c) for c in cotangents(outs, 1)]
    first = grad(outs, inputs, weights, create_graph=twice, allow_unused=True)
    if not twice:
        return [None if g is None else value(g) for g in first]
    weights = [tensor(c) for c in weights_of(arrays, 2)]
    seconds = [(g, w) for g, w in zip(first, weights, strict=True) if g is not None]
    seconds = [(g, w) for g, w in seconds if g.requires_grad]
    if not seconds:
        raise Unused
    found = grad([g for g, _ in seconds], inputs, [w for _, w in seconds], allow_unused=True)
    return [None if g is None else value(g) for g in found]


def torch_gradients(function: Any, sample: Sample, twice: bool = False) -> Any:
    """What PyTorch has for `gradients`."""
    import torch

    inputs: list[Any] = []

    def each(array: np.ndarray) -> Any:
        made = to_torch(array, is_float(array))
        if is_float(array):
            inputs.append(made)
        return made

    moved = map_arrays(sample, each)
    results = as_tuple(function(*moved.args, **moved.kwargs))
    outs = [r for r in results if hasattr(r, "requires_grad") and r.requires_grad]
    if not outs:
        raise Unused
    weights = _torch_cotangents(outs, 1)
    first = torch.autograd.grad(outs, inputs, weights, create_graph=twice, allow_unused=True)
    if twice:
        weights = _torch_cotangents(inputs, 2)
        seconds = [(g, w) for g, w in zip(first, weights, strict=True) if g is not None]
        seconds = [(g, w) for g, w in seconds if g.requires_grad]
        if not seconds:
            raise Unused
        first = torch.autograd.grad(
            [g for g, _ in seconds], inputs, [w for _, w in seconds], allow_unused=True
        )
    return [None if g is None else from_torch(g) for g in first]


def _torch_cotangents(outs: list[Any], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    found = []
    for out in outs:
        dtype = np.complex128 if out.dtype.is_complex else np.float64
        found.append(to_torch(_weights(rng, tuple(out.shape), dtype)))
    return found


def directional(function: Any, arrays: list[np.ndarray], step: float) -> tuple[float, bool]:
    """(derivative of a sum along a fixed random direction, whether the function is smooth there).

    function(arrays) -> list of (array, its weights). Quotients of one side or of another step that
    differ show a kink or a jump.
    """
    rng = np.random.default_rng(3)
    directions = [np.asarray(rng.uniform(0.5, 1.5, size=a.shape)) for a in arrays]

    def at(t: float) -> float:
        results = function([a + t * d for a, d in zip(arrays, directions, strict=True)])
        return sum(float((r * w).sum()) for r, w in results)

    here, ahead, behind = at(0.0), at(step), at(-step)
    slope = (ahead - behind) / (2 * step)
    half = (at(step / 2) - at(-step / 2)) / step
    bend = abs((ahead - here) - (here - behind)) / step + abs(slope - half)
    return half, bool(np.isfinite(slope)) and bend <= 1e-2 * (1 + abs(slope))


def dot_direction(found: list[Any], arrays: list[np.ndarray]) -> float:
    """The found gradients along the direction of `directional`."""
    rng = np.random.default_rng(3)
    directions = [np.asarray(rng.uniform(0.5, 1.5, size=a.shape)) for a in arrays]
    return sum(
        float((g * d).sum()) for g, d in zip(found, directions, strict=True) if g is not None
    )


def weights_of(arrays: list[np.ndarray], seed: int) -> list[np.ndarray]:
    """`cotangents` for arrays."""
    rng = np.random.default_rng(seed)
    return [_weights(rng, a.shape, a.dtype) for a in arrays]
