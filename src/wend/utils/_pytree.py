"""torch.utils._pytree: trees of lists, tuples, dicts and registered classes, and their leaves."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wend._engine.base import tree as _tree
from wend._engine.base.shapes import Size

__all__ = [
    "Context",
    "DumpableContext",
    "FlattenFn",
    "FromDumpableContextFn",
    "GetAttrKey",
    "KeyEntry",
    "LeafSpec",
    "MappingKey",
    "PyTree",
    "PyTreeSpec",
    "SequenceKey",
    "ToDumpableContextFn",
    "TreeSpec",
    "UnflattenFn",
    "arg_tree_leaves",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "register_constant",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dict",
    "treespec_dumps",
    "treespec_leaf",
    "treespec_loads",
    "treespec_pprint",
    "treespec_tuple",
]

PyTree = Any
Context = Any
DumpableContext = Any
FlattenFn = Callable[[Any], tuple[list[Any], Any]]
UnflattenFn = Callable[[Iterable[Any], Any], Any]
ToDumpableContextFn = Callable[[Any], Any]
FromDumpableContextFn = Callable[[Any], Any]
IsLeaf = Callable[[Any], bool] | None
_WithKeys = Callable[[Any], tuple[Any, Any]]
_LeafTypes = type | tuple[type, ...] | types.UnionType


# -- keys of a path -------------------------------------------------------------------------


class SequenceKey(NamedTuple):
    """The place of a child in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Sequence[Any]) -> Any:
        """The child at this place."""
        return sequence[self.idx]


class MappingKey(NamedTuple):
    """The key of a child in a dict."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Mapping[Any, Any]) -> Any:
        """The child under this key."""
        return mapping[self.key]


class GetAttrKey(NamedTuple):
    """The name of a child that is a field."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: object) -> Any:
        """The field of this name."""
        return getattr(obj, self.name)


KeyEntry = SequenceKey | MappingKey | GetAttrKey


# -- nodes ----------------------------------------------------------------------------------


class NodeDef(NamedTuple):
    """How a class is taken apart and put together."""

    type: type
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: _WithKeys
    name: str
    dump: ToDumpableContextFn | None = None
    restore: FromDumpableContextFn | None = None


SUPPORTED_NODES: dict[type, NodeDef] = {}


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _by_places(flatten: FlattenFn) -> _WithKeys:
    def with_keys(node: PyTree) -> tuple[list[tuple[KeyEntry, Any]], Context]:
        children, context = flatten(node)
        return [(SequenceKey(i), child) for i, child in enumerate(children)], context

    return with_keys


def _node(
    cls: type,
    flatten: FlattenFn,
    unflatten: UnflattenFn,
    with_keys: _WithKeys | None = None,
    dump: ToDumpableContextFn | None = None,
    restore: FromDumpableContextFn | None = None,
) -> None:
    SUPPORTED_NODES[cls] = NodeDef(
        cls, flatten, unflatten, with_keys or _by_places(flatten), _full_name(cls), dump, restore
    )


def _of_dict(node: PyTree) -> tuple[list[Any], Context]:
    return list(node.values()), list(node)


def _keyed(flatten: FlattenFn) -> _WithKeys:
    def with_keys(node: PyTree) -> tuple[list[tuple[KeyEntry, Any]], Context]:
        children, context = flatten(node)
        return [(MappingKey(k), c) for k, c in zip(node, children, strict=True)], context

    return with_keys


def _of_fields(node: PyTree) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    keys = [GetAttrKey(name) for name in type(node)._fields]
    return list(zip(keys, node, strict=True)), type(node)


def _of_defaults(node: PyTree) -> tuple[list[Any], Context]:
    return list(node.values()), [node.default_factory, list(node)]


_node(tuple, lambda node: (list(node), None), lambda children, _: tuple(children))
_node(list, lambda node: (list(node), None), lambda children, _: list(children))
_node(
    dict,
    _of_dict,
    lambda children, keys: dict(zip(keys, children, strict=True)),
    _keyed(_of_dict),
)
_node(
    OrderedDict,
    _of_dict,
    lambda children, keys: OrderedDict(zip(keys, children, strict=True)),
    _keyed(_of_dict),
)
_node(
    defaultdict,
    _of_defaults,
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    _keyed(_of_defaults),
)
_node(
    deque,
    lambda node: (list(node), node.maxlen),
    lambda children, maxlen: deque(children, maxlen=maxlen),
)
_node(Size, lambda node: (list(node), None), lambda children, _: Size(tuple(children)))
_node(
    namedtuple,  # type: ignore[arg-type]
    lambda node: (list(node), type(node)),
    lambda children, cls: cls(*children),
    _of_fields,
)


def register_pytree_node(
    cls: type,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: _WithKeys | None = None,
) -> None:
    """Make a class a node: its instances are taken apart everywhere, also by torch.func.

    flatten_fn(node) -> (children, context); unflatten_fn(children, context) -> node
    flatten_with_keys_fn(node) -> (pairs of key and child, context)

    Raises ValueError if the class is a node already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is registered already as a node of trees")
    name = _full_name(cls) if serialized_type_name is None else serialized_type_name
    SUPPORTED_NODES[cls] = NodeDef(
        cls, flatten_fn, unflatten_fn, flatten_with_keys_fn or _by_places(flatten_fn), name,
        to_dumpable_context, from_dumpable_context,
    )  # fmt: skip
    _tree.register(
        cls, _hashable(flatten_fn), lambda children, held: unflatten_fn(children, held.of)
    )


class _Held:
    """A context, hashable and comparable as trees inside ask."""

    def __init__(self, of: Context) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and self.of == other.of

    def __hash__(self) -> int:
        return hash(repr(self.of))


def _hashable(flatten: FlattenFn) -> FlattenFn:
    def taken_apart(node: PyTree) -> tuple[list[Any], _Held]:
        children, context = flatten(node)
        return list(children), _Held(context)

    return taken_apart


_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    del SUPPORTED_NODES[cls]
    _tree._nodes.pop(cls, None)


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make a dataclass a node whose children are the fields that are not None."""
    if field_names is None:
        dropped = set(drop_field_names or ())
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        field_names = [f.name for f in fields if f.init and f.name not in dropped]
    names = field_names

    def taken_apart(node: PyTree) -> tuple[list[Any], Context]:
        kept = [name for name in names if getattr(node, name) is not None]
        absent = [name for name in names if getattr(node, name) is None]
        return [getattr(node, name) for name in kept], [kept, absent]

    def put_together(children: Iterable[Any], context: Context) -> PyTree:
        kept, absent = context
        values = dict(zip(kept, children, strict=True))
        return cls(**values, **dict.fromkeys(absent))

    def with_keys(node: PyTree) -> tuple[list[tuple[KeyEntry, Any]], Context]:
        children, context = taken_apart(node)
        return [(MappingKey(k), c) for k, c in zip(context[0], children, strict=True)], context

    register_pytree_node(
        cls,
        taken_apart,
        put_together,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=with_keys,
    )


class ConstantNode(NamedTuple):
    """The context of a constant."""

    value: object


_CONSTANTS: set[type] = set()


def register_constant(cls: type) -> None:
    """Make a class a node without children: its instances are part of the structure."""
    _CONSTANTS.add(cls)
    register_pytree_node(
        cls, lambda node: ([], ConstantNode(node)), lambda _, context: context.value
    )


def is_constant_class(cls: type) -> bool:
    """Whether `register_constant` was called for the class."""
    return cls in _CONSTANTS


# -- named tuples ---------------------------------------------------------------------------


def is_namedtuple_class(cls: type) -> bool:
    """Whether a class is a tuple with fields, as namedtuple makes them."""
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(isinstance(field, str) for field in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Whether an object is an instance of a class that namedtuple made."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object | type) -> bool:
    """Whether namedtuple made a class, or the class of an object."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: type) -> bool:
    """Whether a class is a tuple with fields that C code made, such as time.struct_time."""
    counts = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(cls.__dict__.get(name), int) for name in counts)
    )


def is_structseq_instance(obj: object) -> bool:
    """Whether an object is an instance of such a class."""
    return is_structseq_class(type(obj))


def is_structseq(obj: object | type) -> bool:
    """Whether an object, or its class, is such."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _kind(tree: object) -> Any:
    """The class by which a tree is taken apart; None for a leaf."""
    cls = type(tree)
    if cls in SUPPORTED_NODES:
        return cls
    return namedtuple if is_namedtuple_class(cls) else None


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a tree is a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _kind(tree) is None


# -- structures -----------------------------------------------------------------------------


@dataclasses.dataclass(eq=True, repr=False, unsafe_hash=False, slots=True)
class TreeSpec:
    """The structure of a tree: class, context, and the structures of children."""

    type: Any
    context: Context
    children_specs: list[TreeSpec]
    num_nodes: int = dataclasses.field(init=False, compare=False, default=1)
    num_leaves: int = dataclasses.field(init=False, compare=False, default=1)
    num_children: int = dataclasses.field(init=False, compare=False, default=0)

    def __post_init__(self) -> None:
        leaf = self.type is None
        self.num_nodes = 1 + sum(child.num_nodes for child in self.children_specs)
        self.num_leaves = 1 if leaf else sum(child.num_leaves for child in self.children_specs)
        self.num_children = len(self.children_specs)

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        inside = ",\n".join(
            " " * (indent + 2 if i else 0) + child.__repr__(indent + 2)
            for i, child in enumerate(self.children_specs)
        )
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inside}])"

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def __len__(self) -> int:
        return self.num_leaves

    def is_leaf(self) -> bool:
        """Whether the tree is a leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The structure of a child."""
        return self.children_specs[index]

    def flatten_up_to(self, tree: PyTree) -> list[Any]:
        """The parts of a tree at the places of this structure's leaves.

        Raises ValueError if the tree is not of this structure down to there.
        """
        if self.type is None:
            return [tree]
        kind = _kind(tree)
        if kind is not self.type and not (kind in _DICTS and self.type in _DICTS):
            raise ValueError(f"The type differs: expected {self.type!r}, but got {type(tree)!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(
                f"The number of children differs: expected {self.num_children}, "
                f"but got {len(children)}."
            )
        if kind in _DICTS:
            keys = self.context[1] if self.type is defaultdict else self.context
            if set(keys) != set(tree):
                raise ValueError(f"The keys differ: expected {keys}, but got {list(tree)}.")
            children = [tree[key] for key in keys]
        elif context != self.context and kind is not deque:
            raise ValueError(
                f"The context of a {self.type!r} differs: {self.context!r} and {context!r}."
            )
        parts = zip(self.children_specs, children, strict=True)
        return [leaf for spec, child in parts for leaf in spec.flatten_up_to(child)]

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree of this structure with these leaves.  Raises ValueError for a wrong number."""
        values = list(leaves)
        if len(values) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(values)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._put_together(iter(values))

    def _put_together(self, leaves: Iterator[Any]) -> PyTree:
        if self.type is None:
            return next(leaves)
        children = [spec._put_together(leaves) for spec in self.children_specs]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)


_DICTS = (dict, OrderedDict, defaultdict)
PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def __repr__(self, indent: int = 0) -> str:
        return "*"


_LEAF = LeafSpec()


def treespec_leaf() -> LeafSpec:
    """The structure of a leaf."""
    return _LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = ()) -> TreeSpec:
    """The structure of a tuple of trees of these structures."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), **kwargs: TreeSpec
) -> TreeSpec:
    """The structure of a dict of trees of these structures."""
    specs = dict(mapping, **kwargs)
    return TreeSpec(dict, list(specs), list(specs.values()))


# -- trees ----------------------------------------------------------------------------------


def _flattened(tree: PyTree, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    kind = None if is_leaf is not None and is_leaf(tree) else _kind(tree)
    if kind is None:
        leaves.append(tree)
        return _LEAF
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flattened(child, leaves, is_leaf) for child in children])


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """(leaves from left to right, structure).  is_leaf: where True, the walk stops."""
    leaves: list[Any] = []
    return leaves, _flattened(tree, leaves, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of this structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec "
            f"but got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves, from left to right."""
    yield from tree_leaves(tree, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """func(leaf, parts of `rests` at its place) in the place of each leaf."""
    leaves, spec = tree_flatten(tree, is_leaf)
    rows = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten(map(func, *rows))


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Call func as `tree_map` does, and return the tree as it was."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(types_or_pred: _LeafTypes | Callable[[Any], bool]) -> Callable[[Any], bool]:
    if isinstance(types_or_pred, (type, tuple, types.UnionType)):
        return lambda x: isinstance(x, types_or_pred)
    if callable(types_or_pred):
        return types_or_pred  # type: ignore[no-any-return]
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(
    type_or_types_or_pred: _LeafTypes | Callable[[Any], bool], /
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function for leaves of these types; the rest stay."""
    chosen = _chosen(type_or_types_or_pred)

    def wrapper(func: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(func)(lambda x: func(x) if chosen(x) else x)

    return wrapper


def tree_map_only(
    type_or_types_or_pred: _LeafTypes | Callable[[Any], bool],
    /,
    func: Callable[..., Any],
    tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:
    """func(leaf) in the place of each leaf of these types."""
    chosen = _chosen(type_or_types_or_pred)
    return tree_map(lambda x: func(x) if chosen(x) else x, tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: _LeafTypes | Callable[[Any], bool],
    /,
    func: Callable[..., Any],
    tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:
    """Call func with each leaf of these types, and return the tree as it was."""
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether pred holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether pred holds for any leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(
    type_or_types: _LeafTypes, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether pred holds for all leaves of these types."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: _LeafTypes, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether pred holds for any leaf of these types."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of all arguments."""
    return tree_leaves((args, kwargs))


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """A leaf per leaf of the structure, where a leaf of `tree` stands for all below it."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or _kind(tree) is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    leaves: list[Any] = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        leaves += part
    return leaves


# -- paths ----------------------------------------------------------------------------------


def _with_paths(path: tuple[Any, ...], tree: PyTree, is_leaf: IsLeaf) -> Iterator[Any]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    children, _ = SUPPORTED_NODES[_kind(tree)].flatten_with_keys_fn(tree)
    for key, child in children:
        yield from _with_paths((*path, key), child, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """Pairs of path and leaf; a path is a tuple of keys."""
    return list(_with_paths((), tree, is_leaf))


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """(pairs of path and leaf, structure)."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """func(path, leaf, parts of `rests` at its place) in the place of each leaf."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    rows = [list(row) for row in zip(*pairs, strict=True)] or [[], []]
    rows += [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(map(func, *rows))


def keystr(kp: tuple[Any, ...]) -> str:
    """A path as text: ['a'][0].field."""
    return "".join(map(str, kp))


def key_get(obj: PyTree, kp: tuple[Any, ...]) -> PyTree:
    """The part of a tree at a path."""
    return functools.reduce(lambda part, key: key.get(part), kp, obj)


# -- text -----------------------------------------------------------------------------------


def _dumped(spec: TreeSpec) -> dict[str, Any]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    node = SUPPORTED_NODES[spec.type]
    context = spec.context
    if node.dump is not None:
        context = node.dump(context)
    elif spec.type is namedtuple:
        context = _full_name(context)
    elif spec.type is defaultdict:
        factory = context[0]
        names = [factory.__module__, factory.__qualname__]
        context = {"default_factory_module": names[0], "default_factory_name": names[1]}
        context["dict_context"] = spec.context[1]
    return {
        "type": node.name,
        "context": json.dumps(context),
        "children_spec": [_dumped(child) for child in spec.children_specs],
    }


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure as JSON.  Contexts must be JSON values.

    Raises TypeError for other objects, ValueError for another protocol than 1.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec "
            f"but got item of type {type(treespec)}."
        )
    if protocol not in (None, 1):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return json.dumps([1, _dumped(treespec)])


def _loaded(written: Mapping[str, Any]) -> TreeSpec:
    if written["type"] is None:
        return _LEAF
    node = next((n for n in SUPPORTED_NODES.values() if n.name == written["type"]), None)
    if node is None:
        raise NotImplementedError(
            f"Deserializing {written['type']} in pytree is not registered: call "
            "register_pytree_node first."
        )
    context = json.loads(written["context"])
    if node.restore is not None:
        context = node.restore(context)
    elif node.type in (namedtuple, defaultdict):
        raise NotImplementedError(
            f"treespec_loads: the context of {written['type']} names a class; build the "
            "structure with tree_structure instead"
        )
    return TreeSpec(node.type, context, [_loaded(child) for child in written["children_spec"]])


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote.  Raises ValueError for another protocol."""
    protocol, written = json.loads(serialized)
    if protocol != 1:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return _loaded(written)


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as text, with * for leaves."""
    leaf = type("_Leaf", (), {"__repr__": lambda self: "*"})()
    return repr(treespec.unflatten([leaf] * treespec.num_leaves))


pytree_to_str = treespec_dumps
str_to_pytree = treespec_loads


# -- names that libraries use ---------------------------------------------------------------

_is_leaf = tree_is_leaf
_dict_flatten = _of_dict
_dict_flatten_with_keys = _keyed(_of_dict)


def _dict_unflatten(values: Iterable[Any], context: Iterable[Any]) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _get_node_type(tree: object) -> Any:
    return namedtuple if is_namedtuple_instance(tree) else type(tree)
