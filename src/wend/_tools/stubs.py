"""Writes the stubs of C-level code and code made at run time: `python -m wend._tools.stubs`.

`core/_hot.pyi` and its like declare the parts of the core, with every method of Tensor;
`__init__.pyi` the functions of `wend` itself.  All are kept in the repository; a test compares them
with what this module gives.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import wend
from wend._engine.base.dtypes import DType
from wend._engine.core._hot import OpFunction, Tensor
from wend._engine.core._indexing import OpProperty, PartsFunction
from wend._engine.core._select import PARTS
from wend._tools.stub_core import Core
from wend._tools.stub_ops import HEADER, Results, first_line, op_lines

PACKAGE = Path(wend.__file__).resolve().parent

IMPORTS = """
import builtins as _builtins
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias, overload
"""
ALIASES = """
_bool: TypeAlias = _builtins.bool
_int: TypeAlias = _builtins.int
_float: TypeAlias = _builtins.float
_complex: TypeAlias = _builtins.complex
_str: TypeAlias = _builtins.str
_bytes: TypeAlias = _builtins.bytes
_dtype: TypeAlias = DType
_Number: TypeAlias = _builtins.bool | _builtins.int | _builtins.float | _builtins.complex
"""
#: Words that annotations of Python functions may use as they are; any other becomes Any.
KNOWN = {
    "Any": "Any",
    "Tensor": "Tensor",
    "None": "None",
    "bool": "_bool",
    "int": "_int",
    "float": "_float",
    "complex": "_complex",
    "str": "_str",
    "bytes": "_bytes",
    "DType": "_dtype",
    "Size": "_Size",
    "tuple": "tuple",
    "list": "list",
    "dict": "dict",
    "type": "_builtins.type",
    "object": "_builtins.object",
    "Sequence": "Sequence",
    "Iterator": "Iterator",
    "Callable": "Callable",
}


def core_stub(part: str) -> str:
    """The text of the stub of one part of the core."""
    results = Results()
    below = {} if part == "_types" else {"_types": Core("_types").classes()}
    if part not in ("_types", "_hot"):
        below["_hot"] = Core("_hot").classes()
    core = Core(part, frozenset().union(*below.values()))

    def members(name: str) -> list[str]:
        return list(_tensor_members(results)) if name == "Tensor" else []

    body = list(core.lines(members))
    text = "\n".join(body)
    imports = [
        f"from wend._engine.core.{module} import {', '.join(named)}"
        for module, classes in sorted(below.items())
        if (named := [name for name in sorted(classes) if re.search(rf"\b{name}\b", text)])
    ]
    lines = [
        HEADER.rstrip(),
        IMPORTS.rstrip(),
        "",
        "from wend._engine.base.devices import device as _device",
        "from wend._engine.base.dtypes import DType",
        "from wend._engine.base.shapes import Size",
        *imports,
        ALIASES.rstrip(),
        "_Size: TypeAlias = Size",
        "",
        *results.declarations(),
        *body,
    ]
    return "\n".join(lines) + "\n"


def _tensor_members(results: Results) -> Iterator[str]:
    """Members that upper layers and ops add to Tensor, by name."""
    native = _native_names()
    for name, value in sorted(vars(Tensor).items()):
        if name in native or getattr(value, "__name__", name) in native:  # or under another name
            continue
        primitive = getattr(value, "primitive", None)
        elementwise = primitive is not None and primitive.facts.elementwise
        if isinstance(value, OpFunction) and value.general and not elementwise:
            yield f"def {name}(self, *args: Any, **kwargs: Any) -> Tensor:"
            yield f"    {first_line(value)}"
        elif isinstance(value, OpFunction):
            yield from op_lines(name, value, True, results)
        elif isinstance(value, property):
            yield "@property"
            yield f"def {name}(self) -> {_returned(value.fget)}: ..."
            if value.fset is not None:
                yield f"@{name}.setter"
                yield f"def {name}(self, value: Any) -> None: ..."
        elif isinstance(value, classmethod):
            yield "@classmethod"
            yield from _python_function(name, value.__func__, "cls")
        elif inspect.isfunction(value):
            yield from _python_function(name, value)
        elif isinstance(value, PartsFunction):
            yield from _python_function(name, value.plain)
        elif isinstance(value, OpProperty):
            yield f"{name}: Tensor"


def _native_names() -> set[str]:
    """Members that the core's own class has."""
    tree = Core("_hot").tree
    node = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    fields = {name for name, _ in Core("_hot").fields["Tensor"]}
    return fields | {m.name for m in node.body if isinstance(m, ast.FunctionDef)}


def _python_function(name: str, function: Callable[..., Any], owner: str = "self") -> Iterator[str]:
    """A method written in Python, with the annotations that the stub can express."""
    parts = []
    starred = False
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        if p.kind is p.VAR_POSITIONAL:
            starred = True
        stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        first = not parts and not stars
        text = owner if first else f"{stars}{p.name}: {_annotation(p.annotation)}"
        if p.default is not p.empty and not first:
            simple = type(p.default) in (bool, int, float, str, type(None))
            text += f" = {p.default!r}" if simple else " = ..."
        parts.append(text)
    yield f"def {name}({', '.join(parts)}) -> {_returned(function)}:"
    line = (inspect.getdoc(function) or "").split("\n")[0].replace("\\", "\\\\")
    yield f'    """{line}"""' if line else "    ..."


def _returned(function: object) -> str:
    return _annotation(getattr(function, "__annotations__", {}).get("return", "Any"))


def _annotation(annotation: Any) -> str:
    """An annotation in the stub's words; Any for an annotation with a name that the stub lacks."""
    if not isinstance(annotation, str):
        annotation = (
            "Any"
            if annotation is inspect.Parameter.empty
            else getattr(annotation, "__name__", "Any")
        )
    words = set(re.findall(r"[A-Za-z_][\w.]*", annotation))
    if not words <= KNOWN.keys():
        return "Any"
    text = re.sub(r"[A-Za-z_][\w.]*", lambda match: KNOWN[match[0]], annotation)
    return re.sub(r"\b(Callable|Sequence|Iterator|list|dict|tuple)(?![\w\[])", _filled, text)


def _filled(match: re.Match[str]) -> str:
    """A generic type that was given without type parameters, with general ones."""
    more = {"Callable": "[..., Any]", "dict": "[Any, Any]", "tuple": "[Any, ...]"}
    return match[0] + more.get(match[0], "[Any]")


# -- the package ----------------------------------------------------------------------------


def package_stub() -> str:
    """The text of `wend/__init__.pyi`."""
    results = Results()
    imported = dict(_imports())
    ops: list[str] = []
    dtypes: list[str] = []
    for name, value in sorted(vars(wend).items()):
        if name.startswith("_") or name in imported:
            continue
        if isinstance(value, OpFunction):
            ops.extend(op_lines(name, value, False, results))
        elif isinstance(value, DType):
            dtypes.append(f"{name}: _dtype")
    names = sorted(imported.items(), key=lambda item: (item[1], item[0]))
    lines = [
        HEADER.rstrip(),
        IMPORTS.rstrip(),
        "",
        *(f"from {module} import {source} as {name}" for name, (module, source) in names),
        *(f"from wend import {name} as {name}" for name in _submodules()),
        "from wend._engine.base.dtypes import DType",
        ALIASES.rstrip(),
        "",
        "__version__: _str",
        *dtypes,
        "",
        *results.declarations(),
        *ops,
    ]
    return "\n".join(lines) + "\n"


def _imports() -> Iterator[tuple[str, tuple[str, str]]]:
    """(public name, (module, name there)) of everything that the package imports."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("wend."):
            continue
        module = str(node.module)
        for alias in node.names:
            name = alias.asname or alias.name
            if alias.name == "*":
                for public in importlib.import_module(module).__all__:
                    yield public, (module, public)
            elif not name.startswith("_"):
                yield name, (module, alias.name)
    for name, module in vars(wend)["_ELSEWHERE"].items():
        if hasattr(importlib.import_module(module), name):
            yield name, (module, name)


def _submodules() -> list[str]:
    """Public submodules that there are."""
    return sorted(
        n for n in vars(wend)["_LAZY"] if importlib.util.find_spec(f"wend.{n}") is not None
    )


STUBS: dict[str, Callable[[], str]] = {
    **{f"_engine/core/{part}.pyi": functools.partial(core_stub, part) for part in PARTS},
    "__init__.pyi": package_stub,
}


def main() -> None:
    """Write all stubs."""
    for path, text in STUBS.items():
        (PACKAGE / path).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
