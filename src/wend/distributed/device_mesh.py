"""torch.distributed.device_mesh: ranks in a grid, with a group along each dim."""

from __future__ import annotations

import math
from typing import Any

from wend._engine.base.devices import device, usable
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, ExecutionError
from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend._frontend import creation
from wend.distributed._group import ProcessGroup, resolve, state
from wend.distributed._setup import init_process_group
from wend.distributed._subgroups import new_group

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Ranks of the world in a grid; the ranks that differ in a single dim form a group.

    device_type: 'cpu'
    mesh: (n, m, ...), numbers in the world
    mesh_dim_names: a name for each dim
    All ranks of the world make the mesh, in the same order as other groups.
    Raises ArgumentError (a ValueError) for names that do not fit; ExecutionError (a RuntimeError)
    for ranks that do not exist.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
        _rank: int | None = None,
        _layout: Any = None,
        _rank_map: Any = None,
        _root_mesh: DeviceMesh | None = None,
    ) -> None:
        usable(device(device_type), "DeviceMesh")
        if mesh is None:
            raise ArgumentTypeError("DeviceMesh: mesh must be a tensor or a list of ranks")
        self._device_type = device_type
        grid = mesh if isinstance(mesh, Tensor) else creation.tensor(mesh)
        self._mesh = grid.detach().long()
        self._names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if self.mesh_dim_names is not None and len(self.mesh_dim_names) != self.mesh.dim():
            raise ArgumentError(
                f"DeviceMesh: {len(self.mesh_dim_names)} names ({self.mesh_dim_names}) for a mesh "
                f"of {self.mesh.dim()} dims"
            )
        self._ranks: Any = self.mesh.tolist()
        self._root = _root_mesh
        self._groups: list[ProcessGroup] = []
        self._flat: dict[str, DeviceMesh] = {}
        if _root_mesh is None and _init_backend:
            if state.default is None:
                init_process_group()
            self._check()
            self._groups = [self._groups_along(dim) for dim in range(self.mesh.dim())]

    @property
    def device_type(self) -> str:
        """'cpu'."""
        return self._device_type

    @property
    def mesh(self) -> Tensor:
        """The numbers of ranks in the world."""
        return self._mesh

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """A name for each dim."""
        return self._names

    def _check(self) -> None:
        ranks = sorted(self.mesh.reshape(-1).tolist())
        size = resolve(None).size()
        if len(set(ranks)) != len(ranks) or ranks[0] < 0 or ranks[-1] >= size:
            raise ExecutionError(
                f"DeviceMesh: the mesh has the ranks {ranks}, and the world has ranks 0 to "
                f"{size - 1}, each of which may occur once"
            )

    def _groups_along(self, dim: int) -> ProcessGroup:
        """This rank's group along a dim; makes the groups of all ranks."""
        world = resolve(None)
        rows = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist()
        own_group = None
        for row in rows:
            whole = row == list(world.ranks)
            group = world if whole else new_group(row, sort_ranks=False)
            if world.own in row:
                own_group = group
        return group if own_group is None else own_group

    # -- questions ---------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return int(self.mesh.dim())

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of ranks along each dim."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of ranks along a dim, or of all."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def _dim_of(self, dim: Any) -> int:
        """The number of a dim that is given by number or name; None for the only dim."""
        if dim is None:
            if self.ndim != 1:
                raise ExecutionError(
                    f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` "
                    "needs to be specified when device_mesh.ndim > 1."
                )
            return 0
        if isinstance(dim, str):
            names = self.mesh_dim_names or ()
            if dim not in names:
                raise ArgumentError(f"DeviceMesh: there is no dim {dim!r}: the dims are {names}")
            return names.index(dim)
        if not -self.ndim <= dim < self.ndim:
            raise ArgumentError(f"DeviceMesh: there is no dim {dim} in a mesh of {self.ndim} dims")
        return int(dim) % self.ndim

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """This rank's group along a dim, given by number or name."""
        if isinstance(mesh_dim, str) and mesh_dim in self._flat:
            return self._flat[mesh_dim].get_group()
        return self._groups[self._dim_of(mesh_dim)]

    def get_all_groups(self) -> list[ProcessGroup]:
        """This rank's groups, along all dims."""
        return list(self._groups)

    def get_rank(self) -> int:
        """This process's number in the world."""
        return resolve(None).own

    def get_coordinate(self) -> list[int] | None:
        """This rank's place in the mesh, or None."""
        places = (self.mesh == self.get_rank()).nonzero().tolist()
        return places[0] if places else None

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This rank's place along a dim. Raises ExecutionError (a RuntimeError) if no member."""
        place = self.get_coordinate()
        if place is None:
            raise ExecutionError(f"DeviceMesh: rank {self.get_rank()} is not in the mesh")
        return place[self._dim_of(mesh_dim)]

    def __enter__(self) -> DeviceMesh:
        _entered.append(self)
        return self

    def __exit__(self, *unused: object) -> None:
        _entered.pop()

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, DeviceMesh)
            and (self._ranks, self.device_type, self.mesh_dim_names)
            == (other._ranks, other.device_type, other.mesh_dim_names)
        )

    def __hash__(self) -> int:
        return hash((str(self._ranks), self.device_type, self.mesh_dim_names))

    def __repr__(self) -> str:
        names = "" if self.mesh_dim_names is None else f", mesh_dim_names={self.mesh_dim_names}"
        return f"DeviceMesh('{self.device_type}', {self._ranks}{names})"

    # -- parts ------------------------------------------------------------------------------

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of some dims that this rank is in. Raises KeyError for unknown names."""
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if self.mesh_dim_names is None:
            raise ExecutionError("Cannot slice a DeviceMesh without mesh_dim_names!")
        if len(names) == 1 and names[0] in self._flat:
            return self._flat[names[0]]
        missing = [name for name in names if name not in self.mesh_dim_names]
        if missing:
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are "
                f"{[*self.mesh_dim_names, *self._flat]}."
            )
        if names == self.mesh_dim_names:
            return self
        dims = [self.mesh_dim_names.index(name) for name in names]
        place = self.get_coordinate()
        if place is None:
            raise ExecutionError(f"DeviceMesh: rank {self.get_rank()} is not in the mesh")
        part = self.mesh[tuple(slice(None) if d in dims else place[d] for d in range(self.ndim))]
        order = [sorted(dims).index(d) for d in dims]
        submesh = DeviceMesh(
            self.device_type, part.permute(order), mesh_dim_names=names, _root_mesh=self._top()
        )
        submesh._groups = [self._groups[d] for d in dims]
        return submesh

    def _top(self) -> DeviceMesh:
        return self if self._root is None else self._root

    _get_root_mesh = _top

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """The mesh with all dims in a single dim, of a group of its own; kept under the name."""
        top = self._top()
        name = mesh_dim_name or "_".join(self.mesh_dim_names or map(str, range(self.ndim)))
        if name in top._flat:
            return top._flat[name]
        own = self.get_rank()
        flat_mesh: DeviceMesh | None = None
        dims = [(top.mesh_dim_names or ()).index(n) for n in self.mesh_dim_names or ()]
        whole = top.mesh.movedim(dims, list(range(-len(dims), 0))) if dims else top.mesh
        for row in whole.reshape(-1, self.size()).tolist():
            same = row == list(resolve(None).ranks)
            group = resolve(None) if same else new_group(row, sort_ranks=False)
            if own in row:
                flat_mesh = DeviceMesh(
                    self.device_type, row, mesh_dim_names=(name,), _root_mesh=top
                )
                flat_mesh._groups = [group]
        if flat_mesh is None:
            raise ExecutionError(f"DeviceMesh: rank {own} is not in the mesh")
        top._flat[name] = flat_mesh
        return flat_mesh

    @staticmethod
    def from_group(
        group: ProcessGroup | list[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
    ) -> DeviceMesh:
        """A mesh of groups that are there: a single group, or a group for each dim of a grid."""
        groups = list(group) if isinstance(group, (list, tuple)) else [group]
        if mesh is None:
            if len(groups) != 1:
                raise ArgumentError("DeviceMesh.from_group: several groups need a mesh")
            mesh = list(groups[0].ranks)
        device_mesh = DeviceMesh(
            device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False
        )
        if len(groups) != device_mesh.ndim:
            raise ArgumentError(
                f"DeviceMesh.from_group: {len(groups)} groups for a mesh of {device_mesh.ndim} dims"
            )
        device_mesh._groups = groups
        return device_mesh


_entered: list[DeviceMesh] = []


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """All ranks of the world in a grid, in row-major order.

    Begins the default group, if there is none. Raises ExecutionError (a RuntimeError) for a shape
    that does not hold all ranks, or names that do not fit.
    """
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise ExecutionError(
                "Each mesh_dim_name must be unique: Found repeated mesh_dim_name in mesh_dim_names "
                f"{mesh_dim_names}"
            )
        if len(mesh_dim_names) != len(mesh_shape):
            raise ExecutionError(
                f"mesh_shape and mesh_dim_names should have same length: {len(mesh_shape)} and "
                f"{len(mesh_dim_names)}"
            )
    usable(device(device_type), "init_device_mesh")
    if state.default is None:
        init_process_group()
    count, size = math.prod(mesh_shape), resolve(None).size()
    if count > size:
        raise ExecutionError(
            f"Mesh should not be bigger than default world size {size}, but found {count} ranks!"
        )
    grid = creation.arange(count).reshape(Size(mesh_shape))
    return DeviceMesh(device_type, grid, mesh_dim_names=mesh_dim_names)
