"""Trees of lists, tuples, named tuples and dicts: take the leaves out, put new leaves in.

Only exact types are nodes: a subclass of dict is a leaf unless registered, and so are None,
strings and `Size`. The leaves of a dict come in the order of the dict.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError

Flatten = Callable[[Any], tuple[Sequence[Any], Any]]
Unflatten = Callable[[list[Any], Any], Any]

Kind = type | None  # inside of the class, `type` is a property
LEAF_KIND = None


@dataclass(frozen=True, slots=True)
class Structure:
    """The shape of a tree: hashable, and equal for trees that differ in leaves only.

    kind: type of the node, None for a leaf     context: further content of a node (a dict's keys)
    """

    kind: type | None
    context: Any
    children: tuple[Structure, ...]
    leaves: int

    # The names under which PyTorch's programs ask for the same.
    @property
    def type(self) -> Kind:
        """The class of the node, None for a leaf."""
        return self.kind

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return self.leaves

    @property
    def num_children(self) -> int:
        """Number of children."""
        return len(self.children)

    @property
    def children_specs(self) -> list[Structure]:
        """The children."""
        return list(self.children)

    def is_leaf(self) -> bool:
        """Whether the tree is a single leaf."""
        return self.kind is None

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        inside = ", ".join(map(repr, self.children))
        return f"{self.kind.__name__}({inside})"


LEAF = Structure(LEAF_KIND, None, (), 1)

_nodes: dict[type, tuple[Flatten, Unflatten]] = {}
_nodes_lock = threading.Lock()


def register(kind: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Make a class a node.

    flatten(node) -> (children, hashable context); unflatten(children, context) -> node.
    Raises ArgumentError if the class is a node already.
    """
    if not isinstance(kind, type):
        raise ArgumentTypeError(f"tree.register: takes a class, not {kind!r}")
    with _nodes_lock:
        if kind in _nodes:
            raise ArgumentError(f"tree.register: {kind.__name__} is registered already")
        _nodes[kind] = (flatten, unflatten)


def rules() -> dict[type, tuple[Flatten, Unflatten]]:
    """The classes that are nodes, with their rules; named tuples are nodes as well."""
    return _nodes


def _is_namedtuple(kind: type) -> bool:
    return kind.__base__ is tuple and isinstance(getattr(kind, "_fields", None), tuple)


def _named_unflatten(children: list[Any], kind: Any) -> Any:
    return kind(*children)


def _node(tree: Any) -> tuple[Sequence[Any], Any, Unflatten] | None:
    kind = type(tree)
    rules = _nodes.get(kind)
    if rules is not None:
        children, context = rules[0](tree)
        return children, context, rules[1]
    if _is_namedtuple(kind):
        return tree, kind, _named_unflatten
    return None


register(list, lambda node: (node, None), lambda children, context: children)
register(tuple, lambda node: (node, None), lambda children, context: tuple(children))
register(
    dict,
    lambda node: (list(node.values()), tuple(node)),
    lambda children, keys: dict(zip(keys, children, strict=True)),
)
register(
    OrderedDict,
    lambda node: (list(node.values()), tuple(node)),
    lambda children, keys: OrderedDict(zip(keys, children, strict=True)),
)
register(
    defaultdict,
    lambda node: (list(node.values()), (node.default_factory, tuple(node))),
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
)
register(
    deque,
    lambda node: (list(node), node.maxlen),
    lambda children, maxlen: deque(children, maxlen),
)


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Structure]:
    """(leaves from left to right, structure). is_leaf: where True, the walk stops."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, is_leaf, leaves)


def _flatten(tree: Any, is_leaf: Callable[[Any], bool] | None, leaves: list[Any]) -> Structure:
    node = None if is_leaf is not None and is_leaf(tree) else _node(tree)
    if node is None:
        leaves.append(tree)
        return LEAF
    children = tuple(_flatten(child, is_leaf, leaves) for child in node[0])
    return Structure(type(tree), node[1], children, sum(child.leaves for child in children))


def leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves from left to right."""
    return flatten(tree, is_leaf)[0]


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The tree of this structure with these leaves. Raises ArgumentError unless all are used."""
    leaf_list = list(leaves)
    if len(leaf_list) != structure.leaves:
        raise ArgumentError(
            f"tree.unflatten: the structure {structure} has {structure.leaves} leaves, "
            f"and {len(leaf_list)} are given"
        )
    return _unflatten(structure, iter(leaf_list))


def _unflatten(structure: Structure, leaves: Any) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    children = [_unflatten(child, leaves) for child in structure.children]
    rules = _nodes.get(kind)
    rebuild = _named_unflatten if rules is None else rules[1]
    return rebuild(children, structure.context)


def map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """function(leaf, leaf of each of rest) in place of each leaf. Raises ArgumentError if the
    trees differ in structure."""
    first, structure = flatten(tree)
    others = []
    for position, other in enumerate(rest, 1):
        other_leaves, other_structure = flatten(other)
        if other_structure != structure:
            raise ArgumentError(
                f"tree.map: tree 0 is {structure} and tree {position} is {other_structure}"
            )
        others.append(other_leaves)
    return unflatten(structure, [function(*row) for row in zip(first, *others, strict=True)])
