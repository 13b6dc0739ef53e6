"""Linear maps, and a softmax over many classes made of such."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentError, ShapeError, ValueRefused
from wend._frontend.toolkit import Tensor, empty, no_grad, ops
from wend.nn import functional as F
from wend.nn import init
from wend.nn.modules.container import ModuleList, Sequential
from wend.nn.modules.lazy import LazyModuleMixin
from wend.nn.modules.module import Module
from wend.nn.parameter import UninitializedParameter, fresh_parameter

__all__ = ["AdaptiveLogSoftmaxWithLoss", "Bilinear", "Identity", "LazyLinear", "Linear"]

_linear = ops.linear


class Identity(Module):
    """y = x, whatever the arguments of the constructor."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """y = x @ weight.T + bias.

    x: (..., in_features)   weight: (out_features, in_features)   ->   y: (..., out_features)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = fresh_parameter(
            empty((out_features, in_features), device=device, dtype=dtype)
        )
        if bias:
            self.bias = fresh_parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill weight and bias from U(-b, b), b = 1 / √in_features."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return _linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear` under the name that attention's output projection has in PyTorch."""


class Bilinear(Module):
    """y[k] = x1 @ weight[k] @ x2 + bias[k].

    x1: (..., in1_features)   x2: (..., in2_features)   ->   y: (..., out_features)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ArgumentError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = fresh_parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = fresh_parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill weight and bias from U(-b, b), b = 1 / √in1_features."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` that takes in_features from the first input."""

    cls_to_become = Linear
    weight: UninitializedParameter

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(0, 0, bias=False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias: UninitializedParameter = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the shape of the parameters from the first input."""
        if not self.has_uninitialized_params():
            return
        with no_grad():
            self.in_features: int = input.shape[-1]
            self.weight.materialize(  # type: ignore[attr-defined]
                (self.out_features, self.in_features)
            )
            if self.bias is not None:
                self.bias.materialize((self.out_features,))  # type: ignore[attr-defined]
            self.reset_parameters()


_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities by clusters of classes, the rarer the smaller (Grave et al., 2017).

    cutoffs: where clusters begin; classes below cutoffs[0] are in the head, the shortlist
    div_value: each further cluster works in a space smaller by this factor
    x: (N, in_features)   y: (N,), classes by falling frequency   ->   output: (N,), loss: ()
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        cuts = list(cutoffs)
        if not cuts:
            raise ArgumentError("cutoffs should be a sequence of length larger than 0")
        rising = cuts == sorted(set(cuts)) and min(cuts) > 0 and max(cuts) <= n_classes - 1
        if not rising or any(int(c) != c for c in cuts):
            raise ArgumentError(
                "cutoffs should be a sequence of unique, positive integers sorted in an "
                "increasing order, where each value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs: list[int] = [*cuts, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size: int = self.cutoffs[0]
        self.n_clusters: int = len(self.cutoffs) - 1
        self.head_size: int = self.shortlist_size + self.n_clusters
        place = {"device": device, "dtype": dtype}
        self.head: Linear = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail: ModuleList = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **place),
                    Linear(hidden, size, bias=False, **place),
                )
            )

    def reset_parameters(self) -> None:
        """New random weights."""
        self.head.reset_parameters()
        for part in self.tail.modules():
            if isinstance(part, Linear):
                part.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        self._check(input_, target_)
        batched = target_.dim() > 0
        x, y = (input_, target_) if batched else (input_[None], target_[None])
        head = F.log_softmax(self.head(x), dim=1)
        output = empty(0)
        for i in range(self.n_clusters + 1):
            low, high = (0 if i == 0 else self.cutoffs[i - 1]), self.cutoffs[i]
            inside = (y >= low) & (y < high)
            within = ops.where(inside, y - low, 0)[:, None]
            if i == 0:
                output = ops.gather(head, 1, within)[:, 0]
                continue
            tail = F.log_softmax(self.tail[i - 1](x), dim=1)
            log_prob = head[:, self.shortlist_size + i - 1] + ops.gather(tail, 1, within)[:, 0]
            output = ops.where(inside, log_prob, output)
        loss = -output.mean()
        return _ASMoutput(output if batched else output[0], loss)

    def _check(self, input: Tensor, target: Tensor) -> None:
        if target.dim() == 1:
            if input.shape[0] != target.shape[0]:
                raise ShapeError(
                    "Input and target should have the same size in the batch dimension."
                )
            if input.dim() != 2:
                raise ShapeError(
                    "1D target tensor expects 2D input tensors, "
                    f"but found inputs with size {tuple(input.shape)}"
                )
        elif target.dim() == 0:
            if input.dim() != 1:
                raise ShapeError(
                    "0D target tensor expects 1D input tensors, "
                    f"but found inputs with size {tuple(input.shape)}"
                )
        else:
            raise ShapeError("0D or 1D target tensor expected, multi-target not supported")
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes:
            raise ValueRefused(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{int(target.min())}, {int(target.max())}] were found. "
            )

    def log_prob(self, input: Tensor) -> Tensor:
        """Log probabilities of all classes: (N, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            known = head[:, self.shortlist_size + i]
            parts.append(F.log_softmax(tail(input), dim=1) + known[:, None])
        return ops.cat(parts, 1)  # type: ignore[no-any-return]

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class of each row: (N,)."""
        return self.log_prob(input).argmax(dim=1)
