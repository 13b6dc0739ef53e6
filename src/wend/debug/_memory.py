"""`wend.debug.memory()`: who holds the memory now, by owner, line and module."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

from wend._engine.base.errors import ArgumentTypeError
from wend._engine.core._hot import Segment, Tensor
from wend._engine.core.holdings import Holding, holdings, root_of
from wend._engine.core.provenance import site_of
from wend._frontend.profiling.memory_report import HeldMemory, memory_rows
from wend.debug._members import Member, members
from wend.nn.modules.module import Module
from wend.optim.optimizer import Optimizer

__all__ = ["memory"]


def memory(*modules: Module) -> HeldMemory:
    """Who holds the memory of tensors now: by owner, by the user's line, and by name.

    modules: models whose parameters, buffers, gradients and states of optimizers are named by their
    dotted paths; `by_module` of the result sums up. A value that is kept for the backward pass
    belongs to the module whose parameters are used together with it.

    Owners are parameters and buffers of modules, the state of optimizers, gradients, values kept
    for backward passes, results, and tensors without a history.  Each piece of memory counts once.
    Temporaries and the engine's own tables are not listed.  Nothing pending is computed.

    Raises ArgumentTypeError for anything but modules.
    """
    for module in modules:
        if not isinstance(module, Module):
            raise ArgumentTypeError(f"memory: takes modules, not a {type(module).__name__}")
    names = _names(modules)
    users = _users(modules) if modules else {}

    def owner_of(holding: Holding) -> tuple[str, str, str]:
        key = names.get(id(holding.array))
        if key is None:
            user = users.get(id(holding.array), "") if holding.owner == KEPT else ""
            key = (holding.owner, holding.place, user)
        return key

    held = ((owner_of(h), (int(h.array.nbytes), 1)) for h in holdings(site_of))
    return HeldMemory(memory_rows(held))


#: The owner of values that backward passes will read.
KEPT = "kept for backward"


def _names(modules: tuple[Module, ...]) -> dict[int, tuple[str, str, str]]:
    """(owner, name, path of the module) of the arrays of some modules, by id."""
    owners: dict[int, tuple[str, str, str]] = {}
    paths: dict[int, tuple[str, str]] = {}
    for name, path, owner, tensor in _members(modules):
        paths[id(tensor)] = name, path
        _note(owners, tensor, owner, name, path)
        if tensor._grad is not None:
            _note(owners, tensor._grad, "gradients", name, path)
    for thing in gc.get_objects() if modules else ():
        if issubclass(type(thing), Optimizer):
            kind = type(thing).__name__
            for parameter, state in list(vars(thing).get("state", {}).items()):
                named = paths.get(id(parameter))
                if named is None or not isinstance(state, dict):
                    continue
                for key, x in list(state.items()):
                    if isinstance(x, Tensor):
                        _note(owners, x, f"state of optimizers: {key} of {kind}", *named)
    return owners


def _members(modules: tuple[Module, ...]) -> Iterator[Member]:
    """The parameters and buffers of several models, whose paths could be equal."""
    for k, module in enumerate(modules):
        yield from members(module, f"{type(module).__name__} {k}" if len(modules) > 1 else "")


def _note(
    owners: dict[int, tuple[str, str, str]], tensor: Any, owner: str, name: str, path: str
) -> None:
    buffer = getattr(tensor.value, "buffer", None)
    if buffer is not None:
        owners.setdefault(id(root_of(buffer)), (owner, name, path))


def _users(modules: tuple[Module, ...]) -> dict[int, str]:
    """Path of the module that a kept array is used by, by id of the array."""
    paths = {id(member.tensor): member.module for member in _members(modules)}
    module_of: dict[int, str] = {}
    for thing in gc.get_objects():
        if type(thing) is Segment:
            users = _users_in(thing, paths)
            for i, (_, array) in (thing.saved or {}).items():
                if array is not None and i in users:
                    module_of.setdefault(id(root_of(array)), users[i])
    return module_of


def _users_in(segment: Segment, paths: dict[int, str]) -> dict[int, str]:
    """Path of the module whose parameter is an operand beside a value, else of the value's op."""
    modules: dict[int, str] = {}
    for i, value in (segment.inputs or {}).items():
        leaf = None if value.leaf is None else value.leaf.ref()
        if leaf is not None and id(leaf) in paths:
            modules[i] = paths[id(leaf)]
    readers: dict[int, str] = {}
    makers: dict[int, str] = {}
    path = segment.structure
    for k, state in enumerate(path.states):
        operands = list(state.operand_indices())
        module = next((modules[i] for i in operands if i in modules), None)
        if module is None:
            continue
        for i in operands:
            if i not in modules:
                readers.setdefault(i, module)
        makers.update((i, module) for i in range(state.first, state.first + state.n_out))
        for node in path.nodes_of(k):
            makers.update((i, module) for i in node.outputs)
    return makers | readers
