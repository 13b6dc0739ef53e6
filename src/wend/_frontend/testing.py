"""`wend.testing`: comparing tensors in tests, and making tensors for tests."""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import BOOL, DType, finfo, iinfo
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend import random
from wend._frontend.creation import checked_dtype, sizes_of, tensor
from wend._frontend.formats import memory_format
from wend._frontend.interop import compare as interop_compare

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

# (rtol, atol) by dtype; types that are not listed must be equal.
TOLERANCES: dict[DType, tuple[float, float]] = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}
OLD_TOLERANCES: dict[DType, tuple[float, float]] = {
    dtypes.float16: (1e-3, 1e-3),
    dtypes.float32: (1e-4, 1e-5),
    dtypes.float64: (1e-5, 1e-8),
}
Message = str | Callable[[str], str] | None


class Checks:
    """The settings of a call of `assert_close`."""

    def __init__(
        self,
        rtol: float | None,
        atol: float | None,
        allow_subclasses: bool = True,
        equal_nan: bool = False,
        check_device: bool = True,
        check_dtype: bool = True,
        check_layout: bool = True,
        check_stride: bool = False,
    ) -> None:
        if (rtol is None) != (atol is None):
            missing = "rtol" if rtol is None else "atol"
            raise ArgumentError(
                "assert_close: both 'rtol' and 'atol' must be either specified or omitted, "
                f"but got no {missing}"
            )
        self.tolerances = None if rtol is None or atol is None else (rtol, atol)
        self.allow_subclasses = allow_subclasses
        self.equal_nan = equal_nan
        self.check_device = check_device
        self.check_dtype = check_dtype
        self.check_layout = check_layout
        self.check_stride = check_stride

    def limits(self, *types: DType) -> tuple[float, float]:
        """(rtol, atol): as given, or the widest that these dtypes need."""
        if self.tolerances is not None:
            return self.tolerances
        rows = [TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in types]
        return max(row[0] for row in rows), max(row[1] for row in rows)


def assert_close(
    actual: object,
    expected: object,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    actual, expected: tensors, arrays, numbers, None, or (nested) sequences and mappings of these.
    rtol, atol: both or neither; by default as tight as the dtype allows (0 for ints and bools).
    equal_nan: whether two nan are close.   check_*: whether these must be the same, too.
    msg: the error's text, or a function that makes it of the usual text.
    Raises ArgumentTypeError for objects that cannot be compared with each other.
    """
    __tracebackhide__ = True
    checks = Checks(
        rtol, atol, allow_subclasses, equal_nan, check_device, check_dtype, check_layout,
        check_stride,
    )  # fmt: skip
    fault = _first_fault(actual, expected, checks, ())
    if fault is None:
        return
    if callable(msg):
        fault = msg(fault)
    elif msg is not None:
        fault = msg
    raise AssertionError(fault)


def assert_allclose(
    actual: object,
    expected: object,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """PyTorch's former `assert_close`: wider tolerances, dtypes may differ, nan equals nan."""
    __tracebackhide__ = True
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated; use `torch.testing.assert_close()`",
        FutureWarning,
        stacklevel=2,
    )
    if not isinstance(actual, Tensor):
        actual = tensor(actual)
    if not isinstance(expected, Tensor):
        expected = tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rows = [OLD_TOLERANCES.get(value.dtype, (0.0, 0.0)) for value in (actual, expected)]
        rtol, atol = max(row[0] for row in rows), max(row[1] for row in rows)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=False,
        msg=msg or None,
    )


# --- finding the first fault ----------------------------------------------------------------------


def _first_fault(actual: Any, expected: Any, checks: Checks, path: tuple[Any, ...]) -> str | None:
    """The text of the first difference in a depth-first walk; None if there is none."""
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return _at(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", path
            )
        pairs = [(i, actual[i], expected[i]) for i in range(len(actual))]
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            return _at(_missing_keys(actual, expected), path)
        pairs = [(key, actual[key], expected[key]) for key in actual]
    else:
        return _at(_leaf_fault(actual, expected, checks), path)
    for step, a, b in pairs:
        fault = _first_fault(a, b, checks, (*path, step))
        if fault is not None:
            return fault
    return None


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _missing_keys(actual: Mapping[Any, Any], expected: Mapping[Any, Any]) -> str:
    missing = sorted(set(expected) - set(actual), key=str)
    additional = sorted(set(actual) - set(expected), key=str)
    text = "The keys of the mappings do not match:"
    if missing:
        text += f"\nMissing keys in the actual mapping: {missing}"
    if additional:
        text += f"\nAdditional keys in the actual mapping: {additional}"
    return text


def _at(fault: str | None, path: tuple[Any, ...]) -> str | None:
    if fault is None or not path:
        return fault
    place = "".join(f"[{step!r}]" for step in path)
    return f"{fault}\n\nThe failure occurred for item {place}"


def _leaf_fault(actual: object, expected: object, checks: Checks) -> str | None:
    if actual is None or expected is None:
        return None if actual is expected else f"None mismatch: {actual!r} is not {expected!r}"
    if isinstance(actual, bool) and isinstance(expected, bool):
        return None if actual is expected else f"Booleans mismatch: {actual} is not {expected}"
    if _is_number(actual) and _is_number(expected):
        return _number_fault(actual, expected, checks)
    a, b = _tensor_like(actual), _tensor_like(expected)
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    same = related if checks.allow_subclasses else type(actual) is type(expected)
    if a is None or b is None or not same:
        raise ArgumentTypeError(
            "assert_close: no comparison pair was able to handle inputs of type "
            f"{type(actual)} and {type(expected)}"
        )
    return _attribute_fault(actual, expected, a, b, checks) or _value_fault(a, b, checks)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, complex)) and not isinstance(value, bool)


def _tensor_like(value: object) -> Any:
    """The array behind a tensor or a NumPy array; None for anything else."""
    if isinstance(value, Tensor):
        return _hot.ensure(_hot.refreshed(value))
    return interop_compare.values_of(value)


def _number_fault(actual: object, expected: object, checks: Checks) -> str | None:
    if checks.check_dtype and type(actual) is not type(expected):
        return f"The (d)types do not match: {type(actual)} != {type(expected)}."
    names = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}
    kinds = [
        names[next(k for k in (int, float, complex) if isinstance(v, k))]
        for v in (actual, expected)
    ]
    rtol, atol = checks.limits(*kinds)
    return _scalar_fault(actual, expected, rtol, atol, checks.equal_nan)


def _scalar_fault(
    actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool
) -> str | None:
    difference = abs(actual - expected)
    if actual == expected or (equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return None
    if cmath.isfinite(difference) and difference <= atol + rtol * abs(expected):
        return None
    relative = float("inf") if expected == 0 else difference / abs(expected)
    exact = rtol == 0 and atol == 0
    lines = [f"Scalars are not {'equal' if exact else 'close'}!", ""]
    lines.append(f"Expected {expected} but got {actual}.")
    for what, value, limit in (("Absolute", difference, atol), ("Relative", relative, rtol)):
        lines.append(f"{what} difference: {value}" + ("" if exact else f" (up to {limit} allowed)"))
    return "\n".join(lines)


def _attribute_fault(actual: Any, expected: Any, a: Any, b: Any, checks: Checks) -> str | None:
    """The first difference before values: in shape, or in an attribute that the checks name."""

    def fault(name: str, x: object, y: object) -> str:
        return f"The values for attribute '{name}' do not match: {x} != {y}."

    if a.shape != b.shape:
        return fault("shape", _size_text(a.shape), _size_text(b.shape))
    x, y = dtypes.from_numpy(a.dtype), dtypes.from_numpy(b.dtype)
    both = isinstance(actual, Tensor) and isinstance(expected, Tensor)
    if both and checks.check_device and actual.device != expected.device:
        return fault("device", actual.device, expected.device)
    if checks.check_dtype and x is not y:
        return fault("dtype", x, y)
    if both and checks.check_stride and actual.stride() != expected.stride():
        return fault("stride()", actual.stride(), expected.stride())
    return None


def _size_text(shape: Sequence[int]) -> str:
    """A shape as PyTorch prints it."""
    return f"torch.Size([{', '.join(map(str, shape))}])"


def _value_fault(a: Any, b: Any, checks: Checks) -> str | None:
    rtol, atol = checks.limits(dtypes.from_numpy(a.dtype), dtypes.from_numpy(b.dtype))
    if a.ndim == 0:
        return _scalar_fault(a.item(), b.item(), rtol, atol, checks.equal_nan)
    comparison = interop_compare.compare(a, b, rtol, atol, checks.equal_nan)
    if comparison is None:
        return None
    exact = rtol == 0 and atol == 0
    share = comparison.mismatched / comparison.total
    lines = [
        f"Tensor-likes are not {'equal' if exact else 'close'}!",
        "",
        f"Mismatched elements: {comparison.mismatched} / {comparison.total} ({share:.1%})",
    ]
    for what, value, place, limit in (
        ("absolute", comparison.absolute, comparison.absolute_place, atol),
        ("relative", comparison.relative, comparison.relative_place, rtol),
    ):
        allowed = "" if exact else f" (up to {limit} allowed)"
        lines.append(f"Greatest {what} difference: {value} at index {place}{allowed}")
    return "\n".join(lines)


# --- tensors for tests ----------------------------------------------------------------------------


def make_tensor(
    *shape: object,
    dtype: DType,
    device: DeviceLike = None,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: memory_format | None = None,
) -> Tensor:
    """A tensor of uniform random values in [low, high).

    low, high: by default [0, 2) for bool, [0, 10) for uint8, [-9, 10) for other ints, [-9, 9) for
    floats and for both parts of complex numbers; cut to the range of the dtype.
    noncontiguous: with strides that are not dense.
    exclude_zero: zeros become the smallest positive number (1 for ints).
    memory_format: the order in memory.
    Raises ArgumentError for low >= high, nan, or an integer that requires grad.
    """
    size = sizes_of("make_tensor", shape)
    wanted = checked_dtype("make_tensor", dtype)
    if wanted is None:
        raise ArgumentTypeError("make_tensor: dtype must be given")
    if requires_grad and wanted.category < dtypes.FLOAT:
        raise ArgumentError(
            f"make_tensor: requires_grad must be False for integral dtypes, and dtype is {wanted}"
        )
    if noncontiguous and memory_format is not None:
        raise ArgumentError("make_tensor: noncontiguous and memory_format exclude each other")
    bottom, top = _bounds(wanted, low, high)
    doubled = noncontiguous and bool(size) and 0 not in size and size != (1,) * len(size)
    drawn = (*size[:-1], 2 * size[-1]) if doubled else size
    values = _drawn(drawn, wanted, bottom, top)
    if exclude_zero:
        smallest: Any = finfo(wanted).tiny if wanted.category >= dtypes.FLOAT else 1
        values = ops.where(values == 0, ops.full(drawn, smallest, dtype=wanted), values)
    if doubled:
        values = ops.clone(values)[..., ::2]
    elif memory_format is not None:
        values = values.clone(memory_format=memory_format)
    return values.requires_grad_() if requires_grad else values


def _bounds(dtype: DType, low: float | None, high: float | None) -> tuple[Any, Any]:
    """The half-open range of the values, within the range of the dtype."""
    usual: tuple[Any, Any]
    limits: tuple[Any, Any]
    if dtype.category == BOOL:
        usual, limits = (0, 2), (0, 2)
    elif dtype.category == dtypes.INT:
        usual = (0, 10) if not dtype.is_signed else (-9, 10)
        limits = (iinfo(dtype).min, iinfo(dtype).max + 1)
    else:
        usual, limits = (-9, 9), (finfo(dtype).min, finfo(dtype).max)
    bottom, top = (usual[0] if low is None else low), (usual[1] if high is None else high)
    if bottom != bottom or top != top:
        raise ArgumentError("make_tensor: low and high must not be nan")
    if bottom == top and dtype.category >= dtypes.FLOAT:
        warnings.warn(
            "make_tensor: low == high is deprecated for floating-point and complex types; use "
            "torch.full",
            FutureWarning,
            stacklevel=4,
        )
        return bottom, top
    if bottom >= top:
        raise ArgumentError(f"make_tensor: low must be less than high, but {bottom} >= {top}")
    bottom, top = max(bottom, limits[0]), min(top, limits[1])
    if dtype.category < dtypes.FLOAT:
        bottom, top = -int(-bottom // 1), -int(-top // 1)
    if bottom >= top:
        raise ArgumentError(f"make_tensor: {dtype} has no values in [{low}, {high})")
    return bottom, top


def _drawn(size: tuple[int, ...], dtype: DType, low: Any, high: Any) -> Tensor:
    if dtype.category < dtypes.FLOAT:
        drawn: Tensor = random.randint(low, high, size)
        return ops.cast(drawn, dtype)
    if dtype.is_complex:
        pairs = _drawn((*size, 2), dtype.to_real(), low, high)
        return ops.view_as_complex(pairs)  # type: ignore[no-any-return]
    # Half the range at a time: high - low may overflow.
    unit = random.rand(size, dtype=dtype)
    return unit * (high / 2 - low / 2) * 2 + low
