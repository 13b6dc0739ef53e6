"""`wend.onnx.load`: an ONNX file as a module that runs and trains."""

from __future__ import annotations

import importlib
import os
from collections import namedtuple
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wend._engine.base.errors import ArgumentTypeError, FormatError, ModuleNotAvailable
from wend._engine.core._hot import Tensor
from wend.nn.modules.module import Module
from wend.nn.parameter import Parameter
from wend.onnx.importing.graph import Context, Graph, Importer
from wend.onnx.importing.sizes import note_stored
from wend.onnx.importing.types import Carried, Expected, Text, expected_input, plain

if TYPE_CHECKING:
    from onnx import ModelProto


def load(source: str | os.PathLike[str] | bytes, *, trainable: bool = True) -> ONNXModule:
    """A module that computes an ONNX model with Wend's ops.

    source: the path of a file, or bytes     trainable: whether the weights ask for gradients

    Floating initializers are parameters; running statistics and all others are buffers. Names
    are the file's.
    `forward` takes the graph's inputs in order, or by name, as tensors or NumPy arrays. A single
    output comes alone, several come as a namedtuple. If, Loop and Scan are Python's control
    flow. The file decides about training modes: `train()` and `eval()` change nothing.

    Raises FormatError for a damaged or hostile file, and NotImplementedInWend for ops without a
    handler: the message names each op, domain, opset and node.
    """
    onnx = _onnx()
    model, folder = _read(onnx, source)
    importer = Importer(model, folder)
    expected = [expected_input(info) for info in model.graph.input]
    graph = importer.graph(model.graph, frozenset(), Context(importer.opsets, {}))
    importer.check_known()
    store, importer.store = importer.store, {}
    # Running means and variances are no weights: no optimiser may change them.
    fixed = {
        name
        for node in model.graph.node
        if node.op_type == "BatchNormalization"
        for name in node.input[3:5]
    }
    return ONNXModule(graph, store, expected, fixed, trainable)


def _onnx() -> ModuleType:
    try:
        onnx = importlib.import_module("onnx")
    except ImportError as error:
        raise ModuleNotAvailable(
            "onnx.load: the package onnx reads the files; pip install 'wend-dl[onnx]'", name="onnx"
        ) from error
    importlib.import_module("wend.onnx.importing.ops")
    return onnx


def _read(
    onnx: ModuleType, source: str | os.PathLike[str] | bytes
) -> tuple[ModelProto, str | None]:
    """The ModelProto, and the folder in which external data may lie."""
    folder = None
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        folder = os.path.dirname(os.path.abspath(path))
        with open(path, "rb") as file:
            data = file.read()
    elif isinstance(source, bytes | bytearray | memoryview):
        data = bytes(source)
    else:
        raise ArgumentTypeError(
            f"onnx.load: a path or bytes are needed, not {type(source).__name__}"
        )
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception as error:
        raise FormatError(
            f"onnx.load: these {len(data)} bytes are no ONNX model: {error}"
        ) from error
    if not model.HasField("graph"):
        raise FormatError(f"onnx.load: these {len(data)} bytes hold no graph")
    return model, folder


class Part(Module):
    """Holds the parameters of a dotted name: `layer.weight` lies in `layer`."""


class ONNXModule(Module):
    """A model read by `wend.onnx.load`.

    input_names, output_names: those of the graph, in order
    """

    def __init__(
        self,
        graph: Graph,
        store: dict[str, Any],
        expected: list[Expected],
        fixed: set[str],
        trainable: bool,
    ) -> None:
        super().__init__()
        self.graph = graph
        self.texts: dict[str, Text] = {}
        self.places: dict[str, tuple[str, str, int | None]] = {}
        fed = [e for e in expected if e.name not in graph.initial]
        optional = [e for e in expected if e.name in graph.initial]
        self.expected: list[Expected] = [*fed, *optional]
        self.required = len(fed)
        self.input_names = [e.name for e in self.expected]
        self.output_names = list(graph.outputs)
        self.result: Any = namedtuple("Outputs", self.output_names, rename=True)  # type: ignore[misc]
        for key, value in store.items():
            self._place(key, value, key not in fixed, trainable)

    def _place(
        self, key: str, value: Tensor | Carried | Text, weight: bool, trainable: bool
    ) -> None:
        """Register an initializer under a name, in modules of the dotted parts."""
        if isinstance(value, Text):
            self.texts[key] = value
            return
        owner: Module = self
        *parents, name = [_identifier(part) for part in key.split(".") if part] or ["tensor"]
        for parent in parents:
            inner = getattr(owner, parent, None)
            if inner is None:
                inner = Part()
                owner.add_module(parent, inner)
            if not isinstance(inner, Part):
                owner, name = self, "_".join([*parents, name])
                break
            owner = inner
        while hasattr(owner, name):
            name += "_"
        tensor = plain(value)
        if isinstance(value, Carried) or not weight or not tensor.dtype.is_floating_point:
            owner.register_buffer(name, tensor)
        else:
            tensor = Parameter(tensor, requires_grad=trainable)
            owner.register_parameter(name, tensor)
        note_stored(tensor)
        path = next(path for path, module in self.named_modules() if module is owner)
        element = value.element if isinstance(value, Carried) else None
        self.places[key] = (path, name, element)

    def _stored(self) -> dict[str, Any]:
        """The initializers of this moment, by key."""
        modules = dict(self.named_modules())
        store: dict[str, Any] = dict(self.texts)
        for key, (path, name, element) in self.places.items():
            tensor = getattr(modules[path], name)
            store[key] = tensor if element is None else Carried(tensor, element)
        return store

    def _arguments(
        self, inputs: tuple[Any, ...], named: dict[str, Any], store: dict[str, Any]
    ) -> list[Any]:
        if len(inputs) > len(self.expected):
            raise ArgumentTypeError(
                f"onnx: the model has {len(self.expected)} inputs, and {len(inputs)} were given"
            )
        values = dict(zip(self.input_names, inputs))
        for name, value in named.items():
            if name not in self.input_names:
                raise ArgumentTypeError(f"onnx: no input {name!r}; there are {self.input_names}")
            if name in values:
                raise ArgumentTypeError(f"onnx: input {name!r} was given twice")
            values[name] = value
        missing = [e.name for e in self.expected[: self.required] if e.name not in values]
        if missing:
            raise ArgumentTypeError(f"onnx: missing inputs {missing} of {self.input_names}")
        taken = {e.name: e.take(values[e.name]) for e in self.expected if e.name in values}
        return [
            taken[name] if name in taken else store[self.graph.initial[name]]
            for name in self.graph.inputs
        ]

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The outputs for the inputs, given in order or by name."""
        store = self._stored()
        outputs = self.graph.run(self._arguments(inputs, named, store), None, store)
        results = [_given(value) for value in outputs]
        return results[0] if len(results) == 1 else self.result(*results)


def _given(value: Any) -> Any:
    """An output as the caller gets one: for a type that Wend lacks, the carrier."""
    if isinstance(value, list):
        return [_given(one) for one in value]
    if isinstance(value, Text):
        return value.nested()
    return plain(value)


def _identifier(name: str) -> str:
    """A name that a module's attribute can have."""
    valid = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return valid + "_" if hasattr(Module, valid) else valid
