"""The tensors from outside of a function, which become a library's file of weights."""

from __future__ import annotations

import re
from typing import Any

from wend._engine.compiler.aot.recorded_path import LibraryWeight
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.transforms.exploring.program import Captured
from wend.aot._refusals import refuse
from wend.serialization.safetensors import CODE_OF

__all__ = ["LibraryWeights"]

#: Names that stay: those that need no marks in JSON and C, and are no key of a file's header.
_PLAIN = re.compile(r"(?!constant|(?:dtype|shape|data_offsets|__metadata__)\Z)[\w.:/-]+", re.ASCII)


class LibraryWeights:
    """The tensors of a library's file, by value."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._values: list[Any] = []  # ids stay taken
        self.tensors: dict[str, Tensor] = {}
        self.rows: list[LibraryWeight] = []

    def number(self, captured: Captured) -> int:
        """Return the number of a captured tensor, a new number for a new value."""
        value = _hot.refreshed(captured.tensor)
        place = self._numbers.get(id(value))
        if place is None:
            place = self._numbers[id(value)] = len(self.rows)
            self._values.append(value)
            named = captured.name not in self.tensors and _PLAIN.fullmatch(captured.name)
            name = captured.name if named else f"constant.{place}"
            tensor = _hot.wrap(value)
            if tensor.dtype not in CODE_OF:
                raise refuse(f"a tensor of {tensor.dtype} cannot be stored")
            self.tensors[name] = tensor
            size = tensor.dtype.itemsize
            code, shape = CODE_OF[tensor.dtype], tuple(tensor.shape)
            self.rows.append(LibraryWeight(name, code, shape, size * tensor.numel(), size))
        return place
