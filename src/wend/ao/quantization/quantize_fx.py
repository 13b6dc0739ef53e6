"""torch.ao.quantization.quantize_fx: a traced model is quantised without marks in its code.

The model is traced to a graph. Each step builds a further graph:

- fuse: convolutions, batch norms and ReLUs in a row become a call of a single module
- prepare: observers stand behind the values that become bytes
- convert: observed calls compute with bytes; floats are there where a call needs them
"""

from __future__ import annotations

import copy
from collections import ChainMap, Counter
from collections.abc import Mapping
from typing import Any

from wend._engine.base.dtypes import ABSENT, float32, int64
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, NotImplementedInWend
from wend._frontend.quantized.functions import quantize_per_tensor
from wend._frontend.toolkit import Tensor, no_grad, tensor
from wend.ao.quantization._roles import Role, drops, is_query, is_relu, original_type, role_of
from wend.ao.quantization.fake_quantize import FakeQuantizeBase
from wend.ao.quantization.fuse_modules import fuse_known_modules, known_fusions
from wend.ao.quantization.observer import ObserverBase
from wend.ao.quantization.qconfig_mapping import QConfigMapping
from wend.ao.quantization.quantization_mappings import (
    DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    DEFAULT_QAT_MODULE_MAPPINGS,
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
)
from wend.ao.quantization.quantize import OBSERVER, forget_observers, swap_module
from wend.fx import Graph, GraphModule, Interpreter, Node, Tracer, map_arg
from wend.nn import modules
from wend.nn.modules.module import Module

__all__ = ["ObservedGraphModule", "convert_fx", "fuse_fx", "prepare_fx", "prepare_qat_fx"]


class ObservedGraphModule(GraphModule):
    """A graph with observers, as `prepare_fx` makes it.

    computed: the names of the nodes that `convert_fx` computes with bytes
    """

    def __init__(
        self, root: Any, graph: Graph, class_name: str = "GraphModule", computed: Any = frozenset()
    ) -> None:
        super().__init__(root, graph, class_name)
        self.computed = frozenset(computed)

    def __deepcopy__(self, memo: dict[int, Any]) -> ObservedGraphModule:
        plain = super().__deepcopy__(memo)
        return ObservedGraphModule(plain, plain.graph, self._class_name, self.computed)

    def __reduce__(self) -> tuple[Any, ...]:
        _, (parts, graph, name) = super().__reduce__()
        return ObservedGraphModule, (parts, graph, name, self.computed)


def _refuse(name: str, **options: Any) -> None:
    """Raise NotImplementedInWend for an option that has a value."""
    for option, value in options.items():
        if value:
            raise NotImplementedInWend(f"{name}: {option}; leave {option} away")


def _check(name: str, model: Any, training: bool) -> None:
    if not isinstance(model, Module):
        raise ArgumentTypeError(f"{name}: model is {type(model).__name__}, and not a module")
    if model.training is not training:
        mode, call = ("training", "train") if training else ("evaluation", "eval")
        raise ArgumentError(
            f"{name} only works on models in {mode} mode; call model.{call}() before"
        )


def _mapping(qconfig_mapping: Any) -> QConfigMapping:
    """The mapping; of a dict, as older programs have, the mapping that it stands for."""
    if isinstance(qconfig_mapping, QConfigMapping):
        return qconfig_mapping
    if not isinstance(qconfig_mapping, dict):
        raise ArgumentTypeError(
            f"qconfig_mapping is {type(qconfig_mapping).__name__}; use a QConfigMapping, such as "
            "get_default_qconfig_mapping()"
        )
    unknown = [key for key in qconfig_mapping if key not in ("", "object_type", "module_name")]
    if unknown:
        raise NotImplementedInWend(f"qconfig_mapping: the key {unknown[0]!r}")
    mapping = QConfigMapping().set_global(qconfig_mapping.get(""))
    for kind, qconfig in qconfig_mapping.get("object_type", ()):
        mapping.set_object_type(kind, qconfig)
    for name, qconfig in qconfig_mapping.get("module_name", ()):
        mapping.set_module_name(name, qconfig)
    return mapping


def _parts(root: Module, graph: Graph) -> dict[str, Any]:
    """The modules and tensors that a graph names, by path."""
    fetch = Interpreter(GraphModule(root, graph)).fetch_attr
    paths = [str(n.target) for n in graph.nodes if n.op in ("call_module", "get_attr")]
    return {path: fetch(path) for path in paths}


# -- fuse -----------------------------------------------------------------------------------


def _fused(model: Module, is_qat: bool, useful: Any) -> tuple[Graph, dict[str, Any]]:
    """(the graph of a model with modules fused, its parts).

    useful: the types of modules that are worth a fusion, or None for all
    """
    tracer = Tracer()
    graph = tracer.trace(model)
    parts = _parts(tracer.root, graph)
    known = {
        types: kind
        for types, kind in known_fusions(is_qat).items()
        if useful is None or (types[0] if kind is None else kind) in useful
    }
    result, env = Graph(), dict[Node, Node]()
    calls = Counter(n.target for n in graph.nodes if n.op == "call_module")
    for node in graph.nodes:
        if node in env:
            continue
        chain = _chain(node, parts, calls, known)
        if len(chain) > 1:
            row = [parts[str(n.target)] if n.op == "call_module" else modules.ReLU() for n in chain]
            for module in row[1:]:
                if isinstance(module, modules.ReLU):  # has no mode
                    module.train(row[0].training)
            parts[str(node.target)] = fuse_known_modules(row, is_qat)[0]
        if is_qat and drops(node):
            new = _dropout(node, result, env, parts)
        else:
            new = result.node_copy(node, env.__getitem__)
        env.update(dict.fromkeys(chain, new))
    return result, parts


def _dropout(node: Node, result: Graph, env: dict[Node, Node], parts: dict[str, Any]) -> Node:
    """A module in the place of the function, so that `eval()` ends the dropout."""
    x = node.args[0] if node.args else node.kwargs["input"]
    p = node.args[1] if len(node.args) > 1 else node.kwargs.get("p", 0.5)
    path = f"_{node.name}"
    parts[path] = modules.Dropout(p)
    return result.create_node("call_module", path, (env[x],), {}, node.name)


def _chain(node: Node, parts: Any, calls: Any, known: Any) -> list[Node]:
    """The nodes that a single module computes: from this node on, the longest row."""
    row, kinds, best = [node], [], [node]
    while True:
        last = row[-1]
        if last.op == "call_module" and calls[last.target] == 1:
            kinds.append(type(parts[str(last.target)]))
        elif len(row) > 1 and is_relu(last, parts):
            kinds.append(modules.ReLU)
        else:
            return best
        if tuple(kinds) in known:
            best = list(row)
        following = next(iter(last.users), None)
        if following is None or len(last.users) > 1 or len(following.all_input_nodes) > 1:
            return best
        row.append(following)


def fuse_fx(model: Module, fuse_custom_config: Any = None, backend_config: Any = None) -> Any:
    """The traced model with convolutions, batch norms and ReLUs in a row fused.

    Raises ArgumentError for a model in training mode, NotImplementedInWend for further options.
    """
    _refuse("fuse_fx", fuse_custom_config=fuse_custom_config, backend_config=backend_config)
    _check("fuse_fx", model, False)
    graph, parts = _fused(copy.deepcopy(model), False, None)
    return GraphModule(parts, graph, "GraphModule").eval()


# -- prepare --------------------------------------------------------------------------------


class _Seen(Interpreter):
    """Notes which nodes have tensors of floats."""

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, Tensor) and value.dtype is float32:
            self.floats.add(n.name)
        return value

    floats: set[str]


def _float_nodes(graph: Graph, parts: dict[str, Any], example_inputs: Any) -> set[str]:
    """The names of the nodes whose results are tensors of floats."""
    model = copy.deepcopy(GraphModule(parts, graph)).eval()
    seen = _Seen(model)
    seen.floats = set()
    inputs = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    with no_grad():
        seen.run(*inputs)
    return seen.floats


class _Preparation:
    """The observers of a graph. parts: modules and tensors by path, to which observers come."""

    def __init__(self, graph: Graph, parts: dict[str, Any], mapping: QConfigMapping) -> None:
        self.graph, self.parts, self.mapping = graph, parts, mapping
        self.roles: dict[Node, Role] = {}
        self.leaders: dict[Node, Node] = {}  # values with a common observer: towards the first
        self.qconfigs: dict[Node, Any] = {}

    def qconfig_of(self, node: Node) -> Any:
        """The qconfig of a call, or None."""
        if node.op == "call_module":
            return self.mapping.of(str(node.target), original_type(self.parts[str(node.target)]))
        scope = list(node.meta.get("nn_module_stack", ()))
        return self.mapping.of(scope[-1] if scope else "", node.target)

    def configure(self, floats: set[str], is_qat: bool) -> None:
        """Give modules their qconfigs, and calls their roles."""
        for node in self.graph.nodes:
            if not node.op.startswith("call"):
                continue
            qconfig = self.qconfig_of(node)
            observer = None if qconfig is None else qconfig.activation()
            if node.op == "call_module":
                self._configure_module(node, qconfig, is_qat)
            if observer is None:
                continue
            dynamic = _is_dynamic(qconfig)
            if not dynamic and observer.dtype is not ABSENT["quint8"]:
                raise NotImplementedInWend(
                    f"prepare_fx: the qconfig of {node} observes for {observer.dtype}; kernels "
                    "take torch.quint8"
                )
            if dynamic and is_qat:
                raise NotImplementedInWend("prepare_qat_fx: a dynamic qconfig; use prepare_fx")
            role = None if dynamic else role_of(node, self.parts, lambda n: n.name in floats)
            if role is not None:
                self._take(node, role, qconfig)

    def _configure_module(self, node: Node, qconfig: Any, is_qat: bool) -> None:
        path = str(node.target)
        module = self.parts[path]
        module.qconfig = qconfig
        if is_qat:
            self.parts[path] = swap_module(module, DEFAULT_QAT_MODULE_MAPPINGS)

    def _take(self, node: Node, role: Role, qconfig: Any) -> None:
        for inner in role.inner:
            self._drop(inner)
        self.roles[node] = role
        for value in (*role.operands, node):
            self.leaders.setdefault(value, value)
            self.qconfigs.setdefault(value, qconfig)
        if role.kind in ("passed", "joined"):
            for value in (*role.operands[1:], node):
                self._join(role.operands[0], value)
        elif role.kind == "computed":  # of a module that is called again, a single scale
            for other, known in self.roles.items():
                if known.kind == "computed" and other.target == node.target:
                    self._join(other, node)

    def _drop(self, inner: Node) -> None:
        """Have no observer between a sum and the ReLU behind."""
        if self.roles.pop(inner, None) is not None:
            del self.leaders[inner], self.qconfigs[inner]

    def leader(self, node: Node) -> Node:
        """The first of the values that have the node's observer."""
        while self.leaders[node] is not node:
            node = self.leaders[node]
        return node

    def _join(self, a: Node, b: Node) -> None:
        a, b = self.leader(a), self.leader(b)
        self.leaders[b] = a

    def _leave_floats(self) -> None:
        """Take the observers away where calls only pass values on: bytes would gain nothing."""
        useful = {
            self.leader(value)
            for node, role in self.roles.items()
            if role.kind in ("computed", "arithmetic")
            for value in (node, *role.operands)
        }
        kept = {value for value in self.leaders if self.leader(value) in useful}
        self.roles = {node: role for node, role in self.roles.items() if node in kept}
        self.leaders = {value: towards for value, towards in self.leaders.items() if value in kept}

    def observed(self) -> ObservedGraphModule:
        """The graph with observers."""
        self._leave_floats()
        result = Graph()
        plain: dict[Node, Node] = {}  # results as calls with floats see them
        seen: dict[Node, Node] = {}  # results behind the observer
        paths: dict[Node, str] = {}
        takers = {*self.roles, *(n for role in self.roles.values() for n in role.inner)}
        for node in self.graph.nodes:
            values: Mapping[Node, Node]
            values = ChainMap(seen, plain) if node in takers else plain
            new = plain[node] = result.node_copy(node, values.__getitem__)
            if node not in self.leaders:
                continue
            leader = self.leader(node)
            if leader not in paths:
                paths[leader] = f"{OBSERVER}_{len(paths)}"
                self.parts[paths[leader]] = self.qconfigs[leader].activation()
            seen[node] = result.call_module(paths[leader], (new,))
            if node in self.roles:
                plain[node] = seen[node]
        names = {node.name for node in self.roles}
        return ObservedGraphModule(self.parts, result, "GraphModule", names)


def _prepare(model: Module, mapping: Any, example_inputs: Any, is_qat: bool) -> Any:
    mapping = _mapping(mapping)
    useful = {*DEFAULT_STATIC_QUANT_MODULE_MAPPINGS}
    if is_qat:
        useful = {*DEFAULT_QAT_MODULE_MAPPINGS}
    graph, parts = _fused(copy.deepcopy(model), is_qat, useful)
    floats = _float_nodes(graph, parts, example_inputs)
    preparation = _Preparation(graph, parts, mapping)
    preparation.configure(floats, is_qat)
    result = preparation.observed()
    result.training = is_qat
    return result


def prepare_fx(
    model: Module, qconfig_mapping: Any, example_inputs: Any, prepare_custom_config: Any = None,
    _equalization_config: Any = None, backend_config: Any = None,
) -> Any:  # fmt: skip
    """The traced model with observers. Run data through the result, then call `convert_fx`.

    qconfig_mapping: a QConfigMapping     example_inputs: the arguments of a call, as a tuple

    Raises ArgumentError for a model in training mode, TraceError for a model that asks for values,
    NotImplementedInWend for further options.
    """
    _refuse(
        "prepare_fx", prepare_custom_config=prepare_custom_config,
        _equalization_config=_equalization_config, backend_config=backend_config,
    )  # fmt: skip
    _check("prepare_fx", model, False)
    return _prepare(model, qconfig_mapping, example_inputs, False)


def prepare_qat_fx(
    model: Module, qconfig_mapping: Any, example_inputs: Any, prepare_custom_config: Any = None,
    backend_config: Any = None,
) -> Any:  # fmt: skip
    """The traced model with weights and results rounded in the forward pass: train the result.

    Arguments and errors are those of `prepare_fx`; the model is in training mode.
    """
    _refuse(
        "prepare_qat_fx", prepare_custom_config=prepare_custom_config,
        backend_config=backend_config,
    )  # fmt: skip
    _check("prepare_qat_fx", model, True)
    return _prepare(model, qconfig_mapping, example_inputs, True)


def _is_dynamic(qconfig: Any) -> bool:
    """Whether scales are those of each call, and not of a calibration."""
    return qconfig is not None and bool(getattr(qconfig.activation(), "is_dynamic", False))


# -- convert --------------------------------------------------------------------------------


class _Conversion:
    """A graph that computes with bytes, from a graph with observers."""

    def __init__(self, model: ObservedGraphModule) -> None:
        self.old, self.new = model.graph, Graph()
        self.parts = _parts(model, model.graph)
        self.computed = model.computed
        self.observers: dict[Node, Any] = {}
        self.floats: dict[Node, Node] = {}
        self.whole: dict[Node, Node] = {}  # quantised values
        self.swapped: set[str] = set()
        for node in self.old.nodes:
            if self._observes(node):
                self.observers[node.args[0]] = self.parts[str(node.target)]

    def _observes(self, node: Node) -> bool:
        module = self.parts[str(node.target)] if node.op == "call_module" else None
        return str(node.target).startswith(f"{OBSERVER}_") and isinstance(
            module, (ObserverBase, FakeQuantizeBase)
        )

    def _value(self, node: Node) -> Node:
        """The node whose result an observer passes on; other nodes themselves."""
        return node.args[0] if self._observes(node) else node

    def as_float(self, node: Node) -> Node:
        """The floats of a value."""
        value = self._value(node)
        if value not in self.floats:
            self.floats[value] = self.new.call_method("dequantize", (self.whole[value],))
        return self.floats[value]

    def as_whole(self, node: Node, user: str) -> Node:
        """The bytes of a value. user: the name of the node that asks"""
        value = self._value(node)
        if value not in self.whole:
            args = self._scale(self.observers[value], f"{user}_input")
            operands = (self.floats[value], *args)
            self.whole[value] = self.new.call_function(quantize_per_tensor, operands)
        return self.whole[value]

    def _scale(self, observer: Any, prefix: str) -> tuple[Any, ...]:
        """(scale, zero point, dtype) of an observer; the first two as buffers."""
        scale, zero = observer.calculate_qparams()
        nodes = []
        values = tensor(float(scale)), tensor(int(zero), dtype=int64)
        for name, value in zip(("scale", "zero_point"), values, strict=True):
            count = 0
            while (path := f"{prefix}_{name}_{count}") in self.parts:
                count += 1
            self.parts[path] = value
            nodes.append(self.new.get_attr(path))
        return (*nodes, observer.dtype)

    def run(self) -> Graph:
        """The graph."""
        kinds: dict[Node, Role | None] = {
            n: role_of(n, self.parts, self._takes_part)
            for n in self.old.nodes
            if n.name in self.computed
        }
        inner = {n for role in kinds.values() if role is not None for n in role.inner}
        for node in self.old.nodes:
            if self._observes(node) or node in inner:
                continue
            role = kinds.get(node)
            if role is not None:
                self.whole[node] = self._computed(node, role)
                continue
            if node.op == "call_module":
                path = str(node.target)
                dynamic = _is_dynamic(getattr(self.parts[path], "qconfig", None))
                self._swap(path, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS if dynamic else {})
            self.floats[node] = self.new.node_copy(
                node, self._any if is_query(node) else self.as_float
            )
        return self.new

    def _takes_part(self, node: Node) -> bool:
        return node.name in self.computed or self._observes(node)

    def _any(self, node: Node) -> Node:
        """A value as it is at hand."""
        value = self._value(node)
        return self.whole.get(value) or self.floats[value]

    def _computed(self, node: Node, role: Role) -> Node:
        if role.kind == "arithmetic":
            args = map_arg(role.args, lambda n: self.as_whole(n, node.name))
            # PyTorch's names of the scales: by the module of the ReLU, if there is such a module.
            prefix = str(node.target).replace(".", "_") if node.op == "call_module" else ""
            return self.new.create_node(
                "call_function", role.function, (*args, *self._scale(self.observers[node], prefix)),
                name=role.function.__name__.removeprefix("quantized_"),
            )  # fmt: skip
        operands = set(role.operands)

        def operand(n: Node) -> Node:
            return self.as_whole(n, node.name) if n in operands else self._any(n)

        if node.op == "call_module":
            path = str(node.target)
            if path not in self.swapped and role.kind == "computed":
                self.parts[path].add_module(OBSERVER, self.observers[node])
            self._swap(path, DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)
        if role.kind == "computed":
            args = tuple(map(operand, role.operands))
            return self.new.create_node("call_module", node.target, args, {}, node.name)
        return self.new.node_copy(node, operand)

    def _swap(self, path: str, table: dict[Any, Any]) -> None:
        """Put the quantised module in the place of a module with a qconfig, once."""
        if path not in self.swapped:
            self.swapped.add(path)
            self.parts[path] = swap_module(self.parts[path], table)
            forget_observers(self.parts[path])


def convert_fx(
    graph_module: Any, convert_custom_config: Any = None, _remove_qconfig: bool = True,
    qconfig_mapping: Any = None, backend_config: Any = None, keep_original_weights: bool = False,
) -> Any:  # fmt: skip
    """The model of bytes, from a model that `prepare_fx` or `prepare_qat_fx` made.

    Raises ArgumentTypeError for another model, NotImplementedInWend for further options.
    """
    _refuse(
        "convert_fx", convert_custom_config=convert_custom_config, qconfig_mapping=qconfig_mapping,
        backend_config=backend_config, keep_original_weights=keep_original_weights,
    )  # fmt: skip
    if not isinstance(graph_module, ObservedGraphModule):
        raise ArgumentTypeError(
            f"convert_fx: the model is a {type(graph_module).__name__}, and not one that "
            "prepare_fx() or prepare_qat_fx() made"
        )
    training = graph_module.training
    with no_grad():
        conversion = _Conversion(copy.deepcopy(graph_module))
        graph = conversion.run()
        result = GraphModule(conversion.parts, graph, graph_module._class_name)
    result.training = training
    return result
