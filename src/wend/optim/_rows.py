"""The rows of a parameter that have a gradient, where the gradient is a sparse tensor."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, ops


class Rows:
    """Places of a gradient, each once, and the values there.

    values: (places, *dense dims)

    Tensors of the parameter's shape are read and changed at these places alone. The cost of a step
    depends on the number of places, not on the size of the parameter.
    """

    def __init__(self, gradient: Any) -> None:
        self.gradient = gradient.coalesce()
        self.values: Tensor = self.gradient.values()
        places = self.gradient.places
        self._rows = places.row(0) if len(places.size) == 1 else None

    def of(self, table: Tensor) -> Tensor:
        """The elements of a tensor at the places."""
        if self._rows is None:
            masked: Any = table.sparse_mask(self.gradient)
            return masked.values()  # type: ignore[no-any-return]
        return ops.index_select(table, 0, self._rows)  # type: ignore[no-any-return]

    def add(self, table: Tensor, values: Tensor, alpha: float = 1) -> None:
        """Add alpha * values to a tensor at the places."""
        if self._rows is None:
            table.add_(self.gradient.with_values(values), alpha=alpha)
        elif alpha == 1:
            table.index_add_(0, self._rows, values)
        else:
            table.index_add_(0, self._rows, values, alpha=alpha)
