"""torch.export.ExportedProgram: a function as a graph with branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError, FormatError
from wend._engine.core._hot import Tensor
from wend._engine.core._types import TensorType
from wend._engine.core.symbolic import DIM, EQ
from wend._engine.transforms.exploring import running, text
from wend._engine.transforms.exploring.program import Apply, StaticGraph
from wend.export._dims import Dim, free_extents, named_dims
from wend.export._examples import AdditionalInputs, ShapesCollection
from wend.export._signing import Bounds, Example, bounds_of, example_of, signature_of
from wend.export.graph_signature import ExportGraphSignature
from wend.nn.modules.module import Module
from wend.nn.parameter import Parameter

__all__ = [
    "ExportedProgram",
    "GraphText",
    "check_inputs",
    "default_decompositions",
    "draft_export",
    "export",
]


class GraphText:
    """The graph of a program, to be printed."""

    def __init__(self, program: StaticGraph) -> None:
        self._program = program

    def _static_graph(self) -> StaticGraph:
        return self._program

    def __str__(self) -> str:
        return "\n".join(text.lines(self._program))

    __repr__ = __str__


class ExportedProgram:
    """A function with its parameters as a static graph.

    program: the explored graph     dims: per (id of an input, axis) the Dim or name
    example: the call that was explored; None for a program from a file
    """

    def __init__(
        self, program: StaticGraph, dims: list[dict[int, Any]], example: Example | None = None
    ) -> None:
        self.program = program
        self.dims = dims
        self._example = example

    def _static_graph(self) -> StaticGraph:
        return self.program

    @property
    def graph(self) -> GraphText:
        """The graph; printed, it shows ops, branches, loops and the user's lines."""
        return GraphText(self.program)

    def __str__(self) -> str:
        return str(self.graph)

    __repr__ = __str__

    def _tensors(self, *kinds: str) -> Iterator[tuple[str, Tensor]]:
        for c in self.program.captured:
            if c.kind in kinds:
                yield c.name, c.tensor

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Names and parameters."""
        return self._tensors("parameter")

    def parameters(self) -> Iterator[Tensor]:
        """The parameters."""
        return (t for _, t in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Names and buffers."""
        return self._tensors("buffer")

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        return (t for _, t in self.named_buffers())

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by name."""
        return dict(self._tensors("parameter", "buffer"))

    @property
    def constants(self) -> dict[str, Tensor]:
        """Tensors that the function had from elsewhere."""
        return dict(self._tensors("constant"))

    def named_dims(self) -> dict[tuple[int, int], str]:
        """Per (id of an input, axis) the name of the dim."""
        return named_dims(self.program.inputs, self.dims)

    @property
    def tensor_constants(self) -> dict[str, Tensor]:
        """The same as `constants`."""
        return self.constants

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """Inputs and outputs, each with its kind and name."""
        return signature_of(self.program, self._example)

    @property
    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The arguments and keyword arguments that the program was exported from.

        None for a program from a file, which holds no examples.
        """
        return None if self._example is None else (self._example.args, self._example.kwargs)

    @property
    def range_constraints(self) -> dict[str, Bounds]:
        """The smallest and the largest size of each Dim, by name."""
        return bounds_of(self.dims)

    def run_decompositions(
        self,
        decomp_table: Mapping[Any, Any] | None = None,
        decompose_custom_triton_ops: bool = False,
    ) -> ExportedProgram:
        """This program: its graph writes to no value, and each op has a rule for each use.

        decomp_table: None or `default_decompositions()`.  Raises ArgumentError for a table with
        rules of the user's: ops are not taken apart by further rules.
        """
        if decomp_table:
            raise ArgumentError(
                "run_decompositions: ops of a program are not taken apart by rules of a table: "
                "write the op as a function of other ops, and export that"
            )
        return self

    def validate(self) -> None:
        """Check that values are made before they are used. Raises AssertionError."""
        defined_ids = {c.id for c in self.program.captured} | set(self.program.inputs)
        for point in self.program.points:
            defined_ids.update(point.params)
        for _, _, stretch in self.program.stretches():
            here = set(defined_ids)
            for item in stretch.items:
                if isinstance(item, Apply):
                    assert here.issuperset(item.inputs), f"{item.prim!r} reads an unknown value"
                    here.update(item.outputs)

    def module(self, check_guards: bool = True) -> Module:
        """The program as a module, which trains and runs at all sizes that the program allows.

        check_guards: makes no difference; sizes that the program does not allow are refused
        """
        return ProgramModule(self)

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("an ExportedProgram is not called: use .module()(...)")


class ProgramModule(Module):
    """Runs a program; has the parameters and buffers of the function under their names."""

    def __init__(self, exported: ExportedProgram) -> None:
        super().__init__()
        self._exported = exported
        self._places: dict[int, tuple[Module, str]] = {}
        for c in exported.program.captured:
            try:
                self._place(c.id, c.name, c.kind, c.tensor)
            except KeyError as error:
                raise FormatError(
                    f"{exported.program.name}: a module cannot have a tensor of the name "
                    f"{c.name!r}: {error.args[0]}"
                ) from error

    def _static_graph(self) -> StaticGraph:
        return self._exported.program

    def _place(self, number: int, name: str, kind: str, tensor: Tensor) -> None:
        *path, last = name.split(".")
        owner: Module = self
        for part in path:
            inner = owner._modules.get(part)
            if inner is None:
                inner = Module()
                owner.add_module(part, inner)
            owner = inner
        if kind == "parameter" and isinstance(tensor, Parameter):
            owner.register_parameter(last, tensor)
        elif kind == "parameter":
            object.__setattr__(owner, last, tensor)
        else:
            owner.register_buffer(last, tensor, persistent=kind == "buffer")
        self._places[number] = (owner, last)

    def forward(self, *args: object, **kwargs: object) -> Any:
        """The result of the function."""
        program = self._exported.program
        leaves, structure = tree.flatten((args, kwargs))
        if structure != program.structure:
            raise ArgumentError(
                f"{program.name}: takes arguments of the structure {program.structure}, and got "
                f"{structure}"
            )
        for i, constant in program.constants.items():
            if isinstance(leaves[i], Tensor) or leaves[i] != constant:
                raise ArgumentError(
                    f"{program.name}: was exported with {constant!r} as argument {i}, and got "
                    f"{leaves[i]!r}: an argument that is no tensor is a constant of the graph"
                )
        tensors = [x for i, x in enumerate(leaves) if i not in program.constants]
        labels = [f"argument {k}" for k in range(len(tensors))]
        for label, x in zip(labels, tensors, strict=True):
            if not isinstance(x, Tensor):
                raise ArgumentError(f"{program.name}: {label} is a {type(x).__name__}")
        check_inputs(self._exported, program.name, labels, tensors)
        captured = {i: getattr(owner, name) for i, (owner, name) in self._places.items()}
        return running.run(program, tensors, captured)


def check_inputs(
    exported: ExportedProgram,
    op: str,
    labels: Sequence[str],
    tensors: Sequence[Tensor | TensorType],
) -> None:
    """Raise ArgumentError for tensors of wrong dtypes, ranks or constant sizes.

    op, labels: how errors name the program and its inputs
    tensors: or their types
    """
    program = exported.program
    sizes: dict[str, int] = {}
    for k, (label, x, number) in enumerate(zip(labels, tensors, program.inputs, strict=True)):
        info = program.info[number]
        assert info.extents is not None
        shape = tuple(x.shape)
        if x.dtype is not info.dtype or len(shape) != len(info.extents):
            remedy = "" if x.dtype is info.dtype else f": convert it with .to({info.dtype})"
            raise ArgumentError(
                f"{op}: {label} is a {info.dtype} tensor of {len(info.extents)} "
                f"dims, and got {x.dtype} of {len(shape)} dims{remedy}"
            )
        for axis, (e, n) in enumerate(zip(info.extents, shape, strict=True)):
            if type(e) is not tuple and e != n:
                raise ArgumentError(
                    f"{op}: dim {axis} of {label} has the constant size {e}, "
                    f"and got {n}: name the dim in dynamic_shapes to let it differ"
                )
            dim = exported.dims[k].get(axis)
            name = dim.__name__ if isinstance(dim, Dim) else dim
            if isinstance(name, str) and sizes.setdefault(name, n) != n:
                raise ArgumentError(
                    f"{op}: dim {name} is {sizes[name]} in an argument and {n} in {label}"
                )
            if isinstance(dim, Dim) and not dim.min <= n <= (dim.max or n):
                raise ArgumentError(f"{op}: {n} is out of the bounds of {dim}")


def export(
    mod: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: Sequence[str] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The graph of a module or function, with plain `if`, `while` and `for` as branches and loops.

    args, kwargs: example arguments; types and sizes matter
    dynamic_shapes: as in PyTorch, per argument a dict from axis to Dim, Dim.AUTO or a name; dims
    left out are constants. Also a ShapesCollection or AdditionalInputs. None: all sizes may differ
    but those of 0 and 1

    Further arguments of PyTorch's are accepted and change nothing.  Raises ExploreError, with the
    user's line and the remedy, where the function has no static graph.
    """
    # Loading a program needs no explorer.
    from wend._frontend.static.explored import explored

    kwargs = dict(kwargs or {})
    if isinstance(args, Tensor) or not isinstance(args, (tuple, list)):
        raise ArgumentError("export: args is a tuple of the example arguments")
    free = dims = None
    further = None
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        further = dynamic_shapes
        dynamic_shapes = further.dynamic_shapes(mod, args, kwargs)
    if dynamic_shapes is not None:
        free, dims = free_extents(mod, args, kwargs, dynamic_shapes)
    program = explored(mod, args, kwargs, free=free)
    if dims is None:
        dims = [{} for _ in program.inputs]
    _check_named(program, dims)
    exported = ExportedProgram(program, dims, example_of(mod, args, kwargs))
    if isinstance(further, AdditionalInputs):
        further.verify(exported)
    return exported


def draft_export(
    mod: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    preserve_module_call_signature: tuple[str, ...] = (),
    strict: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The same as `export`: branches that depend on values are part of each graph.

    Raises ExploreError where the function has no static graph.
    """
    return export(mod, args, dict(kwargs or {}), dynamic_shapes=dynamic_shapes)


def default_decompositions() -> dict[Any, Any]:
    """The rules by which `run_decompositions` takes ops apart: none, an empty table."""
    return {}


def _check_named(program: StaticGraph, dims: list[dict[int, Any]]) -> None:
    """Raise ArgumentError where the function fixes a dim that was to differ."""
    wanted = {(n, a) for n, row in zip(program.inputs, dims, strict=True) for a in row}
    for (op, a, b), (outcome, site) in program.guards.items():
        if op != EQ or not outcome:
            continue
        for e, other in ((a, b), (b, a)):
            if type(e) is not tuple or e[0] != DIM or type(other) is tuple:
                continue
            if (e[1], e[2]) in wanted:
                raise ArgumentError(
                    f"export: dynamic_shapes lets dim {e[2]} of an argument differ, and "
                    f"the function fixes its size to {other} at {site}"
                )
