"""Observers: modules that pass a tensor through, and keep the range of its numbers.

`calculate_qparams` gives the scale and zero point by which whole numbers represent this range.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from wend._engine.base.dtypes import ABSENT, finfo, float32, int64
from wend._engine.base.errors import ArgumentError, NotImplementedInWend
from wend._engine.core.primitive import ops
from wend._frontend.qschemes import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)
from wend._frontend.quantized.tensor import limits
from wend._frontend.toolkit import Tensor, arange, full, no_grad, tensor, zeros
from wend.nn.modules.module import Module

__all__ = [
    "FixedQParamsObserver",
    "HistogramObserver",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver",
    "NoopObserver",
    "ObserverBase",
    "PerChannelMinMaxObserver",
    "PlaceholderObserver",
    "RecordingObserver",
    "ReuseInputObserver",
    "UniformQuantizationObserverBase",
    "default_debug_observer",
    "default_dynamic_quant_observer",
    "default_fixed_qparams_range_0to1_observer",
    "default_fixed_qparams_range_neg1to1_observer",
    "default_histogram_observer",
    "default_observer",
    "default_per_channel_weight_observer",
    "default_placeholder_observer",
    "default_reuse_input_observer",
    "default_weight_observer",
    "per_channel_weight_observer_range_neg_127_to_127",
    "weight_observer_range_neg_127_to_127",
]

qint8, quint8 = ABSENT["qint8"], ABSENT["quint8"]
_EPS = finfo(float32).eps
_UNSEEN = "must run observer before calling calculate_qparams. Returning default values."


class Factory:
    """A class with some arguments, as `with_args` returns and a QConfig keeps."""

    def __init__(self, call: partial[Any]) -> None:
        self.p = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """An object of the class."""
        return self.p(*args, **kwargs)

    def with_args(self, **kwargs: Any) -> Factory:
        """The class with further arguments."""
        return Factory(partial(self.p, **kwargs))

    def __repr__(self) -> str:
        return f"{self.p!r}{{}}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Factory):
            return NotImplemented
        return (self.p.func, self.p.keywords) == (other.p.func, other.p.keywords)

    def __hash__(self) -> int:
        return hash(self.p.func)


class ObserverBase(Module):
    """Base of all observers. dtype: the quantised type that the observer is for"""

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """(scale, zero point)."""
        raise NotImplementedError

    @classmethod
    def with_args(cls, **kwargs: Any) -> Factory:
        """The class with some arguments, for a QConfig."""
        return Factory(partial(cls, **kwargs))


class UniformQuantizationObserverBase(ObserverBase):
    """Base: scale and zero point from a range.

    reduce_range: whether a bit stays unused     eps: the least scale
    quant_min, quant_max: whole numbers to use, instead of all of the type
    """

    min_val: Tensor
    max_val: Tensor

    def __init__(
        self, dtype: Any = quint8, qscheme: Any = per_tensor_affine, reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: Any = None,
        eps: float = _EPS, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.register_buffer("eps", tensor([eps]))
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        low, high = limits(dtype)
        if self.has_customized_qrange:
            if quant_min > 0 or quant_max < 0 or quant_min >= quant_max:  # type: ignore[operator]
                raise ArgumentError(
                    f"{type(self).__name__}: quant_min={quant_min} and quant_max={quant_max}; the "
                    "range must include 0"
                )
            low, high = quant_min, quant_max  # type: ignore[assignment]
            if reduce_range:
                low, high = low // 2, high // 2
        elif reduce_range:
            low, high = (-64, 63) if low else (0, 127)
        self.quant_min, self.quant_max = low, high

    def reset_min_max_vals(self) -> None:
        """Forget all numbers seen so far."""
        self.min_val, self.max_val = tensor(float("inf")), tensor(float("-inf"))

    def _unseen(self) -> bool:
        return self.min_val.numel() == 0 or bool((self.min_val > self.max_val).any())

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """(scale, zero point); per channel, an entry for each. Warns if nothing has been seen."""
        if self._unseen():
            warnings.warn(_UNSEEN, stacklevel=2)
            return tensor([1.0]), tensor([0], dtype=int64)
        return self._from_range(self.min_val, self.max_val)

    def _from_range(self, least: Tensor, greatest: Tensor) -> tuple[Tensor, Tensor]:
        with no_grad():
            low, high = ops.clamp(least, None, 0), ops.clamp(greatest, 0, None)
            span = float(self.quant_max - self.quant_min)
            if self.qscheme in (per_tensor_symmetric, per_channel_symmetric):
                high = ops.maximum(-low, high)
                scale = ops.maximum(high / (span / 2), self.eps)
                middle = 0
                if self.dtype is quint8:
                    custom = self.has_customized_qrange
                    middle = (self.quant_min + self.quant_max) // 2 if custom else 128
                zero = full(scale.shape, middle, dtype=int64)
            else:
                scale = ops.maximum((high - low) / span, self.eps)
                zero = self.quant_min - ops.cast(ops.round(low / scale), int64)
                zero = ops.clamp(zero, self.quant_min, self.quant_max)
            return scale, zero

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        for name in ("min_val", "max_val"):
            if prefix + name in state:  # of the shape that has been seen
                setattr(self, name, state[prefix + name].clone())
        super()._load_from_state_dict(state, prefix, *rest)


class MinMaxObserver(UniformQuantizationObserverBase):
    """The least and greatest number of all that has been seen."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.qscheme not in (per_tensor_affine, per_tensor_symmetric):
            raise NotImplementedInWend(
                f"{type(self).__name__}: qscheme {self.qscheme}; use a PerChannelMinMaxObserver"
            )
        self.register_buffer("min_val", tensor(float("inf")))
        self.register_buffer("max_val", tensor(float("-inf")))

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            with no_grad():
                x = ops.cast(x_orig.detach(), float32)
                self.min_val = ops.minimum(self.min_val, ops.amin(x))
                self.max_val = ops.maximum(self.max_val, ops.amax(x))
        return x_orig


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Moving means of the least and greatest numbers of each call."""

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.averaging_constant = averaging_constant

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            with no_grad():
                x = ops.cast(x_orig.detach(), float32)
                self._mix(ops.amin(x), ops.amax(x))
        return x_orig

    def _mix(self, least: Tensor, greatest: Tensor) -> None:
        c = self.averaging_constant
        known = not self._unseen()
        self.min_val = self.min_val + c * (least - self.min_val) if known else least
        self.max_val = self.max_val + c * (greatest - self.max_val) if known else greatest


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """The least and greatest number of each slice along `ch_axis`."""

    def __init__(
        self, ch_axis: int = 0, dtype: Any = quint8, qscheme: Any = per_channel_affine,
        *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, qscheme, *args, **kwargs)
        if qscheme is per_channel_affine_float_qparams:
            raise NotImplementedInWend(f"{type(self).__name__}: float zero points")
        self.ch_axis = ch_axis
        self.register_buffer("min_val", zeros(0))
        self.register_buffer("max_val", zeros(0))

    def reset_min_max_vals(self) -> None:
        self.min_val, self.max_val = zeros(0), zeros(0)

    def _ranges(self, x_orig: Tensor) -> tuple[Tensor, Tensor]:
        x = ops.cast(x_orig.detach(), float32)
        others = tuple(d for d in range(x.ndim) if d != self.ch_axis % x.ndim)
        return (ops.amin(x, others), ops.amax(x, others)) if others else (x, x)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            with no_grad():
                least, greatest = self._ranges(x_orig)
                if self.min_val.numel():
                    least = ops.minimum(self.min_val, least)
                    greatest = ops.maximum(self.max_val, greatest)
                self.min_val, self.max_val = least, greatest
        return x_orig


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Moving means of the least and greatest numbers of each slice."""

    def __init__(
        self, averaging_constant: float = 0.01, ch_axis: int = 0, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(ch_axis, *args, **kwargs)
        self.averaging_constant = averaging_constant

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            with no_grad():
                least, greatest = self._ranges(x_orig)
                if self.min_val.numel():
                    c = self.averaging_constant
                    least = self.min_val + c * (least - self.min_val)
                    greatest = self.max_val + c * (greatest - self.max_val)
                self.min_val, self.max_val = least, greatest
        return x_orig


class HistogramObserver(UniformQuantizationObserverBase):
    """The range that represents a histogram of all numbers with the least squared error.

    Numbers far from the rest are left out of the range, while the error falls.
    """

    histogram: Tensor

    def __init__(self, bins: int = 2048, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.qscheme not in (per_tensor_affine, per_tensor_symmetric):
            raise NotImplementedInWend(f"HistogramObserver: qscheme {self.qscheme}")
        self.bins, self.levels, self.finer = bins, 256, 16
        self.register_buffer("histogram", zeros(bins))
        self.register_buffer("min_val", tensor(float("inf")))
        self.register_buffer("max_val", tensor(float("-inf")))

    def _counts(self, x: Tensor, least: Tensor, greatest: Tensor) -> Tensor:
        from wend import histc

        counts: Tensor = histc(x, self.bins, min=float(least), max=float(greatest))
        return counts

    def forward(self, x_orig: Tensor) -> Tensor:
        if not x_orig.numel():
            return x_orig
        with no_grad():
            x = ops.cast(x_orig.detach(), float32)
            least, greatest = ops.amin(x), ops.amax(x)
            if self._unseen():
                self.histogram = self._counts(x, least, greatest)
            else:
                least = ops.minimum(self.min_val, least)
                greatest = ops.maximum(self.max_val, greatest)
                self.histogram = self._counts(x, least, greatest) + self._moved(least, greatest)
            self.min_val, self.max_val = least, greatest
        return x_orig

    def _moved(self, least: Tensor, greatest: Tensor) -> Tensor:
        """The histogram so far, as of a wider range."""
        from wend import bucketize, linspace

        old = float(self.min_val), float(self.max_val)
        new = float(least), float(greatest)
        if old == new:
            return self.histogram
        if old[0] == old[1]:
            return self._counts(self.min_val.reshape(1), least, greatest) * self.histogram.sum()
        pieces = self.bins * self.finer
        size = (self.max_val - self.min_val) / pieces
        middles = linspace(*old, pieces + 1)[:-1] + 0.5 * size
        places = bucketize(middles, linspace(*new, self.bins + 1), right=True) - 1
        weights = self.histogram.repeat_interleave(self.finer) / self.finer
        places = ops.clamp(places, 0, self.bins - 1)
        return zeros(self.bins).index_add(0, places, weights)

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if self._unseen():
            warnings.warn(_UNSEEN, stacklevel=2)
            return tensor([1.0]), tensor([0], dtype=int64)
        with no_grad():
            return self._from_range(*self._best_range())

    def _best_range(self) -> tuple[Tensor, Tensor]:
        """The range whose whole numbers represent the histogram best.

        From both sides, bins are dropped by steps of 1e-5 of all numbers, while the error falls.
        """
        width = (self.max_val - self.min_val) / self.bins
        sums = self.histogram.cumsum(0).tolist()
        total = float(self.histogram.sum())
        first, last, best = 0, self.bins - 1, float("inf")
        below, above = 0.0, 1.0
        while below < above:
            lower, upper = below + 1e-5, above - 1e-5
            left, right = first, last
            while left < last and sums[left] < lower * total:
                left += 1
            while right > first and sums[right] > upper * total:
                right -= 1
            start, stop = first, last
            if left - first > last - right:
                start, below = left, lower
            else:
                stop, above = right, upper
            if (start, stop) == (first, last):
                continue
            error = self._error(start, stop)
            if error > best:
                break
            best, first, last = error, start, stop
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def _error(self, first: int, last: int) -> float:
        """The squared error of all numbers, if whole numbers span the bins first ... last."""
        width = (float(self.max_val) - float(self.min_val)) / self.bins
        level = width * (last - first + 1) / self.levels
        if level == 0:
            return 0.0
        begin = (arange(self.bins) - first) * width
        end = begin + width
        density = self.histogram / width
        of_begin, of_end = (
            ops.clamp(ops.floor(x / level), 0, self.levels - 1) for x in (begin, end)
        )
        half = level / 2

        def moment(low: Any, high: Any) -> Tensor:
            norm: Tensor = density * ((high * high * high - low * low * low) / 3)
            return norm

        error = moment(begin - (of_begin + 0.5) * level, half)
        error = error + (of_end - of_begin - 1) * moment(-half, half)
        error = error + moment(-half, end - (of_end * level + half))
        return float(error.sum())


class FixedQParamsObserver(ObserverBase):
    """A scale and a zero point that are known beforehand."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: float, zero_point: int, dtype: Any = quint8, qscheme: Any = per_tensor_affine,
        quant_min: int = 0, quant_max: int = 255, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", tensor([scale]))
        self.register_buffer("zero_point", tensor([zero_point]))

    def forward(self, X: Tensor) -> Tensor:
        return X

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Observes nothing: ranges are found when the model runs."""

    def __init__(self, dtype: Any = float32, *args: Any, **kwargs: Any) -> None:
        super().__init__(dtype, kwargs.get("is_dynamic", False))
        self.quant_min, self.quant_max = kwargs.get("quant_min"), kwargs.get("quant_max")

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Raises NotImplementedInWend: nothing has been observed."""
        raise NotImplementedInWend(f"{type(self).__name__}: calculate_qparams of what was not seen")


class NoopObserver(PlaceholderObserver):
    """Observes nothing."""


class ReuseInputObserver(PlaceholderObserver):
    """Observes nothing: the result has the scale of the input."""


class RecordingObserver(PlaceholderObserver):
    """Keeps all tensors that have passed."""

    def __init__(self, dtype: Any = quint8, **kwargs: Any) -> None:
        super().__init__(dtype, **kwargs)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self) -> list[Tensor]:
        """All tensors that have passed."""
        return self.tensor_val


_symmetric: dict[str, Any] = {"dtype": qint8, "qscheme": per_tensor_symmetric}
_by_channel: dict[str, Any] = {"dtype": qint8, "qscheme": per_channel_symmetric}
default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_weight_observer = MinMaxObserver.with_args(**_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    **_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(**_by_channel)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    **_by_channel, quant_min=-127, quant_max=127, eps=2**-12
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_reuse_input_observer = ReuseInputObserver
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1 / 256, zero_point=0, dtype=quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2 / 256, zero_point=128, dtype=quint8, quant_min=0, quant_max=255
)
