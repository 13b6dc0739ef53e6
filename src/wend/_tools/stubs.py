"""Writes the stubs of C-level code and code made at run time: `python -m wend._tools.stubs`.

`core/_hot.pyi` and its like declare the parts of the core, with every method of Tensor;
`__init__.pyi` the functions of `wend` itself; `stub_modules` has the list of other modules.  All
are kept in the repository; a test compares them with the texts that this module makes.
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

import wend
from wend._engine.base.dtypes import AbsentDType, DType
from wend._engine.core._hot import OpFunction, Tensor
from wend._engine.core._indexing import OpProperty, PartsFunction
from wend._engine.core._select import PARTS
from wend._tools.stub_core import Core
from wend._tools.stub_modules import MODULES, import_lines, imported_names, module_lines, place_of
from wend._tools.stub_ops import HEADER, Results, op_lines
from wend._tools.stub_python import NAMED_RESULTS, python_function, returned, written_out

PACKAGE = Path(wend.__file__).resolve().parent

IMPORTS = """
import builtins as _builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, SupportsIndex, TypeAlias, TypeVar
from typing import overload
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
#: Classes of the front end that declarations of methods name; `core/_hot.pyi` alone needs them.
FRONTEND = """
import numpy as _numpy
from wend._frontend.autograd.nodes import Node as _Node
{results}
from wend._frontend.formats import layout as _layout, memory_format as _memory_format
from wend._frontend.random import Generator as _Generator
from wend._frontend.removable import RemovableHandle as _RemovableHandle
from wend._frontend.storage import TypedStorage as _TypedStorage
from wend._frontend.storage import UntypedStorage as _UntypedStorage

_Array: TypeAlias = _numpy.ndarray[Any, Any]
_Index: TypeAlias = (
    None | SupportsIndex | slice | EllipsisType | Tensor | _builtins.list[Any] | range
)
""".format(
    results="\n".join(
        f"from wend._frontend.linalg.named_results import {name} as _{name}"
        for name in NAMED_RESULTS
    )
)

#: Modules are called with the arguments of their `forward`, and have its result.
FORWARD = """
_P = ParamSpec("_P")
_R = TypeVar("_R", covariant=True)

class _Forward(Protocol[_P, _R]):
    def forward(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
"""


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
        *(FRONTEND.splitlines() if part == "_hot" else ()),
        *(FORWARD.splitlines() if part == "_modules" else ()),
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
        if isinstance(value, OpFunction):
            yield from op_lines(name, value, True, results)
        elif isinstance(value, property):
            yield "@property"
            yield f"def {name}(self) -> {returned(value.fget)}: ..."
            if value.fset is not None:
                yield f"@{name}.setter"
                yield f"def {name}(self, value: Any) -> None: ..."
        elif isinstance(value, classmethod):
            yield "@classmethod"
            yield from python_function(name, value.__func__, "cls")
        elif isinstance(value, staticmethod):
            yield "@staticmethod"
            yield from python_function(name, value.__func__)
        elif inspect.isfunction(value):
            yield from python_function(name, value, "self")
        elif isinstance(value, PartsFunction):
            yield from python_function(name, value.plain, "self")
        elif isinstance(value, OpProperty):
            yield f"{name}: Tensor"


def _native_names() -> set[str]:
    """Members that the core's own class has."""
    tree = Core("_hot").tree
    node = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    fields = {name for name, _ in Core("_hot").fields["Tensor"]}
    return fields | {m.name for m in node.body if isinstance(m, ast.FunctionDef)}


# -- the package ----------------------------------------------------------------------------


def package_stub() -> str:
    """The text of `wend/__init__.pyi`."""
    results = Results()
    imported = dict(imported_names(wend))
    ops: list[str] = []
    dtypes: list[str] = []
    for name, value in sorted(vars(wend).items()):
        if name.startswith("_") or name in vars(wend)["_ELSEWHERE"]:
            continue
        if name in imported and not written_out(name, value):
            continue
        imported.pop(name, None)
        if isinstance(value, OpFunction):
            ops.extend(op_lines(name, value, False, results))
        elif isinstance(value, DType | AbsentDType):
            dtypes.append(f"{name}: _dtype")
        elif isinstance(value, PartsFunction):
            ops.extend(python_function(name, value.plain))
        elif inspect.isfunction(value):
            ops.extend(python_function(name, value))
    for name in _submodules():
        imported[name] = place_of(f"wend.{name}")
    lines = [
        HEADER.rstrip(),
        IMPORTS.rstrip(),
        "",
        *import_lines(imported),
        "from wend._engine.base.devices import device as _device",
        "from wend._engine.base.dtypes import DType",
        "from wend._engine.base.shapes import Size as _Size",
        ALIASES.rstrip(),
        *FRONTEND.splitlines(),
        "",
        "__version__: _str",
        *dtypes,
        "",
        *results.declarations(),
        *ops,
    ]
    return "\n".join(lines) + "\n"


def module_stub(name: str) -> str:
    """The text of the stub of a module of ops."""
    imports, declarations = module_lines(name)
    lines = [HEADER.rstrip(), *imports]
    if declarations:
        lines[1:1] = [IMPORTS.rstrip(), ""]
        lines += [
            "from wend._engine.base.devices import device as _device",
            "from wend._engine.base.dtypes import DType",
            "from wend._engine.core._hot import Tensor as Tensor",
            ALIASES.rstrip(),
            *FRONTEND.splitlines(),
            "",
            *declarations,
        ]
    return "\n".join(lines) + "\n"


def _submodules() -> list[str]:
    """Public submodules that there are."""
    return sorted(
        n for n in vars(wend)["_LAZY"] if importlib.util.find_spec(f"wend.{n}") is not None
    )


STUBS: dict[str, Callable[[], str]] = {
    **{f"_engine/core/{part}.pyi": functools.partial(core_stub, part) for part in PARTS},
    "__init__.pyi": package_stub,
    **{path: functools.partial(module_stub, name) for path, name in MODULES.items()},
}


def main() -> None:
    """Write all stubs."""
    for path, text in STUBS.items():
        (PACKAGE / path).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
