"""Graphs of ONNX as lists of Python calls: the names are checked once, before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from wend._engine.base.errors import FormatError, NotImplementedInWend, WendError
from wend._engine.core._hot import Tensor
from wend.onnx.importing.bodies import Body, TypedBody
from wend.onnx.importing.carried import call_with_carried
from wend.onnx.importing.protos import (
    check_names,
    defaults_of,
    opsets_of,
    outer_names,
    own_domain,
    parsed_function,
    schema_of,
    with_given,
)
from wend.onnx.importing.registry import SCOPED, TEXT_HANDLERS, Handler, find_handler
from wend.onnx.importing.schemas import check_node
from wend.onnx.importing.sizes import MOST_KNOWN, RULES, follow, remember
from wend.onnx.importing.types import (
    Carried,
    Expected,
    Text,
    expected_input,
    sparse_value,
    tensor_value,
)

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

_SPECIAL = frozenset((Carried, Text))  # values that are no tensors
#: Errors that handlers raise, unaware, for nodes that the schema allows and no rule refuses.
_NOT_TOLD = (TypeError, ValueError, LookupError, AttributeError, AssertionError)
MOST_NESTED = 64  # graphs in graphs and functions in functions: far above those of models


class Scope:
    """The values of a running graph, and those of the graphs around."""

    __slots__ = ("outer", "store", "values")

    def __init__(self, outer: Scope | None, store: dict[str, Any]) -> None:
        self.outer, self.store = outer, store
        self.values: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """The value of that name, from the innermost graph that has such a value."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise FormatError(f"onnx: no value has the name {name!r}")


@dataclass(eq=False)
class Node:
    """A node with all that the handler asks for."""

    op_type: str
    domain: str
    version: int
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    handler: Handler
    drops: list[str] = field(default_factory=list)  # names that no later node uses

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default."""
        return self.attributes.get(name, default)

    def wants(self, index: int) -> bool:
        """Whether the output is used."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def run(self, scope: Scope) -> None:
        """Compute the outputs into the scope."""
        arguments = [scope.find(name) if name else None for name in self.inputs]
        try:
            if self.handler in SCOPED:
                result = self.handler(self, scope, *arguments)
            elif _SPECIAL.isdisjoint(map(type, arguments)):
                result = self.handler(self, *arguments)
                if self.op_type in RULES and arguments:
                    follow(self, arguments, result)
            elif any(isinstance(value, Text) for value in arguments):
                result = self.run_on_text(arguments)
            else:
                result = call_with_carried(self, arguments)
        except _NOT_TOLD as error:
            if isinstance(error, WendError):
                error.add_note(f"in {self}")
                raise
            raise FormatError(
                f"onnx: {self}: the attributes, or the values that come in, do not fit the op"
            ) from error
        except Exception as error:
            error.add_note(f"in {self}")
            raise
        results = result if isinstance(result, tuple) else (result,)
        for name, value in zip(self.outputs, results):
            if name:
                scope.values[name] = value
        for name in self.drops:
            scope.values.pop(name, None)

    def run_on_text(self, arguments: list[Any]) -> object:
        """The results for strings. Raises NotImplementedInWend if the op takes none here."""
        passes_on = getattr(self.handler, "aware", False) and self.op_type.startswith("Sequence")
        if passes_on or isinstance(self.handler, Body | TypedBody):
            return self.handler(self, *arguments)
        if (self.domain, self.op_type) not in TEXT_HANDLERS:
            raise NotImplementedInWend(f"onnx: {self} has no handler for strings")
        return TEXT_HANDLERS[self.domain, self.op_type](self, *arguments)

    def __str__(self) -> str:
        domain = f"{self.domain}." if self.domain else ""
        return f"node {self.name or self.outputs!r}, {domain}{self.op_type} of opset {self.version}"


@dataclass(eq=False)
class Graph:
    """A graph that can be called."""

    name: str
    inputs: list[str]
    outputs: list[str]
    initial: dict[str, str]  # name of an initializer: key in the store
    constants: dict[str, Any]  # also the initializers of a graph in a function
    nodes: list[Node]
    kinds: list[Expected]  # the declared types of the outputs
    leaves: set[str]  # the values by which a Gradient node of the graph differentiates

    def run(
        self, arguments: Iterable[Any], outer: Scope | None, store: dict[str, Any]
    ) -> list[Any]:
        """The outputs; `outer` holds the values of the graph around."""
        scope = Scope(outer, store)
        scope.values.update(self.constants)
        for name, key in self.initial.items():
            scope.values[name] = store[key]
        scope.values.update(zip(self.inputs, arguments))
        for name in self.leaves & scope.values.keys():
            scope.values[name] = with_gradient(scope.values[name])
        for node in self.nodes:
            node.run(scope)
            for name in self.leaves and self.leaves.intersection(node.outputs):
                scope.values[name] = with_gradient(scope.values[name])
        return [scope.find(name) if name else None for name in self.outputs]

    def within(self, scope: Scope, *arguments: Any) -> list[Any]:
        """The outputs of a subgraph, which sees the values around."""
        return self.run(arguments, scope, scope.store)


class Importer:
    """Knowledge gathered while the graphs of a file are read."""

    def __init__(self, model: ModelProto, folder: str | None) -> None:
        self.folder = folder
        self.opsets = opsets_of(model.opset_import)
        self.functions = {(own_domain(f.domain), f.name, f.overload): f for f in model.functions}
        self.store: dict[str, Any] = {}
        self.bodies: dict[Any, Graph] = {}
        self.unknown: list[str] = []
        self.active: list[Any] = []  # the functions and graphs being read

    def enter(self, what: object) -> None:
        """Raises FormatError for a function inside itself, and for nesting beyond reason."""
        if what in self.active:
            functions = [name for name in (*self.active, what) if isinstance(name, tuple)]
            chain = " -> ".join(f"{domain}.{name}" for domain, name, _ in functions)
            raise FormatError(f"onnx.load: a function calls itself: {chain}")
        if len(self.active) >= MOST_NESTED:
            raise FormatError(f"onnx.load: more than {MOST_NESTED} graphs lie inside each other")
        self.active.append(what)

    def check_known(self) -> None:
        """Raises NotImplementedInWend that names all ops without a handler."""
        if self.unknown:
            kinds = Counter(text.partition(", node")[0] for text in self.unknown)
            ops = "; ".join(f"{kind}: {n} of them" for kind, n in kinds.most_common())
            first = self.unknown[0]
            self.unknown = []
            raise NotImplementedInWend(f"onnx.load: no handler for {ops}; the first is {first}")

    def keep(self, name: str, value: Tensor | Carried | Text) -> str:
        """A key of the store for an initializer; the tensor's name unless that is taken."""
        key, number = name, 2
        while key in self.store:
            key, number = f"{name}_{number}", number + 1
        self.store[key] = value
        return key

    def graph(self, proto: GraphProto, known: frozenset[str], context: Context) -> Graph:
        """A graph whose nodes may use the names in `known` of the graphs around."""
        self.enter(len(self.active))
        names = [
            t.name for t in (*proto.initializer, *(s.values for s in proto.sparse_initializer))
        ]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise FormatError(f"onnx.load: two initializers have the name {twice[0]!r}")
        values = {t.name: tensor_value(t, self.folder) for t in proto.initializer}
        for sparse in proto.sparse_initializer:
            values[sparse.values.name] = sparse_value(sparse, self.folder)
        own = values if context.in_function else {}
        initial = {} if own else {name: self.keep(name, v) for name, v in values.items()}
        inputs = [info.name for info in proto.input]
        outputs = [info.name for info in proto.output]
        nodes, constants = self.nodes(proto.node, inputs, set(values), known, outputs, context)
        constants |= own
        self.active.pop()
        kinds = [expected_input(info) for info in proto.output]
        return Graph(
            proto.name, inputs, outputs, initial, constants, nodes, kinds, leaves_of(nodes)
        )

    def function(
        self, proto: FunctionProto, attributes: dict[str, Any], opsets: dict[str, int]
    ) -> Graph:
        """The body of a function, for the attributes of a call."""
        name = (proto.domain, proto.name, proto.overload)
        own = opsets_of(proto.opset_import)
        # Each is read once: functions that call each other twice would double at each level.
        key = (
            *name,
            name in self.functions,
            tuple(sorted({**opsets, **own}.items())),
            tuple(sorted((key, value.SerializeToString()) for key, value in attributes.items())),
        )
        self.enter(name)
        if key in self.bodies:
            self.active.pop()
            return self.bodies[key]
        defaults = {attribute.name: attribute for attribute in proto.attribute_proto}
        context = Context({**opsets, **own}, {**defaults, **attributes}, True)
        inputs, outputs = list(proto.input), list(proto.output)
        # A body may leave out the outputs that an attribute switches off.
        nodes, constants = self.nodes(
            proto.node, inputs, set(), frozenset(), outputs, context, whole=False
        )
        defined_names = {name for node in nodes for name in node.outputs} | {*inputs, *constants}
        outputs = [name if name in defined_names else "" for name in outputs]
        self.active.pop()
        graph = Graph(proto.name, inputs, outputs, {}, constants, nodes, [], leaves_of(nodes))
        self.bodies[key] = graph
        return graph

    def nodes(
        self,
        protos: Sequence[NodeProto],
        inputs: list[str],
        initial: set[str],
        known: frozenset[str],
        outputs: list[str],
        context: Context,
        whole: bool = True,
    ) -> tuple[list[Node], dict[str, Any]]:
        """The nodes in order, and the constants.

        Raises FormatError for a name that nothing before has made.
        """
        check_names(*inputs, *outputs, *initial)
        defined_names = set(inputs) | initial
        if len(set(inputs)) < len(inputs):
            raise FormatError(f"onnx.load: two inputs of a graph share a name: {inputs}")
        later = {name for proto in protos for name in proto.output}
        nodes, uses = [], []
        for proto in protos:
            holds = any(a.type in (a.GRAPH, a.GRAPHS) for a in proto.attribute)
            node, used = self.node(proto, known | defined_names if holds else known, context)
            missing = [name for name in used if name not in defined_names and name not in known]
            if missing:
                why = (
                    "a later node makes: the nodes are not sorted, or form a cycle"
                    if missing[0] in later
                    else "nothing makes"
                )
                raise FormatError(f"onnx.load: {node} uses {missing[0]!r}, which {why}")
            for name in filter(None, proto.output):
                if name in defined_names:
                    raise FormatError(f"onnx.load: {node} makes {name!r}, which is there already")
                defined_names.add(name)
            nodes.append(node)
            uses.append(used)
        absent = [
            name for name in outputs if name and name not in defined_names and name not in known
        ]
        if absent and whole:
            raise FormatError(f"onnx.load: nothing makes the output {absent[0]!r} of a graph")
        constants = {n.outputs[0]: read_constant(n.handler(n)) for n in nodes if is_constant(n)}
        read = {*outputs, *constants}.union(*uses)
        for node in nodes:  # a handler computes no output that nobody reads
            node.outputs = [name if name in read else "" for name in node.outputs]
        kept = {*outputs, *constants}
        for node, used in zip(reversed(nodes), reversed(uses)):
            dead = {
                name
                for name in (*used, *node.outputs)
                if name in defined_names and name not in kept
            }
            node.drops = sorted(dead)
            kept |= dead
        return [node for node in nodes if not is_constant(node)], constants

    def node(
        self, proto: NodeProto, known: frozenset[str], context: Context
    ) -> tuple[Node, set[str]]:
        """A node, and the names of the graph around that the node and the subgraphs use."""
        check_names(proto.op_type, proto.domain, proto.name, *proto.input, *proto.output)
        domain = own_domain(proto.domain)
        version = context.opsets.get(domain, 0)
        proto = with_given(proto, context.given)
        if (domain, proto.op_type, proto.overload) not in self.functions:
            check_node(proto, domain, version)
        attributes = {}
        used = {name for name in proto.input if name}
        for attribute in proto.attribute:
            value = self.attribute(attribute, known, context)
            if value is not None:
                attributes[attribute.name] = value
            for inner in (attribute.g, *attribute.graphs):
                used |= outer_names(inner)
        if proto.op_type == "Gradient":
            used |= {attributes["y"], *attributes["xs"], *attributes.get("zs", ())}
        handler = self.handler(proto, domain, version, context)
        node = Node(
            proto.op_type,
            domain,
            version,
            proto.name,
            list(proto.input),
            list(proto.output),
            attributes,
            handler,
        )
        return node, used

    def handler(self, proto: NodeProto, domain: str, version: int, context: Context) -> Handler:
        """A function of the file, a handler of Wend, or the body of the schema, in this order."""
        attributes = {attribute.name: attribute for attribute in proto.attribute}
        local = self.functions.get((domain, proto.op_type, proto.overload))
        if local is not None:
            return Body(self.function(local, attributes, context.opsets))
        own_handler = find_handler(domain, proto.op_type, version)
        if own_handler is not None:
            return own_handler
        schema = schema_of(proto.op_type, domain, version)
        if schema is not None:
            attributes = {**defaults_of(schema), **attributes}
        if schema is not None and schema.has_function:
            opset = schema.since_version
            versions = [v for v in schema.function_opset_versions if v <= version]
            if versions:
                opset = versions[-1]
            body = schema.get_function_with_opset_version(opset)
            return Body(self.function(parsed_function(body), attributes, context.opsets))
        if schema is not None and schema.has_context_dependent_function:
            return TypedBody(self, schema, proto, version, attributes, context.opsets)
        self.unknown.append(
            f"{domain or 'ai.onnx'}.{proto.op_type} of opset {version}, "
            f"node {proto.name or list(proto.output)!r}"
        )
        return no_handler

    def attribute(self, proto: AttributeProto, known: frozenset[str], context: Context) -> Any:
        """The Python value of an attribute; tensors become values, graphs become callable."""
        kind = proto.type
        if kind == proto.GRAPH:
            return self.graph(proto.g, known, context)
        if kind == proto.GRAPHS:
            return [self.graph(graph, known, context) for graph in proto.graphs]
        if kind == proto.TENSOR:
            return tensor_value(proto.t, self.folder)
        if kind == proto.TENSORS:
            return [tensor_value(tensor, self.folder) for tensor in proto.tensors]
        if kind == proto.SPARSE_TENSOR:
            return sparse_value(proto.sparse_tensor, self.folder)
        if kind == proto.STRING:
            return proto.s.decode("utf-8", "replace")
        if kind == proto.STRINGS:
            return tuple(s.decode("utf-8", "replace") for s in proto.strings)
        if kind == proto.INTS:
            return tuple(proto.ints)
        if kind == proto.FLOATS:
            return tuple(proto.floats)
        return {proto.INT: proto.i, proto.FLOAT: proto.f, proto.TYPE_PROTO: proto.tp}.get(kind)


@dataclass(frozen=True)
class Context:
    """The opsets of a graph or function, and the attributes that a call of a function gave."""

    opsets: dict[str, int]
    given: dict[str, Any]  # AttributeProtos
    in_function: bool = False


def is_constant(node: Node) -> bool:
    """Whether a node gives the same value in each run, and takes no input."""
    return node.op_type == "Constant" and node.domain == "" and not node.inputs


def read_constant(value: Any) -> Any:
    """A constant; the numbers of a short vector are known from here on."""
    if type(value) in _SPECIAL or value.ndim > 1 or value.numel() > MOST_KNOWN:
        return value
    return value if value.dtype.is_complex else remember(value, value.reshape(-1).tolist())


def leaves_of(nodes: list[Node]) -> set[str]:
    """The names by which Gradient nodes differentiate."""
    return {x for node in nodes if node.op_type == "Gradient" for x in node.get("xs", ())}


def with_gradient(value: Tensor) -> Tensor:
    """A value that gradients are asked for."""
    return value if value.requires_grad else value.detach().requires_grad_()


def no_handler(node: Node, *inputs: object) -> NoReturn:
    """Raises NotImplementedInWend."""
    raise NotImplementedInWend(f"onnx: there is no handler for {node}")
