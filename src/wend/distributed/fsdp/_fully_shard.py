"""`fully_shard`: a module's parameters shared out among ranks, and gathered for its calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import wend
from wend.base.errors import ArgumentError, GraphError
from wend.distributed._sharding.ranks import ranks_of
from wend.distributed._sharding.shards import mark, shard_of
from wend.distributed.fsdp._units import Sharded, Unit
from wend.frontend.autograd.grad_modes import no_grad

__all__ = ["FSDPModule", "MixedPrecisionPolicy", "fully_shard"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Types of a module's computation.

    param_dtype: of gathered parameters, and of inputs with `cast_forward_inputs`
    reduce_dtype: in which gradients are averaged
    output_dtype: of results
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


class FSDPModule:
    """The methods that a module has by `fully_shard`."""

    _fsdp: Unit

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's result, by gathered parameters."""
        unit = self._fsdp
        if unit.root is None:
            unit.become_root(_units_of(self))
        policy = unit.policy
        if policy.param_dtype is not None and policy.cast_forward_inputs:
            inputs, kwargs = _cast((inputs, kwargs), policy.param_dtype)
        unit.enter()
        try:
            result = super().forward(*inputs, **kwargs)  # type: ignore[misc]
        finally:
            unit.leave()
        return result if policy.output_dtype is None else _cast(result, policy.output_dtype)

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Whether backward passes share gradients out; else whole gradients are kept in each rank.

        All units below a root follow the root.
        """
        for unit in _units_of(self):
            unit.sync = requires_gradient_sync

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale the gradients of all ranks down to a total norm; returns the norm before."""
        grads = [p.grad for p in self.parameters() if p.grad is not None]  # type: ignore[attr-defined]
        ranks = self._fsdp.ranks
        with no_grad():
            own = wend.nn.utils.get_total_norm([g for g in grads if g.numel()], norm_type).item()
            if norm_type == float("inf"):
                total = ranks.add(own, "max")
            else:
                total = ranks.add(own**norm_type) ** (1.0 / norm_type)
            factor = min(1.0, max_norm / (total + 1e-6))
            for g in grads:
                g.mul_(factor)
        return wend.tensor(total)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state; sharded parameters are this rank's rows, with the method `full_tensor`."""
        found = super().state_dict(*args, **kwargs)  # type: ignore[misc]
        prefix = kwargs.get("prefix", "")
        for name, parameter in self.named_parameters(remove_duplicate=False):  # type: ignore[attr-defined]
            shard = shard_of(parameter)
            if shard is not None and prefix + name in found:
                mark(found[prefix + name], shard)
        return found


def _units_of(module: Any) -> list[Unit]:
    """The units of a module and of those below, inner ones first."""
    found = [m._fsdp for m in module.modules() if isinstance(m, FSDPModule)]
    return found[::-1]


def _cast(value: Any, dtype: Any) -> Any:
    """Floating-point tensors in nested lists, tuples and dicts, in another type."""
    if isinstance(value, wend.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: _cast(item, dtype) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_cast(item, dtype) for item in value)
    return value


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: Any = None,
    ignored_params: Any = None,
) -> Any:
    """Let each rank keep rows of a module's parameters; returns the module, changed in place.

    Inner modules are sharded first, the whole model last. The optimizer is made afterwards, with
    the rows as parameters. Gradients are means over the ranks. A call of the outermost module
    gathers the parameters; the wholes are held until the backward pass ends, or until the end of
    the call without gradients. All ranks call the outermost module alike, on any paths inside.

    mesh: a mesh of a single dim; all ranks by default
    reshard_after_forward: accepted; recorded backward passes read the wholes of the call
    Raises ArgumentError (a ValueError) for arguments that are not available.
    Raises GraphError (a RuntimeError) for parameters without dims, or of an inner sharded module.
    """
    for given, name in ((shard_placement_fn, "shard_placement_fn"),
                        (offload_policy, "offload_policy")):  # fmt: skip
        if given is not None:
            raise ArgumentError(f"fully_shard: {name} is not available; leave it out")
    if isinstance(module, FSDPModule):
        raise GraphError("fully_shard: the module has been sharded already")
    ranks = ranks_of(mesh, "shards")
    ignored = {id(p) for p in ignored_params or ()}
    places: dict[int, tuple[Any, list[tuple[Any, str]]]] = {}
    for path, inner in module.named_modules():
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
            places.setdefault(id(p), (p, []))[1].append((inner, name))
    parameters = []
    for p, there in places.values():
        parameters.append(Sharded(p, there, ranks))
        p._was_sharded = True
    policy = mp_policy or MixedPrecisionPolicy()
    object.__setattr__(module, "_fsdp", Unit(ranks, policy, parameters))
    kind = type(module)
    module.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {})
    return module
