"""The text of a sparse tensor, laid out as PyTorch does."""

from __future__ import annotations

from typing import Any, Protocol

from wend._engine.base.dtypes import DType, bool_, get_default_dtype, int64
from wend._engine.core._hot import Tensor
from wend._frontend.formats import layout as Layout
from wend._frontend.interop.exchange import array_of
from wend._frontend.printing import append_facts, array_text
from wend.sparse.layouts import Compressed, Coordinates

__all__ = ["text"]

INDENT = len("tensor(")


class Printed(Protocol):
    """The parts of a sparse tensor that its text shows: see `tensor.SparseTensor`."""

    _places: Coordinates | Compressed
    _values_: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The size."""

    @property
    def dtype(self) -> DType:
        """The type of the values."""

    @property
    def layout(self) -> Layout:
        """The format."""

    @property
    def grad_fn(self) -> Any:
        """The node of the graph, or None."""

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are wanted."""

    def _nnz(self) -> int: ...


def text(x: Printed) -> str:
    """`repr(x)`: places, values, size and further facts."""
    places = x._places
    if isinstance(places, Coordinates):
        parts = [("indices", places.tensor)]
    else:
        names = ("ccol_indices", "row_indices") if places.by_columns else ("crow_indices",)
        names = names if places.by_columns else (*names, "col_indices")
        parts = list(zip(names, (places.begins, places.plain), strict=True))
    parts.append(("values", x._values_.detach()))
    separator = ",\n" + " " * INDENT
    shown = "tensor(" + separator.join([_part(name, part) for name, part in parts])
    facts = [f"size={tuple(x.shape)}", f"nnz={x._nnz()}"]
    default = get_default_dtype()
    if x.dtype not in (default, default.to_complex(), int64, bool_):
        facts.append(f"dtype={x.dtype}")
    facts.append(f"layout={x.layout}")
    node = x.grad_fn
    if node is not None:
        facts.append(f"grad_fn=<{node.name()}>")
    elif x.requires_grad:
        facts.append("requires_grad=True")
    if isinstance(places, Coordinates):
        shown += separator + facts.pop(0)
    return append_facts(shown, facts, INDENT) + ")"


def _part(name: str, part: Tensor) -> str:
    prefix = f"{name}=tensor("
    array = array_of(part)
    if array.size == 0:
        return f"{prefix}[], size={tuple(part.shape)})"
    return prefix + array_text(array, INDENT + len(prefix)) + ")"
