"""States of models and optimizers by parameter names, for all wrappers of models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import wend
from wend._engine.base.errors import ArgumentError, ShapeError
from wend._engine.core._hot import Tensor
from wend._engine.core._modules import ModuleBase
from wend._frontend.autograd.grad_modes import no_grad
from wend.distributed._sharding.ranks import Ranks, ranks_of
from wend.distributed._sharding.shards import (
    array_of,
    full_tensor,
    mark,
    part_of,
    shard_of,
    tensor_of,
)

__all__ = [
    "FQNS_T",
    "DictValueType",
    "ListDictValueType",
    "OptimizerStateType",
    "PrimitiveType",
    "StateDictOptions",
    "ValueType",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


#: Values, and states by name, as annotations of programs say these.
PrimitiveType = Tensor | int | float | str
ValueType = PrimitiveType | list[PrimitiveType] | tuple[PrimitiveType, ...] | dict[str, "ValueType"]
DictValueType = dict[str, ValueType]
ListDictValueType = list[DictValueType]
OptimizerStateType = dict[str, DictValueType | ListDictValueType]
FQNS_T = set[str]


@dataclass
class StateDictOptions:
    """How states are given and taken.

    full_state_dict: whole tensors, in place of each rank's parts
    cpu_offload: with `full_state_dict`, only rank 0 gets the state, the others an empty dict
    ignore_frozen_params: leave out parameters that do not require gradients
    strict: whether names must agree when a state is loaded
    broadcast_from_rank0: with `full_state_dict`, the state of rank 0 is loaded in all ranks
    `keep_submodule_prefixes`, `flatten_optimizer_state_dict` have PyTorch's defaults alone.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


@dataclass
class _Names:
    """Names of a model's parameters without those of wrappers.

    real: by the name in the model's own state   parameters: the parameters by name
    """

    real: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)


def _checked(name: str, options: StateDictOptions | None, submodules: object) -> StateDictOptions:
    options = options or StateDictOptions()
    if submodules:
        raise ArgumentError(f"{name}: give the submodule itself in place of `submodules`")
    if options.flatten_optimizer_state_dict or not options.keep_submodule_prefixes:
        raise ArgumentError(
            f"{name}: flatten_optimizer_state_dict and keep_submodule_prefixes=False are not "
            "available; checkpoints flatten states by themselves"
        )
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ArgumentError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


def _wrappers(model: Any) -> list[str]:
    """The prefixes that wrappers add to the names of a model's state."""
    kinds = wend.nn.parallel.DataParallel, wend.nn.parallel.DistributedDataParallel
    prefixes = []
    for name, module in model.named_modules():
        if isinstance(module, kinds):
            prefixes.append(f"{name}.module." if name else "module.")
    return sorted(prefixes, key=len, reverse=True)  # inner wrappers first


def _plain_name(name: str, wrappers: list[str]) -> str:
    for prefix in wrappers:
        if name.startswith(prefix):
            name = prefix[: -len("module.")] + name[len(prefix) :]
    return name


def _names_of(model: Any) -> _Names:
    wrappers = _wrappers(model)
    names = _Names()
    for name in model.state_dict():
        names.real[_plain_name(name, wrappers)] = name
    for name, parameter in model.named_parameters():
        names.parameters[_plain_name(name, wrappers)] = parameter
    return names


def _given(value: object, options: StateDictOptions) -> Any:
    """A tensor of a state, as the options ask."""
    if not isinstance(value, Tensor) or not options.full_state_dict:
        return value
    return full_tensor(value)


def _group_of(parameters: Iterable[Any]) -> Ranks:
    """The ranks that share the parameters; else all ranks."""
    for parameter in parameters:
        shard = shard_of(parameter)
        if shard is not None:
            ranks: Ranks = shard.ranks
            return ranks
    return ranks_of(None)


def get_model_state_dict(
    model: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of a model by names that do not tell wrappers; sharded tensors are this rank's.

    All ranks call with `full_state_dict`. Raises ArgumentError (a ValueError) for options that are
    not available.
    """
    options = _checked("get_model_state_dict", options, submodules)
    names, state = _names_of(model), model.state_dict()
    model_state = {}
    for name, real in names.real.items():
        parameter = names.parameters.get(name)
        if options.ignore_frozen_params and parameter is not None and not parameter.requires_grad:
            continue
        model_state[name] = _given(state[real], options)
    if options.full_state_dict and options.cpu_offload:
        return model_state if _group_of(names.parameters.values()).rank == 0 else {}
    return model_state


def set_model_state_dict(
    model: Any,
    model_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> Any:
    """Load a state of `get_model_state_dict`; returns the missing and the unexpected names.

    Whole tensors are cut to this rank's parts. With `broadcast_from_rank0`, the other ranks may
    give an empty dict. Raises RuntimeError if strict and names differ.
    """
    options = _checked("set_model_state_dict", options, None)
    names = _names_of(model)
    own = model.state_dict()
    if options.broadcast_from_rank0:
        model_state_dict = _from_first(model_state_dict, names, own)
    loaded = {}
    for name, value in model_state_dict.items():
        real = names.real.get(name, name)
        loaded[real] = _fitted(name, value, own.get(real))
    return model.load_state_dict(loaded, strict=options.strict)


def _fitted(name: str, value: Any, target: Any) -> Any:
    """A whole tensor cut to the rows of the target; anything else as it is."""
    shard = shard_of(target)
    if shard is None or not isinstance(value, Tensor) or shard_of(value) is not None:
        return value
    if tuple(value.shape) == shard.shape:
        return part_of(value, shard, tuple(target.shape))
    if tuple(value.shape) == tuple(target.shape):
        return value
    raise ShapeError(
        f"set_model_state_dict: {name!r} has shape {tuple(value.shape)}, and the model's tensor "
        f"has shape {shard.shape}, of which this rank has {tuple(target.shape)}"
    )


def _from_first(state: dict[str, Any], names: _Names, own: dict[str, Any]) -> dict[str, Any]:
    """The state that rank 0 has given, in all ranks."""
    ranks = _group_of(own.values())
    there: list[str] = ranks.tell("names of a state", list(state))[0]
    common_state: dict[str, Any] = {}
    for name in there:
        real = names.real.get(name)
        if real is None:
            common_state[name] = state.get(name)
            continue
        target = own[real]
        shard = shard_of(target)
        shape = tuple(target.shape) if shard is None else shard.shape
        flat: np.ndarray = np.empty(int(np.prod(shape, dtype=np.int64)), target.dtype.numpy)
        if ranks.rank == 0:
            flat[:] = array_of(state[name].detach().to(target.dtype)).reshape(-1)
        common_state[name] = tensor_of(ranks.broadcast(flat, 0).reshape(shape))
    return common_state


# -- optimizers ------------------------------------------------------------------------------


def _listed(optimizers: object) -> list[Any]:
    return list(optimizers) if isinstance(optimizers, (list, tuple)) else [optimizers]


def _make_state(optimizer: Any) -> None:
    """Let an optimizer without state have one, by a step with zeros that changes no parameter."""
    if optimizer.state:
        return
    every = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if any(p.grad is not None for p in every):
        return  # in the middle of a step: the state comes with the step
    rates = [group.get("lr") for group in optimizer.param_groups]
    for p in every:
        p.grad = tensor_of(np.zeros(tuple(p.shape), p.dtype.numpy))
    try:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = 0.0
        optimizer.step()
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)


def _own_state(optimizer: Any) -> dict[str, Any]:
    """The optimizer's state in this rank: of a `ZeroRedundancyOptimizer`, that of its part."""
    inner = getattr(optimizer, "own_state_dict", None)
    state: dict[str, Any] = optimizer.state_dict() if inner is None else inner()
    return state


def _places(optimizer: Any, names: dict[int, str], function: str) -> list[str]:
    """The names of an optimizer's parameters, by place. names: by identity"""
    places = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise ArgumentError(
                    f"{function}: the optimizer has a parameter of shape "
                    f"{tuple(parameter.shape)} that the model lacks"
                )
            if names[id(parameter)] not in places:
                places.append(names[id(parameter)])
    return places


def get_optimizer_state_dict(
    model: ModuleBase,
    optimizers: object,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of optimizers, with names in place of numbers; parts where parameters are parts.

    An optimizer that has made no step makes one with zeros, so that a state can be loaded into it.
    All ranks call. Raises ArgumentError (a ValueError) for parameters that the model lacks.
    """
    options = _checked("get_optimizer_state_dict", options, submodules)
    parameters = _names_of(model).parameters
    names = {id(p): name for name, p in parameters.items()}
    optimizer_state: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in _listed(optimizers):
        _make_state(optimizer)
        places = _places(optimizer, names, "get_optimizer_state_dict")
        state = _own_state(optimizer)
        for place, entries in state["state"].items():
            name = places[place]
            optimizer_state["state"][name] = {
                key: _marked(value, parameters[name]) for key, value in entries.items()
            }
        for group in state["param_groups"]:
            optimizer_state["param_groups"].append(
                {**group, "params": [places[place] for place in group["params"]]}
            )
    if options.full_state_dict:
        return _full_optimizer_state(optimizer_state, parameters, options)
    return optimizer_state


def _marked(value: object, parameter: Tensor) -> Any:
    """A tensor of a parameter's state, noted as a part where the parameter is one."""
    shard = shard_of(parameter)
    if shard is None or not isinstance(value, Tensor) or value.dim() == 0:
        return value
    if value.dim() != len(shard.shape) or value.shape != parameter.shape:
        return value
    return mark(value.detach(), shard)


def _full_optimizer_state(
    optimizer_state: dict[str, Any], parameters: dict[str, Any], options: StateDictOptions
) -> dict[str, Any]:
    ranks = _group_of(parameters.values())
    if any(set(names) != set(optimizer_state["state"]) for names in
           ranks.tell("names of states", list(optimizer_state["state"]))):  # fmt: skip
        raise ArgumentError(
            "get_optimizer_state_dict: each rank has the state of some parameters alone; call "
            "`consolidate_state_dict` of the optimizer for a whole state"
        )
    for entries in optimizer_state["state"].values():
        for key, value in entries.items():
            entries[key] = _given(value, options)
    return {} if options.cpu_offload and ranks.rank else optimizer_state


def set_optimizer_state_dict(
    model: ModuleBase,
    optimizers: object,
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load a state of `get_optimizer_state_dict`. Whole tensors are cut to this rank's parts.

    Raises ArgumentError (a ValueError) for parameters that the state lacks.
    """
    options = _checked("set_optimizer_state_dict", options, None)
    if options.broadcast_from_rank0:
        raise ArgumentError(
            "set_optimizer_state_dict: broadcast_from_rank0 is not available for optimizers; load "
            "the state in all ranks"
        )
    parameters = _names_of(model).parameters
    names = {id(p): name for name, p in parameters.items()}
    for optimizer in _listed(optimizers):
        _make_state(optimizer)
        places = _places(optimizer, names, "set_optimizer_state_dict")
        numbers = {name: k for k, name in enumerate(places)}
        with no_grad():
            state = {
                numbers[name]: {
                    key: _fitted(name, value, _marked_like(value, parameters[name]))
                    for key, value in entries.items()
                }
                for name, entries in optim_state_dict["state"].items()
                if name in numbers
            }
        groups = [_group_for(group, optim_state_dict, names) for group in optimizer.param_groups]
        k = 0
        for group in groups:
            group["params"] = list(range(k, k + len(group["params"])))
            k += len(group["params"])
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def _marked_like(value: object, parameter: Tensor) -> Any:
    """The tensor that tells how a value of a parameter's state is cut."""
    shard = shard_of(parameter)
    if shard is None or not isinstance(value, Tensor) or value.dim() == 0:
        return None
    return parameter if tuple(value.shape) == shard.shape else None


def _group_for(own: dict[str, Any], state: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    """The settings that a state has for a group of parameters."""
    wanted = [names[id(p)] for p in own["params"]]
    for group in state["param_groups"]:
        if set(wanted) <= set(group["params"]):
            return {**group, "params": wanted}
    raise ArgumentError(
        f"set_optimizer_state_dict: no group of the state has the parameters {wanted}"
    )


# -- both ------------------------------------------------------------------------------------


def get_state_dict(
    model: ModuleBase,
    optimizers: object,
    *,
    submodules: Iterable[ModuleBase] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of a model and of its optimizers."""
    optimizer_state = get_optimizer_state_dict(
        model, optimizers, submodules=submodules, options=options
    )
    return get_model_state_dict(model, submodules=submodules, options=options), optimizer_state


def set_state_dict(
    model: ModuleBase,
    optimizers: object,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Load the states of `get_state_dict`."""
    incompatible_keys = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return incompatible_keys
