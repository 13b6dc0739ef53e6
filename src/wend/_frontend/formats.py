"""`layout` and `memory_format`: names that PyTorch's functions take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base.dtypes import AbsentDType
from wend._engine.base.errors import ArgumentTypeError, NotImplementedInWend

__all__ = [
    "channels_last",
    "channels_last_3d",
    "check_layout",
    "contiguous_format",
    "is_sparse_layout",
    "jagged",
    "layout",
    "memory_format",
    "preserve_format",
    "sparse_bsc",
    "sparse_bsr",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "strided",
]


class _Name:
    """A name of a closed set; there is a single object of each name, and pickles keep it so."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_name, (self.name,)

    def __copy__(self) -> _Name:
        return self

    def __deepcopy__(self, memo: object) -> _Name:
        return self


class layout(_Name):
    """The way in which a tensor keeps its elements."""


class memory_format(_Name):
    """In which order the dims of a dense tensor lie in memory."""


strided = layout("strided")
jagged = layout("jagged")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr = layout("sparse_bsr")
sparse_bsc = layout("sparse_bsc")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

_ALL = {value.name: value for value in list(globals().values()) if isinstance(value, _Name)}


def _by_name(name: str) -> _Name:
    return _ALL[name]


class SparsePackage:
    """`wend.sparse`, which stands above this module, and loads when first used."""

    load: Callable[[], Any]  # set by the package as a whole


class Float8Package:
    """The tensors of float8, which stand above this module, and load when first used."""

    load: Callable[[], Any]  # set by the package as a whole


def is_float8(argument: object) -> bool:
    """Whether a dtype is among the floats of 8 bits that have a sign."""
    return isinstance(argument, AbsentDType) and argument.name.startswith(
        ("float8_e4", "float8_e5")
    )


def is_sparse_layout(argument: object) -> bool:
    """Whether a layout is one of the sparse layouts."""
    return isinstance(argument, layout) and argument.name.startswith("sparse")


def check_layout(op: str, argument: object) -> None:
    """Raises ArgumentTypeError for no layout, NotImplementedInWend for a sparse layout."""
    if argument is None or argument is strided:
        return
    if not isinstance(argument, layout):
        raise ArgumentTypeError(f"{op}: layout must be a layout, not {type(argument).__name__}")
    raise NotImplementedInWend(
        f"{op}: {argument} is not available here; make the tensor torch.strided"
    )
