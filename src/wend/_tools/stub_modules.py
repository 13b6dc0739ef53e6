"""The stubs of packages and modules whose names are put there, or loaded, while a program runs."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Iterator
from types import ModuleType

from wend._engine.base.former_names import present_name
from wend._engine.core._hot import OpFunction
from wend._engine.core._indexing import PartsFunction
from wend._tools.stub_ops import Results, op_lines
from wend._tools.stub_python import python_function, written_out

__all__ = ["MODULES", "import_lines", "imported_names", "module_lines", "place_of"]

#: Public modules of this kind, and packages that only import: their modules are names too.
_MODULES = ("linalg", "special")
_PACKAGES = (
    "amp ao ao.nn ao.nn.intrinsic ao.nn.qat ao.nn.quantized ao.nn.quantized.dynamic autograd "
    "cpu.amp cuda.amp distributed.algorithms distributions func functional fx masked nn "
    "nn.functional nn.modules nn.parallel nn.utils optim signal utils utils.data "
    "utils.tensorboard"
).split()
#: Names of modules by the paths of their stubs.
MODULES = {
    **{f"{name}.pyi": f"wend.{name}" for name in _MODULES},
    **{f"{name.replace('.', '/')}/__init__.pyi": f"wend.{name}" for name in _PACKAGES},
}


def module_lines(name: str) -> tuple[list[str], list[str]]:
    """(imports, declarations) of the stub of a module."""
    module = importlib.import_module(name)
    for inner in vars(module).get("_WHEN_NAMED", ()):  # all are there, loaded by now or not
        getattr(module, inner)
    results, scope = Results(), name.removeprefix("wend.") + "."
    imported = dict(imported_names(module))
    declarations: list[str] = []
    submodules: dict[str, str] = {}
    for public, value in sorted(vars(module).items()):
        if public.startswith("_"):
            continue
        if isinstance(value, OpFunction):
            declarations.extend(op_lines(public, value, False, results, scope))
            imported.pop(public, None)
        elif inspect.isfunction(value) and written_out(public, value, scope):
            declarations.extend(python_function(public, value, "", scope))
            imported.pop(public, None)
        elif inspect.ismodule(value) and value.__name__.startswith("wend."):
            submodules[public] = value.__name__
            imported.pop(public, None)
        elif public not in imported and (
            inspect.isfunction(value) or isinstance(value, PartsFunction)
        ):
            function = value.plain if isinstance(value, PartsFunction) else value
            declarations.extend(python_function(public, function, "", scope))
    for _, inner, _ in pkgutil.iter_modules(getattr(module, "__path__", ())):
        if not inner.startswith("_") and inner not in imported:
            submodules.setdefault(inner, f"{name}.{inner}")
    for here, there in sorted(submodules.items()):
        imported[here] = place_of(there)
    return import_lines(imported), [*results.declarations(), *declarations]


def place_of(module: str) -> tuple[str, str]:
    """(package, last name) of a submodule, of the place where it is if it has two names."""
    package, _, last = (present_name(module) or module).rpartition(".")
    return package, last


def import_lines(imported: dict[str, tuple[str, str]]) -> list[str]:
    """Imports of names that the stub exports: {name: (module, name there)}.

    To type checkers only `import x as x` exports a name; another name is an assignment.
    """
    names = sorted(imported.items(), key=lambda item: (item[1], item[0]))
    same = [f"from {m} import {there} as {here}" for here, (m, there) in names if here == there]
    other = [(here, m, there) for here, (m, there) in names if here != there]
    return [
        *same,
        *(f"from {m} import {there} as _{there}" for _, m, there in other),
        *(f"{here} = _{there}" for here, _, there in other),
    ]


def imported_names(module: ModuleType) -> Iterator[tuple[str, tuple[str, str]]]:
    """(public name, (module, name there)) of everything that a module imports from Wend."""
    tree = ast.parse(inspect.getsource(module))
    blocks = [node.body if isinstance(node, ast.With) else [node] for node in tree.body]
    for node in itertools.chain.from_iterable(blocks):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("wend."):
            continue
        holder = str(node.module)
        for alias in node.names:
            name = alias.asname or alias.name
            if alias.name == "*":
                source = importlib.import_module(holder)
                for public in getattr(source, "__all__", _public(source)):
                    yield public, (holder, public)
            elif not name.startswith("_"):
                yield name, (holder, alias.name)
    for name, holder in vars(module).get("_ELSEWHERE", {}).items():
        if hasattr(importlib.import_module(holder), name):
            yield name, (holder, name)


def _public(module: ModuleType) -> list[str]:
    """The names that `from module import *` takes from a module without `__all__`."""
    return [n for n, value in vars(module).items() if n[0] != "_" and not inspect.ismodule(value)]
