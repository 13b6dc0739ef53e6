"""The questions that a `grad_nodes` rule may ask of the builder of nodes, and of operands.

A node, or a result of a node, is opaque to the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class NodeOperand(Protocol):
    """A tensor among the arguments of the op.

    active: whether a gradient is wanted   shape: None for a temporary
    maker: (op, operands, numbers), or None for leaves and parts of ops
    """

    # fmt: off
    active: bool
    rank: int
    shape: Any
    @property
    def contiguous(self) -> bool: ...     # whether PyTorch's elements are in row-major order
    @property
    def maker(self) -> Any: ...
    @property
    def edges(self) -> list[Any]: ...     # of the node that made the tensor
    # fmt: on


class LaidOperand(Protocol):
    """A tensor with strides, on the way through views; each method makes the node of a view."""

    # fmt: off
    edge: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    @property
    def active(self) -> bool: ...
    def through(self, make: Callable[..., Any]) -> LaidOperand: ...
    def permute(self, dims: Sequence[int], name: str = "Permute") -> LaidOperand: ...
    def transpose(self) -> LaidOperand: ...
    def expand(self, shape: Sequence[int]) -> LaidOperand: ...
    def diagonal(self, i: int, j: int) -> LaidOperand: ...
    def unsqueeze(self, dim: int) -> LaidOperand: ...
    def reshape(self, shape: Sequence[int]) -> LaidOperand: ...
    # fmt: on


class NodeBuilder(Protocol):
    """Makes nodes by name: `n.Sum1(x)` is a SumBackward1."""

    # fmt: off
    op: Any                                                      # the op whose rule runs
    def __getattr__(self, name: str) -> Callable[..., Any]: ...
    def node(self, name: str, *edges: object) -> Any: ...        # of that very name
    def laid(self, x: object) -> LaidOperand: ...
    def made(self, edge: object, shape: Sequence[int]) -> LaidOperand: ...
    def is_tensor(self, x: object) -> bool: ...                  # and no number
    # fmt: on
