"""torch.onnx.export: functions and modules, control flow included, as ONNX files."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError, NotImplementedInWend
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.transforms.exploring.program import Draw, Fail, StaticGraph
from wend._frontend.autograd.grad_modes import no_grad
from wend._frontend.static.proof import Refused, close, first_difference, run_to_the_end
from wend.export import ExportedProgram
from wend.export import export as explore
from wend.nn.modules.container import ModuleDict, ModuleList
from wend.onnx.exporting.functions import fold_modules
from wend.onnx.exporting.program import ProgramWriter
from wend.onnx.exporting.values import UnsupportedOperatorError

if TYPE_CHECKING:
    from onnx import ModelProto


__all__ = ["ONNXProgram", "OnnxExporterError", "export"]

OPSETS = range(18, 25)
DEFAULT_OPSET = 21


class OnnxExporterError(UnsupportedOperatorError):
    """A model could not be written, or computes something else."""


class ONNXProgram:
    """An ONNX model and the program behind.

    model_proto: the model     report: assumptions, and errors left out, as text
    compared: the shapes of the inputs at which onnxruntime has computed what the program computes
    """

    def __init__(
        self,
        model: ModelProto,
        exported: ExportedProgram,
        report: str,
        compared: list[list[tuple[int, ...]]],
    ) -> None:
        self.model_proto = model
        self.exported_program = exported
        self.report = report
        self.compared = compared

    def save(
        self,
        destination: str | os.PathLike[str] | IO[bytes],
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the model to a file; external_data: weights in a second file, NAME.data.

        destination: a path, or a file or buffer that is open for writing bytes

        Raises NotImplementedInWend for a model without its weights, or with weights as inputs, and
        ArgumentError for external_data without a path.
        """
        if not include_initializers or keep_initializers_as_inputs:
            raise NotImplementedInWend(
                "onnx.ONNXProgram.save: weights are always part of the model, and no inputs; leave "
                "include_initializers and keep_initializers_as_inputs out"
            )
        import onnx

        if not external_data:
            onnx.save_model(self.model_proto, destination)
            return
        path = _path(destination, "external_data")
        data = os.path.basename(path) + ".data"
        whole = os.path.join(os.path.dirname(path), data)
        if os.path.exists(whole):
            os.remove(whole)  # the library appends
        onnx.save_model(
            self.model_proto,
            path,
            save_as_external_data=True,
            all_tensors_to_one_file=True,
            location=data,
            size_threshold=1024,
            convert_attribute=True,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The results of onnxruntime for these arguments.  Raises ImportError without this."""
        from wend._frontend.creation import as_tensor

        program = self.exported_program.program
        leaves = tree.leaves((args, kwargs))
        tensors = [x for i, x in enumerate(leaves) if i not in program.constants]
        return [as_tensor(x) for x in _Session(self.model_proto).run(tensors)]


class _Session:
    """Runs a model in onnxruntime."""

    def __init__(self, model: ModelProto) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        self.names = [i.name for i in model.graph.input]
        self.used = {i.name for i in self.session.get_inputs()}

    def run(self, tensors: Sequence[Tensor]) -> list[Any]:
        """The results, as arrays."""
        rows = zip(self.names, tensors, strict=True)
        feeds = {n: _hot.ensure(_hot.refreshed(x)) for n, x in rows if n in self.used}
        results: list[Any] = self.session.run(None, feeds)
        return results


def export(
    model: Callable[..., Any] | ExportedProgram,
    args: Any = (),
    f: str | os.PathLike[str] | IO[bytes] | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = False,
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    export_modules_as_functions: bool | Collection[type] = False,
    report: bool = False,
    verify: bool = True,
    **options: Any,
) -> ONNXProgram:
    """Write a module, function or ExportedProgram as an ONNX model.

    f: the path of the file, or an open file or buffer, if the model is to be written
    args, kwargs: example arguments (a tensor alone counts as a tuple)
    opset_version: 18 to 24, by default 21
    dynamic_shapes: as in `torch.export.export`     dynamic_axes: as in PyTorch, by names of inputs
    external_data: weights in a second file
    export_modules_as_functions: make each module's call a call of a function, which modules of a
    class with equal bodies share; or the classes whose calls are to be functions
    report: write the report beside the model, as NAME.md
    verify: run the model in onnxruntime, if that is installed, at three sizes, and compare

    Without dynamic_shapes and dynamic_axes, all sizes may differ but those of 0 and 1.
    A module is exported in evaluation mode, and keeps the mode.  `if`, `while` and `for` become
    If and Loop.  Further options of PyTorch's are accepted and change nothing.

    Raises ImportError without the `onnx` package, and ExploreError where there is no static graph.
    Raises UnsupportedOperatorError for an op that ONNX lacks, and OnnxExporterError where a
    comparison finds a difference, and ArgumentError for report or external_data without a path.
    """
    import onnx

    opset = DEFAULT_OPSET if opset_version is None else opset_version
    if opset not in OPSETS:
        raise ArgumentError(f"onnx.export: opset_version is 18 to 24, not {opset_version}")
    if f is not None and report:
        _path(f, "report")
    example_args = (args,) if isinstance(args, Tensor) else tuple(args)
    kwargs = dict(kwargs or {})
    names = list(input_names or [])
    if dynamic_axes is not None and dynamic_shapes is None:
        dynamic_shapes = _from_axes(model, example_args, kwargs, names, dynamic_axes)
    exported = _explored(model, example_args, kwargs, dynamic_shapes)
    program = exported.program
    names += _argument_names(model, example_args, kwargs, program)[len(names) :]
    writer = ProgramWriter(program, opset, names, list(output_names or []), exported.named_dims())
    proto = writer.model()
    if export_modules_as_functions and hasattr(model, "named_modules"):
        fold_modules(proto, _kinds(model, export_modules_as_functions))
    onnx.checker.check_model(proto, full_check=True)
    text = _report(exported, writer, proto)
    compared: list[list[tuple[int, ...]]] = []
    if verify and not isinstance(model, ExportedProgram):
        compared = _verify(proto, exported, tree.leaves((example_args, kwargs)))
    onnx_program = ONNXProgram(proto, exported, text, compared)
    if f is not None:
        onnx_program.save(f, external_data=external_data)
        if report:
            name = os.path.splitext(_path(f, "report"))[0] + ".md"
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)
    return onnx_program


def _path(destination: str | os.PathLike[str] | IO[bytes], option: str) -> str:
    """The path of the model's file, which an option needs for a file beside."""
    if not isinstance(destination, (str, os.PathLike)):
        raise ArgumentError(
            f"onnx.export: {option} writes a second file beside the model, so the model's file is "
            f"given as a path, not as a {type(destination).__name__}"
        )
    return os.fspath(destination)


def _explored(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any
) -> ExportedProgram:
    """The program of a model in evaluation mode."""
    if isinstance(model, ExportedProgram):
        return model
    training = [m for m in model.modules() if m.training] if hasattr(model, "modules") else []
    for module in training:
        module.training = False
    try:
        with no_grad():
            return explore(model, args, kwargs, dynamic_shapes=shapes)
    finally:
        for module in training:
            module.training = True


def _kinds(model: Any, chosen: bool | Collection[type]) -> dict[str, tuple[str, str]]:
    """By path, the domain and name of the function of a module: its class's module and name."""
    return {
        path: (type(module).__module__, type(module).__qualname__.replace(".<locals>", ""))
        for path, module in model.named_modules()
        if (chosen is True or type(module) in chosen)  # type: ignore[operator]
        and not isinstance(module, (ModuleDict, ModuleList))
    }


def _argument_names(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], program: StaticGraph
) -> list[str]:
    """A name per tensor among the arguments, by the function's signature."""
    target = getattr(model, "forward", model)
    try:
        params = list(inspect.signature(target).parameters)
    except (TypeError, ValueError):  # a callable without a signature has no names of arguments
        params = []
    names: list[str] = []
    for k, x in enumerate([*args, *kwargs.values()]):
        n = sum(isinstance(leaf, Tensor) for leaf in tree.leaves(x))
        name = list(kwargs)[k - len(args)] if k >= len(args) else ""
        name = name or (params[k] if k < len(params) else f"input_{k}")
        names += [name] if n == 1 else [f"{name}_{i}" for i in range(n)]
    names += [f"input_{k}" for k in range(len(names), len(program.inputs))]
    for k, name in enumerate(names):
        if name in names[:k]:
            names[k] = f"{name}_{k}"
    return names


def _from_axes(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    names: list[str],
    axes: Mapping[str, Any],
) -> tuple[dict[int, str], ...]:
    """dynamic_shapes from dynamic_axes."""
    tensors = tree.leaves((args, kwargs))
    if any(not isinstance(x, Tensor) for x in args) or kwargs:
        raise ArgumentError("onnx.export: dynamic_axes needs tensors as arguments: dynamic_shapes")
    known = [*names]
    if len(known) < len(tensors):
        target = getattr(model, "forward", model)
        known += list(inspect.signature(target).parameters)[len(known) : len(tensors)]
    shapes = []
    for name in known[: len(tensors)]:
        entry = axes.get(name, {})
        if not isinstance(entry, Mapping):
            entry = {axis: f"{name}_{axis}" for axis in entry}
        shapes.append({int(axis): str(dim) for axis, dim in entry.items()})
    return tuple(shapes)


def _verify(
    proto: ModelProto, exported: ExportedProgram, leaves: list[Any]
) -> list[list[tuple[int, ...]]]:
    """Compare the model with the program at three sizes, 1 included, where onnxruntime is there.

    Returns the shapes of the inputs that were compared.
    """
    try:
        session = _Session(proto)
    except ImportError:  # onnxruntime is not installed: the model is only checked
        return []
    program = exported.program
    captured = {c.id: c.tensor for c in program.captured}
    if any(isinstance(i, Draw) for _, _, s in program.stretches() for i in s.items):
        return []  # streams of random numbers differ
    shapes: list[list[tuple[int, ...]]] = []

    def compared(inputs: list[Any]) -> str | None:
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        try:
            results = tree.leaves(run_to_the_end(program, [x.clone() for x in tensors], captured))
            wanted = [
                np.asarray(_hot.ensure(_hot.refreshed(x)) if isinstance(x, Tensor) else x)
                for x in results
            ]
        except Refused:
            raise
        except Exception as error:
            raise Refused from error
        try:
            outputs = session.run(tensors)
        except Exception as error:
            if inputs is not leaves:
                raise Refused from error  # the file refuses sizes that the program takes
            raise OnnxExporterError(
                f"onnx.export: onnxruntime refuses the model of {program.name} for the example: "
                f"{str(error)[:300]}"
            ) from error
        for k, (a, b) in enumerate(zip(outputs, wanted)):
            if a.shape != b.shape or not close(np.asarray(a), b):
                return f"result {k}, for sizes {[tuple(x.shape) for x in tensors]}"
        shapes.append([tuple(x.shape) for x in tensors])
        return None

    try:
        difference = compared(leaves)
    except Refused:  # the program raises an error for the example: there is nothing to compare
        return []  # the program raises an error for the example
    difference = difference or first_difference(program, leaves, (1, None), compared)
    if difference is not None:
        raise OnnxExporterError(
            f"onnx.export: {program.name} computes another value in onnxruntime: {difference}"
        )
    return shapes


def _report(exported: ExportedProgram, writer: ProgramWriter, proto: ModelProto) -> str:
    """The assumptions, and errors left out."""
    program = exported.program
    rows = [f"# {program.name}", "", f"{len(proto.graph.node)} nodes, opset {writer.writer.opset}."]
    if program.guards:
        rows += ["", "Holds for sizes with:", ""]
        rows += [
            f"- {line.strip()}" for line in str(exported).splitlines() if "    require" in line
        ]
    ends = [
        s.end
        for point in program.points
        for s in point.answers
        if point.question is not None and point.question[0] == "value"
    ]
    errors = [str(end.error) for end in ends if isinstance(end, Fail)]
    if errors:
        rows += ["", "Errors of the program that the model does not raise:", ""]
        rows += [f"- {text}" for text in dict.fromkeys(errors)]
    if writer.n_results < len(proto.graph.output):
        rows += ["", "New values of buffers are further outputs, after the results."]
    return "\n".join(rows) + "\n"
