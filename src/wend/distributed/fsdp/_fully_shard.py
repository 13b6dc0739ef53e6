"""`fully_shard`: a module's parameters shared out among ranks, and gathered for its calls."""

from __future__ import annotations

from collections.abc import Iterable
from functools import wraps
from typing import Any

import wend
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError
from wend._engine.core._hot import Tensor
from wend._engine.core._modules import ModuleBase
from wend.distributed._replicas.casts import cast_tensors
from wend.distributed._sharding.ranks import Ranks, ranks_of
from wend.distributed._sharding.shards import mark, shard_of
from wend.distributed.fsdp._policies import MixedPrecisionPolicy, OffloadPolicy
from wend.distributed.fsdp._units import Sharded, Unit

__all__ = [
    "FSDPModule",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "share_comm_ctx",
]


class UnshardHandle:
    """The end of an `unshard`."""

    def wait(self) -> None:
        """Nothing: the wholes are there."""


class FSDPModule:
    """The methods that a module has by `fully_shard`."""

    _fsdp: Unit

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's result, by gathered parameters."""
        return _called(self, super().forward, inputs, kwargs)  # type: ignore[misc]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather this module's parameters, and keep the wholes until `reshard`; all ranks call.

        Inner modules that have been sharded by themselves stay as they are. Returns a handle to
        wait for if `async_op`.
        """
        self._fsdp.unshard()
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Let this module have its rows alone."""
        self._fsdp.reshard()

    def reset_iter_state(self) -> None:
        """Forget wholes and gradients that were not shared out, as after a failed step."""
        for unit in _units_of(self):
            unit.depth, unit.armed, unit.passing, unit.held = 0, False, False, False
            for p in unit.parameters:
                p.put(p.own)
                p.leaf = p.seen = None

    # -- settings ---------------------------------------------------------------------------

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Whether backward passes share gradients out; else whole gradients are kept in each rank.

        The first pass that shares out again adds these. recurse: for inner modules, too
        """
        for unit in self._chosen(recurse):
            unit.sync = bool(requires_gradient_sync)

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Change nothing: rows have no replicas in other ranks."""

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Whether no further backward pass goes through the same calls; else wholes are kept."""
        for unit in self._chosen(True):
            unit.last = bool(is_last_backward)

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Whether passes end with the rows alone; else the next call need not gather.

        Wholes of updated rows are gathered anew in any case.
        """
        for unit in self._chosen(recurse):
            unit.frees = bool(reshard_after_backward)

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Change nothing: recorded backward passes read the wholes of the call."""

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Change nothing: backward passes gather nothing."""

    def set_modules_to_forward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Change nothing: all modules are gathered before the call. Raises ArgumentTypeError."""
        _check_modules("set_modules_to_forward_prefetch", modules)

    def set_modules_to_backward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Change nothing: backward passes gather nothing. Raises ArgumentTypeError."""
        _check_modules("set_modules_to_backward_prefetch", modules)

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide sums of gradients by this number, in place of the number of ranks."""
        self._fsdp.divisor = float(factor)

    def set_reduce_scatter_divide_factor(self, factor: float) -> None:
        """The former name of `set_gradient_divide_factor`."""
        self.set_gradient_divide_factor(factor)

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Change nothing: gradients are always divided before sums."""

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Change nothing: all memory can be sent."""

    def set_reduce_scatter_unused_params(
        self, reduce_scatter_unused_params: bool, *, recurse: bool = True
    ) -> None:
        """Change nothing: ranks tell which parameters any of them has used."""

    def set_reduce_scatter_max_input_buffers(
        self, max_input_buffers: int, *, recurse: bool = True
    ) -> None:
        """Change nothing: a module's gradients are in a single buffer."""

    def set_separate_reduce_scatter_group(
        self, enable: bool = True, *, recurse: bool = True
    ) -> None:
        """Change nothing: parameters have a channel of their own."""

    def _chosen(self, recurse: bool) -> list[Unit]:
        return _units_of(self) if recurse else [self._fsdp]

    # -- gradients and states ---------------------------------------------------------------

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """`nn.utils.clip_grad_norm_` of all parameters; all ranks call."""
        return wend.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)  # type: ignore[attr-defined]

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state; sharded parameters are this rank's rows, with the method `full_tensor`."""
        state = super().state_dict(*args, **kwargs)  # type: ignore[misc]
        prefix = kwargs.get("prefix", "")
        for name, parameter in self.named_parameters(remove_duplicate=False):  # type: ignore[attr-defined]
            shard = shard_of(parameter)
            if shard is not None and prefix + name in state:
                mark(state[prefix + name], shard)
        return state


def _called(module: Any, function: Any, inputs: Any, kwargs: Any) -> Any:
    """The result of a method of a module, by gathered parameters."""
    unit: Unit = module._fsdp
    if unit.root is None:
        unit.become_root(_units_in(unit.modules))
    policy = unit.policy
    if policy.param_dtype is not None and policy.cast_forward_inputs:
        inputs, kwargs = cast_tensors((inputs, kwargs), policy.param_dtype)
    unit.enter()
    try:
        result = function(*inputs, **kwargs)
    finally:
        unit.leave()
    return result if policy.output_dtype is None else cast_tensors(result, policy.output_dtype)


def register_fsdp_forward_method(module: ModuleBase, method_name: str) -> None:
    """Let a further method of a sharded module gather parameters, as `forward` does.

    A module that has not been sharded stays as it is. Raises ArgumentError (a ValueError) if there
    is no such method.
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ArgumentError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name)

    @wraps(method)
    def called(*inputs: object, **kwargs: object) -> Any:
        return _called(module, method, inputs, kwargs)

    object.__setattr__(module, method_name, called)


def share_comm_ctx(modules: list[FSDPModule]) -> None:
    """Change nothing: sharded modules share a channel. Raises ArgumentTypeError."""
    _check_modules("share_comm_ctx", modules)


def _check_modules(name: str, modules: Iterable[Any]) -> None:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ArgumentTypeError(
                f"{name}: all modules must have been given to fully_shard, got "
                f"{type(module).__name__}"
            )


def _units_of(module: object) -> list[Unit]:
    """The units of a module and of those below, inner ones first."""
    return _units_in([module])


def _units_in(modules: list[Any]) -> list[Unit]:
    units: dict[int, Unit] = {}
    for module in modules:
        for inner in module.modules():
            if isinstance(inner, FSDPModule):
                units.setdefault(id(inner._fsdp), inner._fsdp)
    return list(units.values())[::-1]


def fully_shard(
    module: ModuleBase,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: object = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),  # noqa: B008
    offload_policy: OffloadPolicy = OffloadPolicy(),  # noqa: B008
    ignored_params: object = None,
    dp_mesh_dims: object = None,
) -> Any:
    """Let each rank keep rows of a module's parameters; returns the module, changed in place.

    Inner modules are sharded first, the whole model last. The optimizer is made afterwards, with
    the rows as parameters. Gradients are means over the ranks. A call of the outermost module
    gathers the parameters; the wholes are held until the backward pass ends, or until the end of
    the call without gradients. All ranks call the outermost module alike, on any paths inside.

    module: or a list of modules that are gathered together
    mesh: a mesh of a single dim; all ranks by default
    mp_policy: types of the computation and of sums of gradients
    reshard_after_forward: accepted; recorded backward passes read the wholes of the call
    offload_policy: accepted; all memory is the CPU's
    Raises ArgumentError (a ValueError) for arguments that are not available.
    Raises GraphError (a RuntimeError) for parameters without dims, or of an inner sharded module.
    """
    for argument, name in (
        (shard_placement_fn, "shard_placement_fn"),
        (dp_mesh_dims, "dp_mesh_dims"),
    ):
        if argument is not None:
            raise ArgumentError(f"fully_shard: {name} is not available; leave it out")
    if not isinstance(offload_policy, OffloadPolicy):
        raise ArgumentTypeError(
            f"fully_shard: offload_policy must be an OffloadPolicy, got {offload_policy!r}"
        )
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    if any(isinstance(m, FSDPModule) for m in modules):
        raise GraphError("fully_shard: the module has been sharded already")
    ranks = ranks_of(mesh, "shards")
    unit = Unit(modules, ranks, mp_policy, _shared_out(modules, ranks, ignored_params))
    for m in modules:
        object.__setattr__(m, "_fsdp", unit)
        kind = type(m)
        m.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {})
    return module


def _shared_out(modules: list[Any], ranks: Ranks, ignored_params: Any) -> list[Sharded]:
    """The parameters of modules that have not been sharded, as rows of each rank."""
    ignored = {id(p) for p in ignored_params or ()}
    places: dict[int, tuple[Any, dict[tuple[int, str], tuple[Any, str]]]] = {}
    for path, inner in (row for m in modules for row in m.named_modules()):
        for name, p in inner._parameters.items():
            if p is None or id(p) in ignored or shard_of(p) is not None:
                continue
            if p.dim() == 0:
                raise GraphError(
                    "fully_shard doesn't support scalar parameters. Change "
                    f"{path}.{name} to a 1D tensor with numel equal to 1."
                )
            if getattr(p, "_was_sharded", False):
                raise GraphError(
                    f"fully_shard: {path}.{name} is also a parameter of an inner module that has "
                    "been sharded; shard both modules by a single call"
                )
            places.setdefault(id(p), (p, {}))[1][id(inner), name] = (inner, name)
    parameters = []
    for p, there in places.values():
        parameters.append(Sharded(p, list(there.values()), ranks))
        p._was_sharded = True
    return parameters
