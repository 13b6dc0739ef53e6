"""Where the elements of a sparse tensor lie: by coordinates, or compressed along a dim."""

from __future__ import annotations

from wend._engine.base.errors import GraphError
from wend._engine.core._hot import Tensor
from wend._frontend.creation import held
from wend._frontend.formats import layout as Layout
from wend._frontend.formats import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from wend._frontend.interop import places as arrays
from wend._frontend.interop.exchange import array_of
from wend._frontend.interop.places import Array

__all__ = ["BLOCKED", "BY_COLUMNS", "COMPRESSED", "Compressed", "Coordinates"]

COMPRESSED = (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
BY_COLUMNS = (sparse_csc, sparse_bsc)
BLOCKED = (sparse_bsr, sparse_bsc)


class Coordinates:
    """The indices of each element along the sparse dims.

    size: extents of the sparse dims     ordered: in row-major order, each place once
    The array is read from the tensor at the first need, as the tensor may be pending.
    """

    def __init__(
        self,
        size: tuple[int, ...],
        array: Array | None = None,
        tensor: Tensor | None = None,
        ordered: bool = False,
    ) -> None:
        self.size = size
        self.ordered = ordered
        self._array = array
        self._tensor = tensor
        self._rows: dict[int, Tensor] = {}
        self._merged: tuple[Coordinates, Array | None, bool] | None = None

    @property
    def array(self) -> Array:
        """(sparse dims, elements), int64."""
        if self._array is None:
            self._array = arrays.integers(array_of(self.tensor))
        return self._array

    @property
    def tensor(self) -> Tensor:
        """The indices as a tensor."""
        if self._tensor is None:
            self._tensor = held(self._array)
        return self._tensor

    @property
    def count(self) -> int:
        """Number of elements."""
        shape = self._tensor.shape if self._array is None else self._array.shape  # type: ignore[union-attr]
        return int(shape[1])

    def row(self, dim: int) -> Tensor:
        """The indices along a dim: (elements,)."""
        row = self._rows.get(dim)
        if row is None:
            row = self.tensor[dim] if self._array is None else held(self._array[dim])
            self._rows[dim] = row
        return row

    def rows(self) -> list[Tensor]:
        """The indices along each dim."""
        return [self.row(dim) for dim in range(len(self.size))]

    def merged(self) -> tuple[Coordinates, Array | None, bool]:
        """(places in order, the new number of each element or None, whether any come twice)."""
        if self.ordered:
            return self, None, False
        if self._merged is None:
            array, inverse, repeated = arrays.merged(self.array, self.size)
            places = Coordinates(self.size, array, ordered=True)
            self._merged = places, inverse, repeated
        return self._merged

    def check(self, name: str) -> None:
        """Raise GraphError for an index outside."""
        outside = arrays.first_outside(self.array, self.size)
        if outside is not None:
            dim, index = outside
            raise GraphError(
                f"{name}: size is inconsistent with indices: for dim {dim}, size is "
                f"{self.size[dim]} but found index {index}"
            )


class Compressed:
    """Elements, or blocks of elements, row by row (or column by column).

    begins: where each row begins, and the end of the last     plain: the column of each element
    size: of the matrix     block: extents of a block, (1, 1) without blocks
    """

    def __init__(
        self,
        layout: Layout,
        size: tuple[int, int],
        begins: Tensor,
        plain: Tensor,
        block: tuple[int, int] = (1, 1),
    ) -> None:
        self.layout = layout
        self.size = size
        self.begins = begins
        self.plain = plain
        self.block = block
        self._coordinates: Coordinates | None = None

    @property
    def count(self) -> int:
        """Number of elements or blocks."""
        return int(self.plain.shape[0])

    @property
    def by_columns(self) -> bool:
        """Whether the elements lie column by column."""
        return self.layout in BY_COLUMNS

    @property
    def coordinates(self) -> Coordinates:
        """The places of all elements, in the order of the flattened values."""
        if self._coordinates is None:
            rows = arrays.expanded(array_of(self.begins))
            columns = arrays.integers(array_of(self.plain))
            if self.by_columns:
                rows, columns = columns, rows
            if self.layout in BLOCKED:
                places = arrays.block_places(rows, columns, self.block)
            else:
                places = arrays.stacked([rows, columns], rows.size)
            self._coordinates = Coordinates(self.size, places, ordered=self.layout is sparse_csr)
        return self._coordinates

    def turned(self) -> Compressed:
        """The places of the transposed matrix: rows become columns."""
        layout = _TURNED[self.layout]
        size, block = self.size[::-1], self.block[::-1]
        return Compressed(layout, size, self.begins, self.plain, block)


_TURNED = {
    sparse_csr: sparse_csc,
    sparse_csc: sparse_csr,
    sparse_bsr: sparse_bsc,
    sparse_bsc: sparse_bsr,
}


def layout_of(places: Coordinates | Compressed) -> Layout:
    """torch.sparse_coo, torch.sparse_csr ..."""
    return sparse_coo if isinstance(places, Coordinates) else places.layout
