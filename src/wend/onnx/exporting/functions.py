"""Folds the nodes of each module's call into a call of an ONNX function, so that viewers fold it.

A node's name begins with the path of the module that made it, as in `/blocks/0/relu_4`.  Nodes in a
row below the same path are a call.  Calls of a class whose bodies are equal share a function.
Graphs inside If and Loop are left as they are; so is a call that such a graph cuts in parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from wend.onnx.exporting.protos import names_read, renamed

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto

__all__ = ["fold_modules"]

Path = tuple[str, ...]


def fold_modules(model: ModelProto, kinds: dict[str, tuple[str, str]]) -> None:
    """Replace the calls of modules in the main graph by calls of functions.

    kinds: by dotted path of a module, the domain and name of the function
    """
    folder = _Folder(model, {tuple(path.split(".")): kind for path, kind in kinds.items() if path})
    nodes = folder.folded(list(model.graph.node), (), [info.name for info in model.graph.output])
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.functions.extend(folder.functions)
    known = {entry.domain for entry in model.opset_import}
    model.opset_import.extend(
        folder.helper.make_opsetid(domain, 1)
        for domain in dict.fromkeys(f.domain for f in folder.functions)
        if domain not in known
    )


class _Folder:
    """Makes functions.

    constants: by name, the nodes of constants; each function has its own
    """

    def __init__(self, model: ModelProto, kinds: dict[Path, tuple[str, str]]) -> None:
        from onnx import helper

        self.helper: Any = helper
        self.kinds = kinds
        self.opset = next(e.version for e in model.opset_import if e.domain == "")
        self.constants = {n.output[0]: n for n in model.graph.node if n.op_type == "Constant"}
        self.functions: list[FunctionProto] = [*model.functions]
        self.names: set[str] = {n.name for n in model.graph.node}
        self.by_body: dict[tuple[object, ...], FunctionProto] = {}
        self.taken: set[tuple[str, str]] = {(f.domain, f.name) for f in model.functions}
        del model.functions[:]

    def folded(
        self, nodes: list[NodeProto], below: Path, outputs: Sequence[str]
    ) -> list[NodeProto]:
        """The nodes, with a call in place of the nodes of each module below a path.

        outputs: the names that are read beside those that nodes read
        """
        paths = dict(zip(map(id, nodes), self.paths(nodes), strict=True))
        folded_nodes: list[NodeProto] = []
        runs = [
            (k, list(run)) for k, run in groupby(nodes, lambda n: self.kind(paths[id(n)], below))
        ]
        reads = [names_read(run) for _, run in runs]
        for place, (path, run) in enumerate(runs):
            if path is None:
                folded_nodes += run
                continue
            others = [names for k, names in enumerate(reads) if k != place]
            asked = {*outputs, *(name for names in others for name in names)}
            own_outputs = [name for node in run for name in node.output if name in asked]
            inner = self.folded(run, path, own_outputs)
            folded_nodes += [self.call(path, inner, own_outputs)] if own_outputs else inner
        return folded_nodes

    def paths(self, nodes: list[NodeProto]) -> Iterator[Path]:
        """The path of each node; nodes without a name have that of the nodes around."""
        known = [tuple(n.name.split("/")[1:-1]) if "/" in n.name else None for n in nodes]
        for k, path in enumerate(known):
            if path is not None:
                yield path
                continue
            before = next((p for p in reversed(known[:k]) if p is not None), ())
            after = next((p for p in known[k:] if p is not None), ())
            yield _common(before, after)

    def kind(self, path: Path, below: Path) -> Path | None:
        """The outermost module of a path that has a function, below another module."""
        for n in range(len(below) + 1, len(path) + 1):
            if path[:n] in self.kinds:
                return path[:n]
        return None

    def call(self, path: Path, nodes: list[NodeProto], outputs: list[str]) -> NodeProto:
        """A node that calls the function of these nodes."""
        own = {name for node in nodes for name in node.output}
        read = [name for name in names_read(nodes) if name and name not in own]
        constants = [self.constants[name] for name in read if name in self.constants]
        inputs = [name for name in read if name not in self.constants]
        function = self.function(self.kinds[path], [*constants, *nodes], inputs, outputs)
        name = next(n for n in _numbered("/" + "/".join(path)) if n not in self.names)
        self.names.add(name)
        return self.helper.make_node(
            function.name, inputs, outputs, name=name, domain=function.domain
        )

    def function(
        self, kind: tuple[str, str], nodes: list[NodeProto], inputs: list[str], outputs: list[str]
    ) -> FunctionProto:
        """The function with these nodes; one that is there already, if its body is equal."""
        body = []
        new = {name: f"input_{k}" for k, name in enumerate(inputs)}
        new |= {name: f"output_{k}" for k, name in enumerate(outputs)}
        for k, name in enumerate(name for node in nodes for name in node.output if name):
            new.setdefault(name, f"value_{k}")
        for node in nodes:
            own = type(node)()
            own.CopyFrom(node)
            own.name = ""
            body.append(own)
        renamed(body, new)
        key = (
            kind,
            len(inputs),
            len(outputs),
            *[n.SerializeToString(deterministic=True) for n in body],
        )
        known = self.by_body.get(key)
        if known is None:
            domain, name = kind
            free = next(n for n in _numbered(name) if (domain, n) not in self.taken)
            self.taken.add((domain, free))
            domains = dict.fromkeys([n.domain for n in body if n.domain])
            imports = [self.helper.make_opsetid("", self.opset)]
            imports += [self.helper.make_opsetid(d, 1) for d in domains]
            known = self.by_body[key] = self.helper.make_function(
                domain,
                free,
                [new[x] for x in inputs],
                [new[x] for x in outputs],
                body,
                imports,
            )
            self.functions.append(known)
        return known


def _common(a: Path, b: Path) -> Path:
    """The path above both."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return a[:n]


def _numbered(name: str) -> Iterator[str]:
    """name, name_2, name_3 ..."""
    yield name
    k = 2
    while True:
        yield f"{name}_{k}"
        k += 1
