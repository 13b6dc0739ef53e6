"""Programs as files: the code as text, and the state of all modules, in a checkpoint.

The file is one that `torch.save` writes, of plain containers and tensors: reading it runs no code.

    code       text by the name of a file of code     wide   whether Wend has written the text
    constants  of archives of PyTorch's               modules   the state of each, the root first
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from wend._engine.base.devices import device
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import FormatError
from wend._engine.core._hot import Tensor
from wend.jit._torchscript._classes import ArchiveClass
from wend.jit._torchscript._compiling import Code, Unit
from wend.jit._torchscript._lexing import parse
from wend.jit._torchscript._module import MACHINERY, ArchiveModule
from wend.jit._torchscript._ops import T
from wend.jit._torchscript._reading import known_number
from wend.jit._torchscript._translating import (
    HOOKS,
    ScriptRefused,
    Site,
    Translator,
    class_of,
    is_layer,
    path_of,
)
from wend.jit._torchscript._values import Number0d
from wend.jit._torchscript._wide import WideCompiler, find_function, parse_wide
from wend.nn.modules.module import Module
from wend.nn.parameter import Parameter

__all__ = ["MARK", "archive_content", "function_content", "module_content", "rebuilt"]

MARK = "wend_program"


def module_content(root: Module) -> dict[str, Any]:
    """The content of the file of a module of the user's.  Raises ScriptRefused."""
    translator = Translator()
    writer = StateWriter(lambda m, i: _kind_of(m, i, translator))
    writer.add(root)
    return _content(translator.texts, True, 10, (), writer.states)


def function_content(function: Any) -> dict[str, Any]:
    """The content of the file of a function of the user's.  Raises ScriptRefused."""
    translator = Translator()
    code = function.__code__
    site = Site(code.co_filename, code.co_firstlineno, function.__qualname__)
    name = translator.function(function, site)
    return _content(translator.texts, True, 10, (), []) | {"function": name}


def archive_content(root: ArchiveModule) -> dict[str, Any]:
    """The content of the file of a module that was loaded, with the present state."""
    unit: Unit = root._kind.unit
    writer = StateWriter(lambda m, i: m._kind.path if isinstance(m, ArchiveModule) else _layer(m))
    writer.add(root)
    constants = tuple(c.tensor() if isinstance(c, Number0d) else c for c in unit.constants)
    return _content(unit.texts, unit.wide, unit.version, constants, writer.states)


def _content(
    texts: Mapping[str, Any], wide: bool, version: int, constants: Any, modules: Any
) -> dict[str, Any]:
    code = {k: v if isinstance(v, str) else "\n".join(v) + "\n" for k, v in texts.items()}
    return {
        MARK: 1,
        "code": code,
        "wide": wide,
        "version": version,
        "constants": constants,
        "modules": modules,
    }


def _kind_of(module: Any, number: int, translator: Translator) -> str:
    if isinstance(module, ArchiveModule):
        raise ScriptRefused(
            "torch.jit.script: a part of the module was loaded from an archive; call the module "
            "once before it is saved, to save the graph"
        )
    return _layer(module) if is_layer(module) else translator.module(module, number)


def _layer(module: Module) -> str:
    """The name of a layer's class: `nn.Linear`, or with the module where `nn` lacks the name."""
    kind: Any = class_of(module)
    name: str = kind.__name__
    if getattr(T.nn, name, None) is kind:
        return f"nn.{name}"
    return f"{kind.__module__.partition('.')[2]}.{name}"


def _layer_class(path: str) -> Any:
    """The class of such a name.  Raises FormatError for anything but a layer of `torch.nn`."""
    where, _, name = path.rpartition(".")
    module: Any = T.nn if where == "nn" else sys.modules.get(f"{T.__name__}.{where}")
    kind: Any = None
    if where == "nn" or where.startswith("nn.modules."):
        kind = getattr(module, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Module)):
        raise FormatError(f"torch.jit.load: the file asks for the layer {path[:80]!r}")
    if not kind.__module__.startswith(f"{T.__name__}.nn.modules."):
        raise FormatError(f"torch.jit.load: the file asks for the layer {path[:80]!r}")
    return kind


class StateWriter:
    """Collects the states of modules, each once.

    kind_of: the name of a module's class, from (module, number)
    """

    def __init__(self, kind_of: Callable[[Any, int], str]) -> None:
        self.kind_of = kind_of
        self.states: list[dict[str, Any]] = []
        self.numbers: dict[int, int] = {}

    def add(self, module: Module) -> int:
        """The number of a module."""
        number = self.numbers.get(id(module))
        if number is not None:
            return number
        number = self.numbers[id(module)] = len(self.states)
        if any(getattr(module, hooks, None) for hooks in HOOKS):
            name = class_of(module).__name__
            raise ScriptRefused(f"torch.jit.script: {name} has hooks, which are not saved")
        state: dict[str, Any] = {}
        self.states.append(state)
        values = module._values if isinstance(module, ArchiveModule) else vars(module)
        functions: dict[str, str] = {}
        kept: dict[str, Any] = {}
        layer = isinstance(module, ArchiveModule) or is_layer(module)
        for name, value in values.items():
            tensors = (module._parameters, module._buffers, module._modules)
            if name in MACHINERY or any(name in table for table in tensors):
                continue
            path = path_of(value) if callable(value) and not isinstance(value, Module) else None
            if path is not None:
                functions[name] = path
            elif is_plain(value):
                kept[name] = value
            elif layer:
                raise ScriptRefused(
                    f"torch.jit.script: the attribute {name!r} of {class_of(module).__name__} is "
                    f"a {type(value).__name__}, which is not saved"
                )
        state.update(
            kind=self.kind_of(module, number),
            training=module.training,
            parameters=dict(module._parameters),
            buffers=dict(module._buffers),
            passing=sorted(module._non_persistent_buffers_set),
            values=kept,
            functions=functions,
            parts={
                name: None if part is None else self.add(part)
                for name, part in module._modules.items()
            },
        )
        return number


def is_plain(value: Any) -> bool:
    """Whether a value can be part of a file: numbers, texts, tensors, containers of these."""
    if value is None or isinstance(value, (int, float, complex, str, Tensor, DType, device)):
        return not isinstance(value, Module)
    if type(value) in (list, tuple, T.Size):
        return all(is_plain(v) for v in value)
    if type(value) is dict:
        return all(is_plain(k) and is_plain(v) for k, v in value.items())
    return False


# -- reading -------------------------------------------------------------------------------------


def rebuilt(content: Any, new_root: Callable[[ArchiveClass], Any]) -> Any:
    """The module or code of a file.  Raises FormatError for content that Wend cannot have written.

    new_root: makes the module whose state comes first
    """
    unit = _unit(content)
    if "function" in content:
        code = unit.find(_text(content["function"]))
        if not isinstance(code, Code):
            raise FormatError("torch.jit.load: the function of the file is none")
        return code
    states = content["modules"]
    if type(states) is not list or not states:
        raise FormatError("torch.jit.load: the file has no modules")
    modules = [_module(unit, state, None if i else new_root) for i, state in enumerate(states)]
    for module, state in zip(modules, states, strict=True):
        _fill(module, state, modules)
    return modules[0]


def _text(value: Any) -> str:
    if type(value) is not str or len(value) > 400:
        raise FormatError("torch.jit.load: a name of the file is no short text")
    return value


def _unit(content: Any) -> Unit:
    """The code of a file, all of which is read."""
    code, wide, version = (content.get(k) for k in ("code", "wide", "version"))
    constants = content.get("constants")
    plain = type(code) is dict and type(constants) is tuple and type(version) is int
    if not plain or not all(type(k) is str and type(v) is str for k, v in code.items()):
        raise FormatError("torch.jit.load: the file holds no program of Wend's")
    reading = parse_wide if wide else parse
    trees = {name: reading(text, name) for name, text in code.items()}
    known = tuple(known_number(c) for c in constants)
    unit = Unit(trees, known, version, WideCompiler if wide else None)
    unit.texts, unit.wide = dict(code), bool(wide)
    try:
        unit.find_all()
    except RecursionError as error:
        raise FormatError("torch.jit.load: an expression of the file is too deep") from error
    return unit


def _module(unit: Unit, state: Any, new_root: Callable[[ArchiveClass], Any] | None) -> Module:
    """A module without a state: of the program, or a layer of `torch.nn`."""
    if type(state) is not dict or type(state.get("kind")) is not str:
        raise FormatError("torch.jit.load: a module of the file has no class")
    path = state["kind"]
    if path.startswith("nn."):
        kind = _layer_class(path)
        layer: Module = kind.__new__(kind)
        Module.__init__(layer)
        return layer
    entry = unit.find(path)
    if not isinstance(entry, ArchiveClass) or entry.base != "Module":
        raise FormatError(f"torch.jit.load: {path[:80]!r} is no class of modules")
    return (new_root or ArchiveModule)(entry)


def _fill(module: Module, state: dict[str, Any], modules: list[Module]) -> None:
    """Put the state of a file into a module."""
    for key, kinds in FIELDS.items():
        if type(state.get(key)) is not kinds:
            raise FormatError(f"torch.jit.load: the field {key!r} of a module is not of its kind")
    for table in (state["parameters"], state["buffers"], state["parts"]):
        for name in table:
            _check_free(module, name)
    module.training = state["training"]
    for name, tensor in state["parameters"].items():
        if tensor is not None and type(tensor) is not Parameter:
            raise FormatError("torch.jit.load: a parameter of the file is none")
        module._parameters[_text(name)] = tensor
    for name, tensor in state["buffers"].items():
        if tensor is not None and not isinstance(tensor, Tensor):
            raise FormatError("torch.jit.load: a buffer of the file is no tensor")
        module._buffers[_text(name)] = tensor
    module._non_persistent_buffers_set.update(_text(n) for n in state["passing"])
    for name, number in state["parts"].items():
        if number is not None and not (type(number) is int and 0 <= number < len(modules)):
            raise FormatError("torch.jit.load: a part of a module is not there")
        part = None if number is None else modules[number]
        module._modules[_text(name)] = part
    place = module._values if isinstance(module, ArchiveModule) else module.__dict__
    for name, value in state["values"].items():
        _check_free(module, name)
        place[name] = value
    for name, path in state["functions"].items():
        _check_free(module, name)
        space = _text(path).split(".")
        function = find_function(space[1], space[2]) if len(space) == 3 else None
        if function is None:
            raise FormatError(f"torch.jit.load: the file asks for the function {path[:80]!r}")
        place[name] = function


FIELDS: dict[str, type] = {
    "training": bool,
    "parameters": dict,
    "buffers": dict,
    "passing": list,
    "values": dict,
    "functions": dict,
    "parts": dict,
}


def _check_free(module: Module, name: Any) -> None:
    """Raise FormatError for a name that a file may not set: machinery, methods of the class."""
    if isinstance(module, ArchiveModule):
        _text(name)
        return
    member = getattr(type(module), _text(name), None)
    method = isinstance(member, (types.FunctionType, property, classmethod))
    if name in MACHINERY or name.startswith("__") or method:
        raise FormatError(f"torch.jit.load: the file sets {name[:80]!r} of a layer")
