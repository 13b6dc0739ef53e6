"""Folding: the ops of a graph as a tree of modules, repeats and parts, for pictures and pages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from wend._frontend.seeing.op_graph import PHASES, OpGraph, OpNode
from wend._frontend.seeing.owners import Owners, owners
from wend._frontend.seeing.regions import Regions

__all__ = ["Fold", "Folding", "fold"]

#: Most boxes that unfolding a fold shows.
MOST_ITEMS = 48
#: Most boxes outside of all modules, in all phases; beyond, the longer phases have parts.
MOST_AT_FIRST = 60
#: Most inputs side by side.
MOST_LEAVES = 8
#: Fewest items of a part that exists only because there were too many items, about.
PART = 40
#: Equal neighbours are a repeat from these numbers on: modules, single ops.
FEWEST_MODULES, FEWEST_OPS = 3, 6
#: Longest block of a repeat, in items, and occurrences of the first item that are tried as the end.
LONGEST_BLOCK, MOST_TRIES = 400, 6


@dataclass(eq=False)
class Fold:
    """Ops that are a single box until unfolded.

    kind: "phase", "module", "repeat" (equal blocks), "part" (neighbours without a module),
        "region" (a question of a static graph, with all that hangs on it) or "branch" (the ops
        behind an answer)
    path: dotted path of the module around the ops      class_name: the class
    items: ops and folds inside, in order               times: number of blocks, of a repeat
    asked: id of the question, of a region or branch
    """

    kind: str
    label: str
    phase: str
    path: str = ""
    class_name: str = ""
    times: int = 1
    asked: int = -1
    items: list[OpNode | Fold] = field(default_factory=list)
    parent: Fold | None = None
    index: int = -1

    def ops(self) -> Iterator[OpNode]:
        """All ops inside, leaves too."""
        stack = [iter(self.items)]
        while stack:
            for item in stack[-1]:
                if isinstance(item, Fold):
                    stack.append(iter(item.items))
                    break
                yield item
            else:
                stack.pop()

    def folds(self) -> Iterator[Fold]:
        """The fold itself and all folds inside, parents first."""
        stack = [self]
        while stack:
            member = stack.pop()
            yield member
            stack.extend(x for x in reversed(member.items) if isinstance(x, Fold))

    @property
    def has_only_leaves(self) -> bool:
        return all(x.has_only_leaves if isinstance(x, Fold) else x.is_leaf for x in self.items)

    @property
    def key(self) -> str:
        """A text that equals the key of the same module, repeat or part in another phase."""
        asked = f" {self.asked}" if self.asked >= 0 else ""
        return f"{self.kind} {self.path} {self.label if self.kind != 'module' else ''}{asked}"


@dataclass
class Folding:
    """A folded graph.

    roots: a fold of each phase that has ops       folds: all folds, parents first
    homes: the fold around each op, by id      phases: of each op, by id
    parameters: ids of leaves that modules own, of constants and of an optimizer's state
    """

    graph: OpGraph
    roots: list[Fold]
    folds: list[Fold]
    homes: list[Fold]
    phases: list[str]
    parameters: set[int]

    def opened(self, most: int) -> set[int]:
        """Indices of the folds to unfold, the shallow and the small ones first.

        most: number of boxes that may be visible. Repeats stay folded, and so do modules of a
        single op. A module is unfolded in all phases or in none, and so are parts side by side.
        """
        twins = defaultdict(list)
        for item in self.folds:
            key = f"parts of {item.parent.key}" if item.kind == "part" and item.parent else item.key
            twins[key].append(item)
        opened = {root.index for root in self.roots}
        boxes = sum(self.visible(root) for root in self.roots)
        groups = [
            group
            for group in twins.values()
            if group[0].kind not in ("phase", "repeat") and not group[0].has_only_leaves
        ]
        sizes = [(sum(self.visible(item) - 1 for item in group), group) for group in groups]
        changed = True
        while changed:
            changed = False
            for more, group in sorted(sizes, key=lambda pair: pair[0]):
                single = group[0].kind != "branch" and self.is_single(group[0])
                if group[0].index in opened or single or boxes + more > most:
                    continue
                if all(item.parent and item.parent.index in opened for item in group):
                    opened.update(item.index for item in group)
                    boxes += more
                    changed = True
        return opened

    def is_shown(self, item: OpNode | Fold) -> bool:
        """Whether an item is, or has, more than parameters."""
        if isinstance(item, Fold):
            return any(self.is_shown(x) for x in item.items)
        return item.id not in self.parameters

    def visible(self, item: Fold) -> int:
        """Number of boxes inside a fold, without parameters."""
        return sum(self.is_shown(x) for x in item.items)

    def is_single(self, item: Fold) -> bool:
        """Whether a fold shows nothing but an op."""
        shown = [x for x in item.items if self.is_shown(x)]
        return not shown or (len(shown) == 1 and isinstance(shown[0], OpNode))


def fold(graph: OpGraph) -> Folding:
    """Fold a graph by phase, by module, by repeats, and by parts where there are many ops."""
    ownership = owners(graph)
    numbering, regions = Numbering(graph, ownership), Regions(graph)
    roots = []
    for phase in PHASES:
        nodes = [node for node in graph.nodes if ownership.phases[node.id] == phase]
        if nodes:
            root = tree_of_modules(phase, nodes, ownership, regions)
            for item in reversed(list(root.folds())):  # children first
                item.items = fold_items(item, numbering)
            roots.append(root)
    if sum(len(root.items) for root in roots) > MOST_AT_FIRST:
        for root in roots:
            if len(root.items) > MOST_AT_FIRST // 3:
                root.items = parts(root, root.items)
    return finished(graph, roots, ownership)


def finished(graph: OpGraph, roots: list[Fold], ownership: Owners) -> Folding:
    """Indices, parents and homes of a tree that no longer changes."""
    folds = [member for root in roots for member in root.folds()]
    homes: list[Fold] = [roots[0]] * len(graph.nodes) if roots else []
    for index, parent in enumerate(folds):
        parent.index = index
        for item in parent.items:
            if isinstance(item, Fold):
                item.parent = parent
            else:
                homes[item.id] = parent
    return Folding(graph, roots, folds, homes, ownership.phases, ownership.parameters)


def tree_of_modules(phase: str, nodes: Sequence[OpNode], owners: Owners, regions: Regions) -> Fold:
    """The fold of a phase: modules and regions, nested, in the order of the first ops."""
    root = Fold("phase", phase, phase)
    known = set(owners.classes).union(owners.paths)
    folds: dict[tuple[int, str], Fold] = {}
    asked: dict[tuple[int, str], Fold] = {}

    def place(path: str, base: Fold) -> Fold:
        """The fold of a module in a region, or in the whole."""
        chain = []
        while path not in ("", base.path) and (id(base), path) not in folds:
            chain.append(path)
            path = path.rpartition(".")[0]
            while path not in known and path:
                path = path.rpartition(".")[0]
        parent = folds.get((id(base), path), base)
        for path in reversed(chain):
            inside = parent.path and path.startswith(f"{parent.path}.")
            label = path[len(parent.path) + 1 :] if inside else path
            child = Fold("module", label, phase, path, owners.classes.get(path, ""))
            parent.items.append(child)
            parent = folds[id(base), path] = child
        return parent

    def region(key: tuple[int, str]) -> Fold:
        """The fold of a question, or of an answer."""
        missing = []
        at: tuple[int, str] | None = key
        while at is not None and at not in asked:
            missing.append(at)
            at = regions.around(at)
        base = root if at is None else asked[at]
        for number, answer in reversed(missing):
            if not answer:
                base = place(owners.paths[number], base)
            kind, label = ("branch", answer) if answer else ("region", regions.label(number))
            child = Fold(kind, label, phase, base.path, asked=number)
            base.items.append(child)
            base = asked[number, answer] = child
        return base

    leaves: dict[tuple[int, str], list[OpNode]] = defaultdict(list)
    homes = {id(root): root}
    for node in nodes:
        path = owners.paths[node.id]
        key = regions.of(node)
        base = root if key is None else region(key)
        if node.is_leaf:
            homes[id(base)] = base
            leaves[id(base), path].append(node)
        else:
            place(path, base).items.append(node)
    # Leaves come first: the time of recording tells nothing here.
    for (number, path), own_leaves in leaves.items():
        home = place(path, homes[number])
        home.items = [*own_leaves, *home.items]
    return root


class Numbering:
    """Numbers of structures: equal numbers stand for equal blocks."""

    def __init__(self, graph: OpGraph, owners: Owners) -> None:
        self.nodes, self.paths, self.parameters = graph.nodes, owners.paths, owners.parameters
        self.numbers: dict[object, int] = {}
        self.of_fold: dict[Fold, int] = {}

    def number(self, thing: object) -> int:
        return self.numbers.setdefault(thing, len(self.numbers))

    def of(self, item: OpNode | Fold) -> int:
        """The number of an op, without operands, or of a fold with the operands inside."""
        if isinstance(item, OpNode):
            return self.number((item.op, item.shape, item.dtype, item.results))
        if item not in self.of_fold:
            self.of_fold[item] = self.number((item.class_name, self.structure(item, item.ops())))
        return self.of_fold[item]

    def structure(self, item: Fold, ops: Iterable[OpNode]) -> tuple[object, ...]:
        """Ops in order, each with type, path below the fold and operands."""
        inner = [op for op in ops if not op.is_leaf]
        places = {op.id: place for place, op in enumerate(inner)}
        skip, rows = len(item.path), []
        for op in inner:
            operands = tuple(places.get(i, -1) for i in op.inputs)
            rows.append((self.of(op), self.paths[op.id][skip:], operands))
        return tuple(rows)


def fold_items(parent: Fold, numbering: Numbering) -> list[OpNode | Fold]:
    """The items of a fold with repeats folded, and parts where items are still many."""
    kinds: tuple[list[OpNode | Fold], ...] = ([], [], [])
    for item in parent.items:
        if isinstance(item, Fold):
            kinds[1 if item.has_only_leaves else 2].append(item)
        elif item.is_leaf:
            kinds[item.id in numbering.parameters].append(item)
        else:
            kinds[2].append(item)
    inputs, parameters, steps = kinds
    steps = repeats(parent, steps, numbering)
    if len(steps) > MOST_ITEMS:
        steps = parts(parent, steps)
    leaves = leaves_together(parent, inputs, "inputs", MOST_LEAVES)
    return leaves + leaves_together(parent, parameters, "parameters", MOST_ITEMS) + steps


def leaves_together(
    parent: Fold, leaves: list[OpNode | Fold], word: str, most: int
) -> list[OpNode | Fold]:
    """Many leaves as a fold."""
    if len(leaves) <= most:
        return leaves
    part = Fold("part", f"{len(leaves)} {word}", parent.phase, parent.path, items=leaves)
    part.class_name = summary(leaves)
    if len(leaves) > MOST_ITEMS:
        part.items = parts(part, leaves)
    return [part]


def repeats(parent: Fold, items: list[OpNode | Fold], numbering: Numbering) -> list[OpNode | Fold]:
    """Items with equal neighbouring blocks as a fold each."""
    numbers = [numbering.of(item) for item in items]
    operands = sibling_operands(items, numbering.nodes)
    places = defaultdict(list)
    for place, number in enumerate(numbers):
        places[number].append(place)
    later = dict.fromkeys(places, 0)  # how many places of a number are passed
    result: list[OpNode | Fold] = []
    at = 0
    while at < len(items):
        same = places[numbers[at]]
        while same[later[numbers[at]]] <= at and later[numbers[at]] < len(same) - 1:
            later[numbers[at]] += 1
        first = later[numbers[at]]
        sizes = [p - at for p in same[first : first + MOST_TRIES] if 0 < p - at <= LONGEST_BLOCK]
        best = (0, 0, 0)
        for size in sizes:
            times = count_blocks(numbers, operands, at, size)
            if times > 1:
                best = max(best, (size * times, -size, times))
        size, times = -best[1], best[2]
        if worthwhile(items, at, size, times):
            result.append(repeat(parent, items[at : at + size * times], size, times))
            at += size * times
        else:
            result.append(items[at])
            at += 1
    return result


def sibling_operands(
    items: Sequence[OpNode | Fold], nodes: Sequence[OpNode]
) -> list[tuple[int, ...] | frozenset[int]]:
    """Places of the items that each item reads.

    For an op in order, with -1 for ops elsewhere; for a fold without order.
    """
    place_of = {}
    for place, item in enumerate(items):
        for op in [item] if isinstance(item, OpNode) else item.ops():
            place_of[op.id] = place
    operands: list[tuple[int, ...] | frozenset[int]] = []
    for place, item in enumerate(items):
        if isinstance(item, OpNode):
            operands.append(tuple(place_of.get(i, -1) for i in item.inputs))
        else:
            read = {place_of.get(i, -1) for op in item.ops() for i in op.inputs}
            operands.append(frozenset(read - {place, -1}))
    return operands


def count_blocks(
    numbers: list[int],
    operands: Sequence[tuple[int, ...] | frozenset[int]],
    at: int,
    size: int,
) -> int:
    """How many equal blocks of a size begin at a place, and follow each other."""
    block = numbers[at : at + size]
    inner: list[tuple[int, ...] | frozenset[int]] | None = None
    times, start = 1, at + size
    while numbers[start : start + size] == block:
        inner = inner or inner_operands(operands, at, size)
        if inner_operands(operands, start, size) != inner:
            break
        times, start = times + 1, start + size
    return times


def inner_operands(
    operands: Sequence[tuple[int, ...] | frozenset[int]], start: int, size: int
) -> list[tuple[int, ...] | frozenset[int]]:
    """The operands of the items of a block, counted from the first item; -1 for those before."""
    return [
        frozenset(place - start for place in x if place >= start)
        if isinstance(x, frozenset)
        else tuple(place - start if place >= start else -1 for place in x)
        for x in operands[start : start + size]
    ]


def worthwhile(items: Sequence[OpNode | Fold], at: int, size: int, times: int) -> bool:
    """Whether a repeat saves enough boxes to be worth a fold."""
    if times < 2:
        return False
    if size > 1:
        return size * times >= FEWEST_OPS
    return times >= (FEWEST_MODULES if isinstance(items[at], Fold) else FEWEST_OPS)


def repeat(parent: Fold, items: list[OpNode | Fold], size: int, times: int) -> Fold:
    """The fold of equal blocks."""
    first, last = items[0], items[-1]
    repetition = Fold("repeat", "", parent.phase, parent.path, times=times)
    if size == 1:
        repetition.items = items
        repetition.label = span([name_of(first), name_of(last)])
        repetition.class_name = first.class_name if isinstance(first, Fold) else first.op
    else:
        blocks = [items[i : i + size] for i in range(0, len(items), size)]
        for number, block in enumerate(blocks):
            item = Fold("part", f"{number + 1} of {times}", parent.phase, parent.path, items=block)
            item.class_name = summary(block)
            if len(block) > MOST_ITEMS:
                item.items = parts(item, block)
            repetition.items.append(item)
        repetition.label, repetition.class_name = f"{size * times} steps", summary(blocks[0])
    if len(repetition.items) > MOST_ITEMS:
        repetition.items = parts(repetition, repetition.items)
    return repetition


def parts(parent: Fold, items: list[OpNode | Fold]) -> list[OpNode | Fold]:
    """Neighbours together, so that no more than MOST_ITEMS folds are left."""
    count = min(max(-(-len(items) // PART), 2), MOST_ITEMS)
    cuts = [len(items) * i // count for i in range(count + 1)]
    folds: list[OpNode | Fold] = []
    for start, end in pairwise(cuts):
        block = items[start:end]
        label = f"{start + 1} … {end} of {len(items)}"
        item = Fold("part", label, parent.phase, parent.path, summary(block), items=block)
        if len(block) > MOST_ITEMS:
            item.items = parts(item, block)
        folds.append(item)
    return folds


def summary(items: Iterable[OpNode | Fold]) -> str:
    """The first different names of items, three at most."""
    names = list(dict.fromkeys(short_name(x) for x in items))
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


def short_name(item: OpNode | Fold) -> str:
    if isinstance(item, Fold):
        return (item.kind == "module" and item.class_name) or item.label
    return name_of(item) if item.is_leaf else item.op


def name_of(item: OpNode | Fold) -> str:
    if isinstance(item, Fold):
        return item.label
    return (item.name or item.op) if item.is_leaf else f"{item.op} {item.id}"


def span(names: Sequence[str]) -> str:
    """First and last of some names, numbers compared as numbers: "layers.0 … 11"."""

    def order(name: str) -> list[tuple[bool, int, str]]:
        pieces = re.split(r"([0-9]+)", name)
        return [(p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in pieces]

    first, last = min(names, key=order), max(names, key=order)
    shared = re.match(r".*[. ]|", first)
    return f"{first} … {last.removeprefix(shared[0]) if shared else last}"
