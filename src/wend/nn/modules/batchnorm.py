"""Batch normalization as modules."""

from __future__ import annotations

import sys
from typing import Any

from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentError
from wend._engine.core.whole import Whole
from wend._frontend.toolkit import Tensor, int64, ones, tensor, zeros
from wend.nn import functional as F
from wend.nn import init
from wend.nn.modules.lazy import LazyModuleMixin
from wend.nn.modules.module import Module
from wend.nn.parameter import UninitializedBuffer, UninitializedParameter, fresh_parameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """Scale, shift and running statistics of batch and instance normalization."""

    weight: Any
    bias: Any
    num_features: int
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DType | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = fresh_parameter(ones(num_features, **factory))
        else:
            self.register_parameter("weight", None)
        if affine and bias:
            self.bias = fresh_parameter(zeros(num_features, **factory))
        else:
            self.register_parameter("bias", None)
        if track_running_stats:
            self.register_buffer("running_mean", zeros(num_features, **factory))
            self.register_buffer("running_var", ones(num_features, **factory))
            self.register_buffer("num_batches_tracked", tensor(0, dtype=int64, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget earlier batches: mean 0, variance 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Fill weight with 1, bias with 0, and forget the running statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        version = local_metadata.get("version", None)
        if (version is None or version < 2) and self.track_running_stats:
            # Before version 2 the batches were not counted.
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                count = self.num_batches_tracked
                known = count is not None and not isinstance(count, UninitializedBuffer)
                state_dict[key] = count if known else tensor(0, dtype=int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        if not (self.training and self.track_running_stats):
            return self._normalized(input)
        with Whole():  # the count goes with the statistics
            return self._normalized(input)

    def _normalized(self, input: Tensor) -> Tensor:
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a cumulative average
                factor = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if tracked else (None, None)
        return self._by(input, mean, var, by_batch, factor)

    def _by(
        self, input: Tensor, mean: Tensor | None, var: Tensor | None, by_batch: bool, factor: float
    ) -> Tensor:
        """Normalize by the batch, or by the running statistics."""
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, factor, self.eps)


class BatchNorm1d(_BatchNorm):
    """Mean 0 and variance 1 within each channel of (N, C) or (N, C, L), then scaled."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            raise ArgumentError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """Mean 0 and variance 1 within each channel of (N, C, H, W), then scaled."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise ArgumentError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """Mean 0 and variance 1 within each channel of (N, C, D, H, W), then scaled."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 5:
            raise ArgumentError(f"expected 5D input (got {input.dim()}D input)")


def _group_of(process_group: Any) -> Any:
    """The group of several processes that an argument means, or None."""
    distributed = sys.modules.get("wend.distributed")
    if distributed is None or not (process_group or distributed.is_initialized()):
        return None
    group = process_group or distributed.group.WORLD
    return group if group.size() > 1 else None


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all processes.

    process_group: the processes; all by default. Without a process group, in a group of a single
        process, and in evaluation this is an ordinary batch normalization

    The processes exchange sums and squares once in a call, and once in the backward pass. Both
    exchanges compute all that was recorded before. Batches may be of unequal size.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: object = None,
        device: DeviceLike = None,
        dtype: DType | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ArgumentError(f"expected at least 2D input (got {input.dim()}D input)")

    def _by(
        self, input: Tensor, mean: Tensor | None, var: Tensor | None, by_batch: bool, factor: float
    ) -> Tensor:
        group = _group_of(self.process_group) if self.training else None
        if group is None:
            return super()._by(input, mean, var, by_batch, factor)
        from wend.distributed._replicas.sync_norm import normalize

        output: Tensor = normalize(
            group, input, mean, var, self.weight, self.bias, factor, self.eps
        )
        return output

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: object = None) -> Module:
        """The module with every batch norm below it turned into a SyncBatchNorm."""
        result = module
        if isinstance(module, _BatchNorm):
            result = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                result.weight, result.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(result, name, getattr(module, name))
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


class _LazyNormBase(LazyModuleMixin):
    """A normalization that takes num_features from the first input."""

    weight: Any
    bias: Any
    num_features: int

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DType | None = None,
        bias: bool = True,
    ) -> None:
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        # Nothing has a shape yet: the base makes no parameters and no buffers.
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**factory)
            if bias:
                self.bias = UninitializedParameter(**factory)
        if track_running_stats:
            self.running_mean: UninitializedBuffer = UninitializedBuffer(**factory)
            self.running_var: UninitializedBuffer = UninitializedBuffer(**factory)
            self.num_batches_tracked: Tensor = tensor(0, dtype=int64)

    def reset_parameters(self) -> None:
        """Fill the parameters anew, if their shapes are known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of channels from the first input."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            return
        self.num_features = input.shape[1]
        if self.affine:
            self.weight.materialize((self.num_features,))
            if self.bias is not None:
                self.bias.materialize((self.num_features,))
        if self.track_running_stats:
            self.running_mean.materialize((self.num_features,))
            self.running_var.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, BatchNorm1d):
    """`BatchNorm1d` that takes num_features from the first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, BatchNorm2d):
    """`BatchNorm2d` that takes num_features from the first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, BatchNorm3d):
    """`BatchNorm3d` that takes num_features from the first input."""

    cls_to_become = BatchNorm3d
