"""The values that a segment saves for its backward pass, and those that the pass computes again.

The gradient rules of a segment read certain values. Instead of a value, the values from which cheap
ops compute it may be saved. The cheapest choice is a minimum cut between the values at hand, or
dear to compute, and the values read. Each value costs its bytes by the sizes at hand, and the
choice holds for all sizes. Among cuts of equal cost, the cut nearest to the values read computes
least again.
"""

from __future__ import annotations

from collections.abc import Iterable

from wend._engine.base import memory
from wend._engine.core import _types
from wend._engine.core.graph import Node, PathGraph
from wend._engine.core.primitive import Primitive
from wend._engine.ops.basic import FillLike, Graft, Identity
from wend._engine.ops.contract import Contract
from wend._engine.ops.elementwise.family import Elementwise
from wend._engine.ops.elementwise.selection import Cast
from wend._engine.ops.indexing.gather import Gather
from wend._engine.ops.joining import Clone, SumTo
from wend._engine.ops.reduce import Reduction
from wend._engine.ops.views.family import View
from wend._engine.transforms.cuts import nearest_cut

#: Segments that would save fewer bytes save all values that are read.
WORTH_BYTES = 1 << 24
#: Longer paths would take too long to plan.
MOST_NODES = 6000
#: Steps along which a product may be summed up to be as cheap as a read from memory.
SHORT = 64
_CHEAP = (
    Elementwise, Reduction, View, Cast, Clone, SumTo, FillLike, Graft, Identity
)  # fmt: skip


def choose_anew(path: PathGraph, wanted: Iterable[int]) -> frozenset[int]:
    """The ids that a backward pass computes again, of a path whose gradient rules read `wanted`."""
    if path.block_at or path.calls or path.n_nodes > MOST_NODES:
        return frozenset()
    read = {i for i in wanted if i in path.producer}
    whole = sum(value_bytes(path, i) for i in read)
    if whole < WORTH_BYTES:
        return frozenset()
    anew = cut_at(path, read, False)
    limit = memory.budget()
    if limit is not None and saved_bytes(path, read, anew) > limit // 4:
        anew = cut_at(path, read, True)
    return anew


def cut_at(path: PathGraph, read: set[int], tight: bool) -> frozenset[int]:
    """The cheapest choice. tight: products that are larger than their operands are made again."""
    costs: dict[int, int] = {}
    follows: dict[int, tuple[int, ...]] = {}
    stack = list(read)
    while stack:
        i = stack.pop()
        if i in costs:
            continue
        k = path.producer.get(i)
        costs[i] = 1 if k is None else max(1, value_bytes(path, i))
        if k is not None and cheap(path, path.nodes[k], tight):
            follows[i] = path.nodes[k].inputs
            stack.extend(follows[i])
    saved = nearest_cut(costs, follows, read)
    anew: set[int] = set()
    stack = list(read)
    while stack:
        i = stack.pop()
        if i not in saved and i not in anew:
            anew.add(i)
            stack.extend(follows[i])
    return frozenset(anew)


def saved_bytes(path: PathGraph, read: set[int], anew: frozenset[int]) -> int:
    """Bytes of the values that have to be saved besides leaves."""
    needed = set(read)
    for i in anew:
        needed.update(path.nodes[path.producer[i]].inputs)
    return sum(value_bytes(path, i) for i in needed - anew if i in path.producer)


def cheap(path: PathGraph, node: Node, tight: bool) -> bool:
    """Whether the results of a node are as quickly computed as read from memory.

    tight: also whether the node is a product larger than the operands. If all products were made
    again, the whole path would be, and all values would exist at once.
    """
    prim: Primitive = node.prim
    if prim.facts.calls_user or not prim.facts.pure or not node.inputs:
        return False
    if isinstance(prim, Contract):
        return product_steps(path, node) <= SHORT or (tight and is_larger(path, node))
    if isinstance(prim, Gather):
        return True  # the indices were checked when the op first ran
    return isinstance(prim, _CHEAP) and not prim.facts.fallible


def product_steps(path: PathGraph, node: Node) -> int:
    """Over how many steps a product sums up."""
    prim = node.prim
    x, y = (len(path.shape_of(i)) for i in node.inputs)
    shape = sizes(path, node.inputs[0])
    steps = 1
    for axis in prim.layout(x, y)[1]:
        steps *= shape[axis]
    return steps


def is_larger(path: PathGraph, node: Node) -> bool:
    """Whether the result of a node takes more memory than the operands, leaves aside."""
    operands = sum(value_bytes(path, i) for i in set(node.inputs) if i in path.producer)
    return value_bytes(path, node.outputs[0]) > operands


def sizes(path: PathGraph, i: int) -> list[int]:
    """Extents of a value at the sizes at hand."""
    if i >= 0:
        return list(path.types[i].shape)
    return [_types.evaluate(e, path.types, path.args) for e in path.shape_of(i)]


def value_bytes(path: PathGraph, i: int) -> int:
    """Bytes of a value at the sizes at hand."""
    n = 1
    for extent in sizes(path, i):
        n *= extent
    return n * int(path.dtype_of(i).itemsize)
