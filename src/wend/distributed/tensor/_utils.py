"""Which part of a tensor lies in a rank; nothing is communicated."""

from __future__ import annotations

from collections.abc import Sequence

from wend._engine.base.errors import ArgumentError
from wend.distributed.device_mesh import DeviceMesh
from wend.distributed.tensor.placement_types import Placement, Shard, _StridedShard

__all__ = ["compute_local_shape_and_global_offset"]


def _compute_local_shape_and_global_offset(
    global_shape: Sequence[int],
    mesh_shape: Sequence[int],
    my_coordinate: Sequence[int],
    placements: Sequence[Placement],
    skip_offset: bool = False,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of a place's part of a tensor, and the first index of the part along each dim.

    Placements of the same dim cut the tensor in turn, from the first dim of the mesh on.
    """
    held: list[Sequence[int]] = [range(size) for size in global_shape]
    offset = [0] * len(held)
    for ranks, rank, placement in zip(mesh_shape, my_coordinate, placements):
        if isinstance(placement, Shard | _StridedShard):
            dim = placement.dim
            if not -len(held) <= dim < len(held):
                raise ArgumentError(f"{placement!r}: the tensor has {len(held)} dims")
            held[dim] = placement._indices(held[dim], ranks, rank)
            offset[dim] = held[dim][0] if held[dim] else global_shape[dim]
    return tuple(map(len, held)), () if skip_offset else tuple(offset)


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int],
    mesh: DeviceMesh,
    placements: Sequence[Placement],
    skip_offset: bool = False,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this rank's part of a tensor, and the first index of the part along each dim.

    A rank that is not in the mesh has the shape (0,) and no offset.
    """
    place = mesh.get_coordinate()
    if place is None:
        return (0,), ()
    return _compute_local_shape_and_global_offset(
        global_shape, mesh.shape, place, placements, skip_offset
    )
