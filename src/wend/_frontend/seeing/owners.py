"""The place of each op in a folded graph: phase, module, and call of the module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wend._frontend.seeing.op_graph import PHASES, OpGraph, OpNode

__all__ = ["Owners", "owners"]


@dataclass
class Owners:
    """Where ops belong.

    paths: of the module around each op, "cell (call 2)" for a later call of "cell"
    phases: of each op; a leaf without a name has the phase of the first user
    parameters: ids of leaves that modules own, and of constants      classes: path -> class
    """

    paths: list[str]
    phases: list[str]
    parameters: set[int] = field(default_factory=set)
    classes: dict[str, str] = field(default_factory=dict)


def owners(graph: OpGraph) -> Owners:
    """Where the ops of a graph belong.

    A backward op lies in the call of the forward op whose gradient is computed; an op of the
    update lies in the module of the changed parameter, and a leaf in the module that owns the
    leaf. Constants, and the state of optimizers, lie with the first user.
    """
    nodes = graph.nodes
    paths, modules = call_paths(graph)
    ownership = Owners(paths, phases_of(nodes))
    ownership.classes = {path: graph.modules.get(module, "") for path, module in modules.items()}
    ownership.classes |= {path: name for path, name in graph.modules.items() if path not in modules}
    orphans = set()
    for node in nodes:
        here = node.id
        if node.is_leaf:
            owner = owner_of(node.name, graph.modules)
            paths[here] = node.module or owner
            unnamed = not node.name and (not node.shape or ownership.phases[here] != "forward")
            if owner or unnamed:
                ownership.parameters.add(here)
            if unnamed and not node.module:
                orphans.add(here)
            continue
        if node.phase != "forward":
            before = node.partner if node.partner is not None else -1
            if 0 <= before < here and node.module in ("", nodes[before].module):
                paths[here] = paths[before]
        if not paths[here] and node.phase == "update":
            near = (paths[i] for i in node.inputs)
            path = next((path for path in near if path), "")
            paths[here] = modules.get(path, path)
        for i in orphans.intersection(node.inputs):
            paths[i] = paths[here]
            orphans.discard(i)
    place_updates(nodes, paths)
    for node in nodes:
        if node.module_class and paths[node.id] == node.module:
            ownership.classes[node.module] = ownership.classes.get(node.module) or node.module_class
    return ownership


def place_updates(nodes: Sequence[OpNode], paths: list[str]) -> None:
    """Put ops of the update that a single module uses in that module: steps of an optimizer."""
    users: dict[int, set[str]] = {}
    for node in reversed(nodes):
        if node.phase == "update" and not node.is_leaf:
            if not paths[node.id] and len(near := users.get(node.id, set())) == 1:
                (paths[node.id],) = near
            for i in node.inputs:
                users.setdefault(i, set()).add(paths[node.id])


def phases_of(nodes: Sequence[OpNode]) -> list[str]:
    """The phase of each op; of an unnamed leaf the first phase of a user."""
    first: dict[int, int] = {}
    for node in nodes:
        for i in node.inputs:
            if nodes[i].is_leaf and not nodes[i].name:
                phase = PHASES.index(node.phase)
                first[i] = min(first.get(i, phase), phase)
    return [PHASES[first[node.id]] if node.id in first else node.phase for node in nodes]


def owner_of(name: str, modules: Iterable[str]) -> str:
    """The longest path of a module that the name of a parameter begins with."""
    while "." in name:
        name = name.rpartition(".")[0]
        if name in modules:
            return name
    return ""


def call_paths(graph: OpGraph) -> tuple[list[str], dict[str, str]]:
    """The path of each op, with the number of the call, and the module that each path names.

    A number stands where a module is called several times by a caller.
    """
    paths = [node.module for node in graph.nodes]
    steps = [node for node in graph.nodes if node.phase == "forward" and not node.is_leaf]
    chains = chains_of({node.module for node in steps}, set(graph.modules))
    calls = calls_of(graph, steps, chains)
    modules: dict[str, str] = {}
    outer = [""] * len(steps)
    for depth in range(max((len(chain) for chain in chains.values()), default=0)):
        numbers: dict[tuple[str, str], dict[int, int]] = {}
        for place, node in enumerate(steps):
            if depth < len(chain := chains[node.module]):
                seen = numbers.setdefault((outer[place], chain[depth]), {})
                seen.setdefault(calls.get((chain[depth], place), 0), len(seen) + 1)
        for place, node in enumerate(steps):
            if depth < len(chain := chains[node.module]):
                module, above = chain[depth], outer[place]
                seen = numbers[above, module]
                name = module[len(chain[depth - 1]) + 1 :] if depth else module
                number = seen[calls.get((module, place), 0)]
                name += f" (call {number})" if len(seen) > 1 else ""
                outer[place] = f"{above}.{name}" if above else name
                modules[outer[place]] = module
    for place, node in enumerate(steps):
        paths[node.id] = outer[place]
    return paths, modules


def chains_of(paths: Iterable[str], known: set[str]) -> dict[str, list[str]]:
    """For each path of a module the modules around, from the outside, and the module."""
    chains = {}
    for path in paths:
        chain = [path] if path else []
        while chain and (outer := owner_of(chain[-1], known)):
            chain.append(outer)
        chains[path] = chain[::-1]
    return chains


def calls_of(
    graph: OpGraph, steps: Sequence[OpNode], chains: dict[str, list[str]]
) -> dict[tuple[str, int], int]:
    """(module, place of a step) -> number of the call, from 0, where modules are called again.

    A call is a run of steps in a module. A run that reads nothing newer than the beginning of
    the call before goes with that call: no edge has to lead back then.
    """
    runs: dict[str, list[list[int]]] = {}
    for place, node in enumerate(steps):
        for module in chains[node.module]:
            known = runs.setdefault(module, [])
            if known and known[-1][1] == place:
                known[-1][1] = place + 1
            else:
                known.append([place, place + 1])
    call_numbers: dict[tuple[str, int], int] = {}
    for module, known in runs.items():
        if len(known) == 1:
            continue
        number, start = 0, steps[known[0][0]].id
        for first, end in known:
            read = (graph[i] for node in steps[first:end] for i in node.inputs)
            if any(
                x.id > start and not x.is_leaf and module not in chains.get(x.module, ())
                for x in read
            ):
                number, start = number + 1, steps[first].id
            call_numbers.update(((module, place), number) for place in range(first, end))
    return call_numbers
