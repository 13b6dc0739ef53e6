"""A softmax over many classes, most of which are rare."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from wend.frontend.toolkit import Tensor, empty, ops
from wend.nn import functional as F
from wend.nn.modules.container import ModuleList, Sequential
from wend.nn.modules.linear import Linear
from wend.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

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
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cuts = list(cutoffs)
        if not cuts:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = cuts == sorted(set(cuts)) and min(cuts) > 0 and max(cuts) <= n_classes - 1
        if not rising or any(int(c) != c for c in cuts):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an "
                "increasing order, where each value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cuts, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        place = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = ModuleList()
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

    def forward(self, input: Tensor, target: Tensor) -> Any:
        self._check(input, target)
        batched = target.dim() > 0
        x, y = (input, target) if batched else (input[None], target[None])
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
            found = head[:, self.shortlist_size + i - 1] + ops.gather(tail, 1, within)[:, 0]
            output = ops.where(inside, found, output)
        loss = -output.mean()
        return _ASMoutput(output if batched else output[0], loss)

    def _check(self, input: Tensor, target: Tensor) -> None:
        if target.dim() == 1:
            if input.shape[0] != target.shape[0]:
                raise RuntimeError(
                    "Input and target should have the same size in the batch dimension."
                )
            if input.dim() != 2:
                raise RuntimeError(
                    "1D target tensor expects 2D input tensors, "
                    f"but found inputs with size {tuple(input.shape)}"
                )
        elif target.dim() == 0:
            if input.dim() != 1:
                raise RuntimeError(
                    "0D target tensor expects 1D input tensors, "
                    f"but found inputs with size {tuple(input.shape)}"
                )
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes:
            raise RuntimeError(
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
