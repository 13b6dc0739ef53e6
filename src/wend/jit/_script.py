"""torch.jit.script and trace: the program itself, with a graph that can be printed and saved.

Wend compiles all programs, so a scripted function runs as ever, branches and all. The graph is
explored when somebody asks for the text or saves a file: from example inputs, or from the types of
the first call.
"""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import inspect
import io
import linecache
import os
import sys
import textwrap
import types
import typing
import zipfile
from collections.abc import Callable, Mapping
from typing import IO, Any, NamedTuple

from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError, FormatError, GraphError, NotImplementedInWend
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.transforms.exploring.program import Apply
from wend.export import ExportedProgram
from wend.export import export as explore
from wend.export import load as load_program
from wend.export import save as save_program
from wend.export._program import ProgramModule
from wend.jit._torchscript._module import ArchiveModule, run
from wend.jit._torchscript._programs import (
    MARK,
    archive_content,
    function_content,
    module_content,
    rebuilt,
)
from wend.jit._torchscript._reading import is_program, read_archive
from wend.nn.modules.module import Module
from wend.serialization import load as load_checkpoint
from wend.serialization import save as save_checkpoint

__all__ = [
    "Attribute",
    "CompilationUnit",
    "ScriptFunction",
    "ScriptModule",
    "export_opnames",
    "freeze",
    "load",
    "save",
    "script",
    "trace",
]

NO_EXAMPLE = (
    "the types of the arguments are not known: call the scripted {what} once, or give "
    "example_inputs"
)


class Attribute(NamedTuple):
    """A value with a type for readers; a field of a scripted module is the value alone."""

    value: Any
    type: Any


class _Scripted:
    """The part that functions and modules share: an example of the arguments, and the graph."""

    _example: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    def _target(self) -> Callable[..., Any]:
        raise NotImplementedError

    def exported(self) -> ExportedProgram:
        """The program as a static graph.  Raises GraphError before the types are known."""
        if self._example is None:
            what = "module" if isinstance(self, Module) else "function"
            raise GraphError("torch.jit: " + NO_EXAMPLE.format(what=what))
        args, kwargs = self._example
        return explore(self._target(), args, kwargs)

    @property
    def has_graph(self) -> bool:
        """Whether the types of arguments are known, so that `save` writes the graph."""
        return self._example is not None

    def _static_graph(self) -> Any:
        return self.exported().program

    @property
    def graph(self) -> Any:
        """The graph; printed, it shows ops, branches, loops and the user's lines."""
        return self.exported().graph

    inlined_graph = graph

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """The graph for the types of these arguments."""
        return explore(self._target(), args, kwargs).graph

    @property
    def code(self) -> str:
        """The graph as text; before the types are known, the program."""
        if not self.has_graph:
            return "\n".join(self.program_content()["code"].values())
        return str(self.graph)

    def program_content(self) -> dict[str, Any]:
        """The source and the state, as `save` writes these.  Raises GraphError with the line."""
        raise NotImplementedError

    def save(
        self, f: str | os.PathLike[str] | IO[bytes], _extra_files: Mapping[str, Any] | None = None
    ) -> None:
        """Write the graph with its tensors to a file: see `torch.jit.save`."""
        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Mapping[str, Any] | None = None) -> bytes:
        """The content of the file that `save` would write."""
        buffer = io.BytesIO()
        save(self, buffer, _extra_files)
        return buffer.getvalue()


class ScriptFunction(_Scripted):
    """A function that `script` or `trace` has taken."""

    def __init__(self, function: Callable[..., Any], example: Any = None) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._example = example

    def _target(self) -> Callable[..., Any]:
        return self._function

    def program_content(self) -> dict[str, Any]:
        """The source, as `save` writes the source."""
        return function_content(self._function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._example is None and _hot.current_trace().symbolic is None:
            self._example = _types_alone(args, kwargs)
        return self._function(*args, **kwargs)

    def __get__(self, owner: Any, cls: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __repr__(self) -> str:
        return f"<ScriptFunction {self._function!r}>"


class ScriptModule(_Scripted, Module):
    """A module that `script` or `trace` has taken: shares parameters and parts with the module."""

    def _target(self) -> Callable[..., Any]:
        return self

    def program_content(self) -> dict[str, Any]:
        """The source and the state, as `save` writes these."""
        return module_content(self)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.value if isinstance(value, Attribute) else value)

    def define(self, src: str) -> None:
        """Give the module a method, by its source: `def name(self, x): ...`.

        The source sees `torch` and the names of Python. Raises ArgumentError unless it is a `def`.
        """
        body = ast.parse(textwrap.dedent(src)).body
        if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
            raise ArgumentError("ScriptModule.define: the source must be a single `def`")
        names: dict[str, Any] = {"torch": importlib.import_module("wend")}
        exec(compile(ast.Module(body, []), "<ScriptModule.define>", "exec"), names)
        function = names[body[0].name]
        if body[0].name == "forward":
            subclass = type(type(self).__name__, (type(self),), {"forward": function})
            self.__class__ = subclass
        else:
            self.__dict__[body[0].name] = types.MethodType(function, self)

    def forward_magic_method(self, method_name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method with underscores. Raises NotImplementedError if the module lacks it."""
        method = getattr(self, method_name)
        if getattr(method, "__func__", None) == getattr(ScriptModule, method_name, None):
            raise NotImplementedInWend(f"ScriptModule: the module has no {method_name}")
        return method(*args, **kwargs)

    @property
    def original_name(self) -> str:
        """The name of the module's class."""
        return type(self).__name__

    @property
    def original_class(self) -> type:
        """The class of the module."""
        return next(c for c in type(self).__mro__ if c.__dict__.get("_scripts") is None)


@functools.cache
def _scripted_class(cls: Any) -> Any:
    """A class of modules that are scripted, below the class of the module."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._example is None and _hot.current_trace().symbolic is None:
            self.__dict__["_example"] = _types_alone(args, kwargs)
        return cls.forward(self, *args, **kwargs)

    forward.__doc__ = getattr(cls, "forward", forward).__doc__
    members = {"forward": forward, "_scripts": cls, "__module__": cls.__module__}
    return type(cls.__name__, (ScriptModule, cls), members)


def _scripted(module: Any, example: Any) -> Any:
    """A module that shares all parts, of a class that is scripted."""
    twin = copy.copy(module)
    kind: Any = type(module)
    twin.__class__ = _scripted_class(kind)
    twin.__dict__["_example"] = example
    for name, value in module.__dict__.items():
        if isinstance(value, Attribute):
            twin.__dict__[name] = value.value
    return twin


def _types_alone(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments with zeros in place of data: a scripted program keeps nobody's tensors."""
    leaves, structure = tree.flatten((args, kwargs))
    blanks: list[Any] = []
    for x in leaves:
        if isinstance(x, Tensor):
            type_ = _hot.refreshed(x).type
            if type_.kind is None:
                return None
            x = _Blank(type_)
        blanks.append(x)
    return _Example(blanks, structure)


class _Blank:
    """The type of a tensor."""

    __slots__ = ("type",)

    def __init__(self, type_: Any) -> None:
        self.type = type_

    def tensor(self) -> Tensor:
        """A tensor of the type: ones, as many programs divide."""
        from wend._frontend.creation import ones

        return ones(tuple(self.type.shape), dtype=self.type.dtype)


class _Example:
    """Types of arguments; unpacks as (args, kwargs)."""

    def __init__(self, leaves: list[Any], structure: Any) -> None:
        self.leaves, self.structure = leaves, structure

    def __iter__(self) -> Any:
        leaves = [x.tensor() if isinstance(x, _Blank) else x for x in self.leaves]
        return iter(tree.unflatten(self.structure, leaves))


# -- script and trace -----------------------------------------------------------------------


def script(obj: Any, *args: Any, example_inputs: Any = None, **options: Any) -> Any:
    """A function or module that can be printed and saved as a static graph, and runs as ever.

    example_inputs: a list of tuples of arguments, of which the first counts
    Classes, and what is scripted already, come back as they are.
    """
    if isinstance(obj, (type, _Scripted)):
        return obj
    example: Any = None
    if example_inputs is not None:
        rows = example_inputs
        if isinstance(rows, Mapping):
            rows = next(iter(rows.values()))
        example = (_as_tuple(next(iter(rows))), {})
    if isinstance(obj, Module):
        return _scripted(obj, example)
    if callable(obj):
        return ScriptFunction(obj, example)
    return obj


def trace(
    func: Any,
    example_inputs: Any = None,
    *args: Any,
    example_kwarg_inputs: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """As `script`, with example arguments.  Branches stay branches: nothing is frozen.

    example_inputs: a tuple of arguments, or a tensor.  PyTorch's checks of traces change nothing.
    Raises whatever the function raises for the example.
    """
    if example_inputs is None and example_kwarg_inputs is None:
        raise ArgumentError("torch.jit.trace: example_inputs is missing")
    inputs = () if example_inputs is None else _as_tuple(example_inputs)
    example = (inputs, dict(example_kwarg_inputs or {}))
    if isinstance(func, ScriptModule):
        func.__dict__["_example"] = example
        return func
    if isinstance(func, Module):
        return _scripted(func, example)
    if inspect.ismethod(func) and isinstance(func.__self__, Module):
        return ScriptFunction(func, example)
    return ScriptFunction(getattr(func, "_function", func), example)


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def export_opnames(m: Any) -> list[str]:
    """The names of the ops in a scripted program's graph, in order.  Raises GraphError before the
    types are known."""
    if not isinstance(m, _Scripted):
        raise ArgumentError("torch.jit.export_opnames: takes what torch.jit.script or trace gave")
    stretches = m.exported().program.stretches()
    items = [x for _, _, stretch in stretches for x in stretch.items]
    return sorted({x.prim.name for x in items if isinstance(x, Apply)})


class CompilationUnit:
    """Functions from a text of Python, each an attribute that is scripted.

    The text runs as Python, with `torch` and the names of `typing`: take no text from others.
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self._functions: dict[str, ScriptFunction] = {}
        if lang is not None:
            self.define(lang)

    def define(self, lang: str, rcb: Any = None) -> None:
        """Add the functions of a text."""
        text = textwrap.dedent(lang)
        file = f"<compilation unit {len(linecache.cache)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)  # for errors
        package = __name__.partition(".")[0]
        space: dict[str, Any] = {**vars(typing), "torch": sys.modules[package], "Tensor": Tensor}
        before = set(space)
        exec(compile(text, file, "exec"), space)
        for name, value in space.items():
            if name not in before and inspect.isfunction(value):
                self._functions[name] = script(value)

    def get_functions(self) -> list[ScriptFunction]:
        """All functions."""
        return list(self._functions.values())

    def find_function(self, name: str) -> ScriptFunction | None:
        """A function, or None."""
        return self._functions.get(name)

    def __getattr__(self, name: str) -> ScriptFunction:
        function = self.__dict__.get("_functions", {}).get(name)
        if function is None:
            raise AttributeError(f"CompilationUnit has no attribute {name!r}")
        return function  # type: ignore[no-any-return]


# -- files ----------------------------------------------------------------------------------


def save(
    m: Any, f: str | os.PathLike[str] | IO[bytes], _extra_files: Mapping[str, Any] | None = None
) -> None:
    """Write a scripted function or module to a file, with its tensors.

    After a first call, or from example inputs, the file has the graph, as `torch.export.save` does.
    Before, the file has the program: the source of the methods, with the types that annotations
    say; arguments without an annotation are tensors. All sizes are then free.

    _extra_files: names and texts that are kept beside
    Raises ArgumentError for something that is not scripted, GraphError with the line for a program
    that has no place in a file.
    """
    if not isinstance(m, _Scripted):
        raise ArgumentError(
            f"torch.jit.save: takes what torch.jit.script or trace returned, not a "
            f"{type(m).__name__}"
        )
    extra = {}
    for name, content in (_extra_files or {}).items():
        extra[name] = content.decode("latin-1") if isinstance(content, bytes) else str(content)
    if not m.has_graph:
        save_checkpoint(m.program_content() | {"extra": extra}, f)
    else:
        save_program(m.exported(), f, extra_files=extra)


class Loaded(ProgramModule, ScriptModule):
    """A graph from a file, as a module."""

    @property
    def has_graph(self) -> bool:
        """True."""
        return True

    def exported(self) -> ExportedProgram:
        """The program."""
        return self._exported


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """The program in a file of `torch.jit.save`, Wend's or PyTorch's, as a module.

    The module runs, and trains. The code of PyTorch's archive is read as data, and interpreted.
    map_location: where tensors of PyTorch's archive go, as in `torch.load`
    _extra_files: the texts of the file are put in for the names that it has
    Raises FormatError for other files, and for archives that PyTorch cannot have written.
    """
    if zipfile.is_zipfile(f):
        return _from_archive(f, map_location, _extra_files)
    if not isinstance(f, (str, os.PathLike)):
        f.seek(0)
    extra: dict[str, str] = {}
    program = Loaded(load_program(f, extra_files=extra))
    for name in _extra_files or {}:
        if name in extra:
            _extra_files[name] = extra[name].encode("latin-1")  # type: ignore[index]
    return program


class LoadedArchive(ArchiveModule, ScriptModule):
    """The module of an archive that PyTorch has written, or of a program."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the archive's `forward`."""
        if self._example is None and _hot.current_trace().symbolic is None:
            self.__dict__["_example"] = _types_alone(args, kwargs)
        return super().forward(*args, **kwargs)

    def program_content(self) -> dict[str, Any]:
        """The code of the archive, with the present state."""
        return archive_content(self)

    @property
    def code(self) -> str:
        """The code of the archive."""
        texts: dict[str, str] = self._kind.unit.texts
        return "\n".join(texts.values())

    @property
    def has_graph(self) -> bool:
        """False: a file keeps the code, with all methods."""
        return False


class LoadedFunction(ScriptModule):
    """A function of a file, as a module."""

    def __init__(self, code: Any, content: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__["_code"], self.__dict__["_content"] = code, content

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function."""
        if self._example is None and _hot.current_trace().symbolic is None:
            self.__dict__["_example"] = _types_alone(args, kwargs)
        return run(self.__dict__["_code"], [], args, kwargs)

    def program_content(self) -> dict[str, Any]:
        """The source, as it was read."""
        return self.__dict__["_content"]  # type: ignore[no-any-return]


def _from_archive(f: Any, map_location: Any, extra: dict[str, Any] | None) -> Any:
    """The module in an archive of PyTorch's TorchScript."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _from_archive(file, map_location, extra)
    f.seek(0)
    if is_program(f):
        return _from_program(f, map_location, extra)
    root = read_archive(f, map_location, extra)
    root.__class__ = LoadedArchive
    return root


def _from_program(f: Any, map_location: Any, extra: dict[str, Any] | None) -> Any:
    """The module or function of a file with the source."""
    try:
        content = load_checkpoint(f, map_location=map_location, weights_only=True)
    except FormatError as error:
        raise FormatError(
            f"torch.jit.load: the file is no program, but a checkpoint: use torch.load ({error})"
        ) from error
    if type(content) is not dict or content.get(MARK) != 1:
        raise FormatError("torch.jit.load: the file is a checkpoint: use torch.load")
    texts = content.get("extra")
    for name in extra or {}:
        if type(texts) is dict and type(texts.get(name)) is str:
            extra[name] = texts[name].encode("latin-1")  # type: ignore[index]
    program = rebuilt(content, LoadedArchive)
    if not isinstance(program, Module):
        return LoadedFunction(program, content)
    return program if isinstance(program, LoadedArchive) else _scripted(program, None)


# -- frozen modules -------------------------------------------------------------------------


class Frozen(ScriptModule):
    """A module whose parameters are constants."""

    def __init__(self, module: Any, preserved: list[str]) -> None:
        super().__init__()
        inner = copy.deepcopy(module)
        for p in inner.parameters():
            p.requires_grad_(False)
        self.__dict__["_inner"] = inner
        self.__dict__["_example"] = module._example
        for name in preserved:
            self.__dict__[name] = getattr(inner, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the module."""
        return self.__dict__["_inner"](*args, **kwargs)

    def _target(self) -> Callable[..., Any]:
        return self.__dict__["_inner"]  # type: ignore[no-any-return]


def freeze(
    mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True
) -> Any:
    """A copy of a scripted module in evaluation mode, whose parameters are constants.

    preserved_attrs: names of attributes that the copy keeps
    Raises RuntimeError for a module that is not scripted, or is training.
    """
    if not isinstance(mod, ScriptModule):
        raise GraphError("Freezing expects a ScriptModule as input. Please use torch.jit.script")
    if mod.training:
        raise GraphError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() "
            "on your module before freezing."
        )
    return Frozen(mod, list(preserved_attrs or []))


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The frozen module: Wend compiles all programs."""
    return mod if isinstance(mod, Frozen) else freeze(mod)


class TracerWarning(Warning):
    """PyTorch's warning about traces; Wend gives none."""
