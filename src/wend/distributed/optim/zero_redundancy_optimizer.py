"""`ZeroRedundancyOptimizer`: each rank has the optimizer's state of a part of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import wend
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError
from wend._engine.core._hot import Tensor
from wend.distributed._group import AnyGroup, ProcessGroup, resolve
from wend.distributed._replicas.same_state import hand_out
from wend.distributed._sharding.ranks import Ranks, ranks_of
from wend.distributed._sharding.shards import array_of, tensor_of
from wend.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["ZeroRedundancyOptimizer"]


class OptimizerJoinHook(JoinHook):
    """Updates this rank's parameters by the gradients of ranks that still have data."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        """A step."""
        self.optimizer.step()


class ZeroRedundancyOptimizer(wend.optim.Optimizer, Joinable):
    """An optimizer whose ranks update a part of the parameters each, and send these to all ranks.

    The gradients are the same in all ranks, as `DistributedDataParallel` leaves them. A parameter
    belongs to the rank that has the fewest elements, the largest parameters first. The method is
    stage 1 of ZeRO (Rajbhandari et al., 2020).

    params: as of other optimizers; the same in all ranks, in the same order
    optimizer_class: the class of the optimizer of each part; **defaults: its settings
    process_group: the ranks; all by default
    In `Join([model, optimizer])`, ranks without data go on to update their parameters.
    `parameters_as_bucket_view` is accepted and changes nothing: updates travel in flat arrays.
    Raises ArgumentError (a ValueError) for overlap_with_ddp.
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: Any,
        process_group: AnyGroup = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: object,
    ) -> None:
        if overlap_with_ddp:
            raise ArgumentError(
                "ZeroRedundancyOptimizer: overlap_with_ddp is not available; leave it out, "
                "gradients are averaged while they are computed in any case"
            )
        if not (isinstance(optimizer_class, type) and hasattr(optimizer_class, "step")):
            raise ArgumentTypeError(
                "ZeroRedundancyOptimizer: optimizer_class must be a class of optimizers, not "
                f"{type(optimizer_class).__name__}"
            )
        self._ranks: Ranks = ranks_of(process_group)
        self.process_group = process_group
        self.parameters_as_bucket_view = parameters_as_bucket_view
        #: Elements by rank, and the rank of each parameter by identity.
        self._loads = [0] * self._ranks.size
        self._owner: dict[int, int] = {}
        self._whole: dict[str, Any] | None = None  # see `consolidate_state_dict`
        self.optim: Any = None
        self._class, self._settings = optimizer_class, defaults
        super().__init__(params, defaults)
        self.optim = optimizer_class([self._part(g) for g in self.param_groups], **defaults)
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            _copy_settings(own, group, missing_only=True)
        self.state = self.optim.state

    def _part(self, group: dict[str, Any]) -> dict[str, Any]:
        """A group with the parameters of this rank alone."""
        rank = self._ranks.rank
        own = [p for p in group["params"] if self._owner[id(p)] == rank]
        return {**{key: value for key, value in group.items() if key != "params"}, "params": own}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters; all ranks add the same group."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for p in sorted(group["params"], key=lambda p: -p.numel()):
            rank = min(range(len(self._loads)), key=self._loads.__getitem__)
            self._loads[rank] += int(p.numel())
            self._owner[id(p)] = rank
        if self.optim is not None:
            self.optim.add_param_group(self._part(group))
            _copy_settings(self.optim.param_groups[-1], group, missing_only=True)

    def _numbered(self) -> Iterator[tuple[int, Any]]:
        """All parameters, with their places."""
        seen: set[int] = set()
        for group in self.param_groups:
            for p in group["params"]:
                if id(p) not in seen:
                    yield len(seen), p
                    seen.add(id(p))

    # -- steps ------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update this rank's parameters, and take over those of the others; all ranks call.

        closure: computes the loss and the gradients anew; its result is returned
        """
        Join.notify_join_context(self)
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            _copy_settings(group, own)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure, **kwargs)
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            _copy_settings(own, group)
        self._whole = None
        if self._ranks.size > 1:
            self._share()
        return loss

    def _share(self) -> None:
        """Give all ranks the parameters of each: a call for each dtype."""
        by_dtype: dict[Any, list[list[Any]]] = {}
        for _, p in self._numbered():
            rows = by_dtype.setdefault(p.dtype, [[] for _ in self._loads])
            rows[self._owner[id(p)]].append(p)
        rank = self._ranks.rank
        for dtype, rows in by_dtype.items():
            counts = [sum(int(p.numel()) for p in row) for row in rows]
            parts = [array_of(p.detach()).reshape(-1) for p in rows[rank]]
            mine = np.concatenate(parts) if parts else np.empty(0, dtype.numpy)
            flat = self._ranks.gather(mine, counts)
            end = 0
            for other, (row, count) in enumerate(zip(rows, counts, strict=True)):
                if other != rank:
                    hand_out(row, [int(p.numel()) for p in row], flat[end : end + count])
                end += count

    def join_hook(self, **kwargs: object) -> JoinHook:
        """The hook of this optimizer for ranks without data: see `Join`."""
        return OptimizerJoinHook(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters: the CPU."""
        return wend.device("cpu")

    @property
    def join_process_group(self) -> ProcessGroup | None:
        """The ranks."""
        return resolve(self.process_group)

    # -- state ------------------------------------------------------------------------------

    def own_state_dict(self) -> dict[str, Any]:
        """The state of this rank's parameters alone, with the places of all parameters."""
        places = {id(p): k for k, p in self._numbered()}
        inner = self.optim.state_dict()
        mine = [p for group in self.optim.param_groups for p in group["params"]]
        state = {places[id(mine[k])]: entries for k, entries in inner["state"].items()}
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            groups.append({**packed, "params": [places[id(p)] for p in group["params"]]})
        return {"state": state, "param_groups": groups}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the state of all ranks in a rank, for `state_dict`; all ranks call."""
        own_state = self.own_state_dict()
        facts = {
            str(k): {key: _fact(value) for key, value in entries.items()}
            for k, entries in own_state["state"].items()
        }
        state: dict[int, dict[str, Any]] = {}
        for rank, rows in enumerate(self._ranks.tell("state of an optimizer", facts)):
            for place, entries in rows.items():
                own = own_state["state"].get(int(place), {})
                state[int(place)] = {
                    key: self._sent(fact, own.get(key), rank) for key, fact in entries.items()
                }
        if self._ranks.rank == to:
            self._whole = {"state": dict(sorted(state.items())), **_groups_of(own_state)}

    def _sent(self, fact: Any, own: Any, rank: int) -> Any:
        """A value of a rank's state, in all ranks."""
        if "dtype" not in fact:
            return fact["value"]
        dtype = getattr(wend, fact["dtype"])
        flat: np.ndarray = np.empty(int(np.prod(fact["shape"], dtype=np.int64)), dtype.numpy)
        if rank == self._ranks.rank:
            flat[:] = array_of(own.detach()).reshape(-1)
        return tensor_of(self._ranks.broadcast(flat, rank).reshape(fact["shape"]))

    def state_dict(self) -> dict[str, Any]:
        """The state of all parameters, in the rank to which `consolidate_state_dict` has sent it.

        Raises GraphError (a RuntimeError) elsewhere, and after a further step.
        """
        if self._ranks.size == 1:
            return self.own_state_dict()
        if self._whole is None:
            raise GraphError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self._ranks.rank})` on all ranks beforehand if you "
                "meant to save the global state."
            )
        return self._whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state of this rank's parameters from the state of all parameters.

        Raises ValueError if the groups do not fit.
        """
        groups = state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise ArgumentError(
                "ZeroRedundancyOptimizer: loaded state dict has groups of "
                f"{[len(g['params']) for g in groups]} parameters, and the optimizer has groups of "
                f"{[len(g['params']) for g in self.param_groups]}"
            )
        places = {id(p): k for k, p in self._numbered()}
        state, packed, count = {}, [], 0
        for group, own in zip(groups, self.optim.param_groups, strict=True):
            for k, p in enumerate(own["params"], count):
                if places[id(p)] in state_dict["state"]:
                    state[k] = state_dict["state"][places[id(p)]]
            packed.append({**group, "params": list(range(count, count + len(own["params"])))})
            count += len(own["params"])
        self.optim.load_state_dict({"state": state, "param_groups": packed})
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            _copy_settings(own, group)
        self.state = self.optim.state
        self._whole = None


def _groups_of(state: dict[str, Any]) -> dict[str, Any]:
    return {"param_groups": state["param_groups"]}


def _copy_settings(source: dict[str, Any], to: dict[str, Any], missing_only: bool = False) -> None:
    """Copy the settings of a group, but for the parameters."""
    for key, value in source.items():
        if key not in ("params", "param_names") and not (missing_only and key in to):
            to[key] = value


def _fact(value: object) -> dict[str, Any]:
    """A value of a state as a fact that ranks tell: of a tensor, the type and shape."""
    if isinstance(value, Tensor):
        return {"dtype": value.dtype.name, "shape": list(value.shape)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    raise ArgumentTypeError(
        f"ZeroRedundancyOptimizer: the state has a {type(value).__name__}; states of tensors and "
        "numbers can be gathered"
    )
