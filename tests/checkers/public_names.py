"""Programs that name every public name there is, for type checkers to look up."""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType

import wend

#: Modules without an underscore that are no part of the public surface.
LEFT_OUT = ("wend.__main__", "wend.onnx.exporting", "wend.onnx.importing")


def submodules(package: ModuleType) -> Iterator[tuple[str, bool]]:
    """(name, whether this is a package) of the public modules right below a package."""
    for _, name, is_package in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if not name.rpartition(".")[2].startswith("_") and name not in LEFT_OUT:
            yield name, is_package


def public_modules(package: ModuleType = wend) -> Iterator[ModuleType]:
    """`wend` and all modules without an underscore in the name that can be imported."""
    yield package
    for name, is_package in submodules(package):
        module = importlib.import_module(name)
        if is_package:
            yield from public_modules(module)
        else:
            yield module


def names_of(module: ModuleType) -> list[str]:
    """The names of `__all__`, or else of the functions and classes that a module defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if not name.startswith("_")]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or callable(value))
        and getattr(value, "__module__", "") == module.__name__
    ]


def wend_names() -> list[str]:
    """The names of `wend` itself, those that load when first used included."""
    here = {n for n, v in vars(wend).items() if not inspect.ismodule(v) and n != "annotations"}
    names = sorted(here | set(wend._ELSEWHERE) | set(wend._LAZY))
    return [n for n in names if not n.startswith("_") and n != "Any" and hasattr(wend, n)]


def by_attributes() -> list[str]:
    """Lines of a program that imports `wend` alone, and goes on to all modules from there.

    To be asked in a process that has imported nothing else of Wend.
    """
    return ["import wend", *(f"wend.{name}" for name in wend_names()), *_attributes(wend)]


def _attributes(package: ModuleType) -> Iterator[str]:
    for name, is_package in submodules(package):
        module = getattr(package, name.rpartition(".")[2], None)
        if inspect.ismodule(module) and module.__name__ == name:
            yield name
            if is_package:
                yield from _attributes(module)


def by_imports() -> list[str]:
    """Lines of a program that imports each public name of each module."""
    lines = []
    for module in public_modules():
        if module is not wend:
            names = names_of(module)
            lines.extend(f"from {module.__name__} import {n} as _" for n in names)
    return [f"{line}{i}" for i, line in enumerate(lines)]


if __name__ == "__main__":
    print("\n".join({"by_attributes": by_attributes, "by_imports": by_imports}[sys.argv[1]]()))
