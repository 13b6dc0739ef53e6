"""torch.utils._pytree: trees of containers, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from wend.base import tree as _tree
from wend.base.errors import ArgumentError
from wend.base.tree import LEAF, Structure

__all__ = [
    "PyTree",
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_iter",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

PyTree: TypeAlias = Any
Context: TypeAlias = Any
TreeSpec = Structure


@dataclass(frozen=True)
class SequenceKey:
    """A place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclass(frozen=True)
class MappingKey:
    """A place in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class GetAttrKey:
    """A place in an object with names, as a named tuple is."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


#: By class of nodes, the function that gives children with their keys.
_with_keys: dict[type, Callable[[Any], tuple[Any, Any]]] = {}


class NodeDef(NamedTuple):
    """The rules of a class of nodes."""

    type: type
    flatten_fn: Callable[[Any], tuple[Any, Any]]
    unflatten_fn: Callable[[Any, Any], Any]


class _Nodes(Mapping[type, NodeDef]):
    """The classes that are nodes, with the rules."""

    def __getitem__(self, kind: type) -> NodeDef:
        flatten, unflatten = _tree.rules()[kind]
        return NodeDef(kind, flatten, unflatten)

    def __iter__(self) -> Iterator[type]:
        return iter(list(_tree.rules()))

    def __len__(self) -> int:
        return len(_tree.rules())


SUPPORTED_NODES = _Nodes()


def LeafSpec() -> Structure:
    """The structure of a leaf."""
    return LEAF


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    *,
    flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None = None,
    **unused: Any,
) -> None:
    """Make a class a node. Raises ArgumentError (a ValueError) for a second time."""

    def flatten(node: Any) -> tuple[Any, Any]:
        children, context = flatten_fn(node)
        return children, tuple(context) if isinstance(context, list) else context

    _tree.register(cls, flatten, unflatten_fn)
    if flatten_with_keys_fn is not None:
        _with_keys[cls] = flatten_with_keys_fn


_register_pytree_node = register_pytree_node


def tree_flatten(
    tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], Structure]:
    """(leaves from left to right, structure)."""
    return _tree.flatten(tree, is_leaf)


def tree_unflatten(leaves: Any, treespec: Structure) -> PyTree:
    """The tree of this structure with these leaves."""
    return _tree.unflatten(treespec, leaves)


def tree_leaves(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves from left to right."""
    return _tree.leaves(tree, is_leaf)


def tree_iter(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """An iterator over the leaves."""
    return iter(_tree.leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> Structure:
    """The structure without the leaves."""
    return _tree.flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any],
    tree: PyTree,
    *rests: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """func(leaf, the same place of each of rests) in place of each leaf."""
    leaves, structure = _tree.flatten(tree, is_leaf)
    others = [_below(structure, rest) for rest in rests]
    mapped = [func(*row) for row in zip(leaves, *others, strict=True)]
    return _tree.unflatten(structure, mapped)


def _below(structure: Structure, tree: PyTree) -> list[Any]:
    """Parts of a tree at the places of the leaves of a structure: leaves or whole subtrees."""
    if structure.kind is None:
        return [tree]
    rules = _tree.rules().get(structure.kind)
    if type(tree) is not structure.kind:
        raise ArgumentError(
            f"tree_map: {structure.kind.__name__} and {type(tree).__name__} do not fit"
        )
    given: Any = tree
    children, context = rules[0](given) if rules is not None else (given, structure.kind)
    if context != structure.context or len(children) != len(structure.children):
        raise ArgumentError(f"tree_map: a {structure.kind.__name__} differs in keys or length")
    parts = zip(structure.children, children, strict=True)
    return [leaf for inner, child in parts for leaf in _below(inner, child)]


def tree_map_(
    func: Callable[..., Any],
    tree: PyTree,
    *rests: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """As `tree_map`, for the effects of func; the result is the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _only(kinds: Any, func: Callable[..., Any]) -> Callable[[Any], Any]:
    chosen = isinstance(kinds, type | tuple) or not callable(kinds)

    def applied(leaf: Any) -> Any:
        fits = isinstance(leaf, kinds) if chosen else kinds(leaf)
        return func(leaf) if fits else leaf

    return applied


def map_only(type_or_types_or_pred: Any) -> Callable[[Callable[..., Any]], Callable[[Any], Any]]:
    """A decorator: the function is called for objects of these classes, the rest stays."""
    return lambda func: _only(type_or_types_or_pred, func)


def tree_map_only(
    type_or_types_or_pred: Any,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """func(leaf) in place of each leaf of these classes."""
    return tree_map(_only(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """As `tree_map_only`, for the effects of func; the result is the tree itself."""
    return tree_map_(_only(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_all(
    pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether pred holds for all leaves."""
    return all(map(pred, _tree.leaves(tree, is_leaf)))


def tree_any(
    pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether pred holds for a leaf."""
    return any(map(pred, _tree.leaves(tree, is_leaf)))


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Any, context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _keyed(node: Any) -> list[tuple[Any, Any]]:
    """The children of a node with the keys."""
    kind = type(node)
    if kind in _with_keys:
        return list(_with_keys[kind](node)[0])
    if isinstance(node, dict):
        return _dict_flatten_with_keys(node)[0]
    if hasattr(kind, "_fields"):
        return [(GetAttrKey(name), getattr(node, name)) for name in kind._fields]
    children = _tree.rules()[kind][0](node)[0]
    return [(SequenceKey(i), child) for i, child in enumerate(children)]


def _paths(
    tree: PyTree, is_leaf: Callable[[Any], bool] | None, path: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if _is_leaf(tree, is_leaf):
        yield path, tree
        return
    for key, child in _keyed(tree):
        yield from _paths(child, is_leaf, (*path, key))


def tree_leaves_with_path(
    tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[tuple[Any, ...], Any]]:
    """The leaves from left to right, each behind the keys that lead there."""
    return list(_paths(tree, is_leaf, ()))


def tree_flatten_with_path(
    tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], Structure]:
    """(leaves behind the keys that lead there, structure)."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any],
    tree: PyTree,
    *rests: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """func(keys, leaf, the same place of each of rests) in place of each leaf."""
    found, structure = tree_flatten_with_path(tree, is_leaf)
    others = [_below(structure, rest) for rest in rests]
    rows = zip(found, *others, strict=True)
    return _tree.unflatten(structure, [func(path, leaf, *row) for (path, leaf), *row in rows])


def keystr(kp: tuple[Any, ...]) -> str:
    """Keys as a text: `[0]['weight'].x`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: tuple[Any, ...]) -> Any:
    """The object to which keys lead."""
    for key in kp:
        if isinstance(key, GetAttrKey):
            obj = getattr(obj, key.name)
        else:
            obj = obj[key.idx if isinstance(key, SequenceKey) else key.key]
    return obj


def _get_node_type(tree: PyTree) -> type:
    """The class of a node."""
    return type(tree)


def _is_leaf(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    return _tree.flatten(tree, is_leaf)[1].kind is None
