"""Names that modules had before the engine became private: pickles written then still load.

`wend.core._hot` is `wend._engine.core._hot` today. A finder answers for the old name with today's
module. The finder is asked first: others would load `wend.core._hot` anew from the folder of
`wend.core`, which is the package of today under its old name. No attribute of `wend` leads there.

Finder and loader have the methods that the import system calls, and no base class: `importlib.abc`
loads thirty modules.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

#: Old name of a package or module: today's.
FORMER: Final = {
    **{
        f"wend.{layer}": f"wend._engine.{layer}"
        for layer in ("base", "core", "ops", "transforms", "compiler", "runtime")
    },
    "wend.frontend": "wend._frontend",
    **{
        f"wend.frontend.{name}": f"wend._frontend.public.{name}"
        for name in ("checks", "complexes", "fourier", "functions", "spectrograms")
    },
    "wend.tools": "wend._tools",
    "wend._torch_ops": "wend.ops",
    "wend._compiler": "wend.compiler",
    "wend.quantization": "wend.ao.quantization",  # PyTorch has both names
    **{f"wend.nn.{name}": f"wend.ao.nn.{name}" for name in ("quantized", "intrinsic", "qat")},
}
#: Packages of today that bear an old name: only modules inside have moved.
_TAKEN: Final = frozenset({"wend.ops", "wend.compiler"})


def present_name(name: str) -> str | None:
    """Return the name of today of a module that has moved, or None."""
    if not name.startswith("wend."):
        return None
    if name in _TAKEN:
        return None
    old, inside = name, ""
    while old not in FORMER:
        old, dot, last = old.rpartition(".")
        if not dot:
            return None
        inside = f".{last}{inside}"
    return FORMER[old] + inside


class _Present:
    """Puts a module of today under its old name too."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # The import system takes the module from sys.modules then, and drops the one just made.
        sys.modules[module.__name__] = self.module


class FormerNames:
    """Answers for the old name of a module."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        present = present_name(name)
        if present is None:
            return None
        try:
            module = importlib.import_module(present)
        except ModuleNotFoundError as error:
            if error.name != present:
                raise
            return None  # the old name is reported as missing
        loader = _Present(module)
        is_package = hasattr(module, "__path__")
        return ModuleSpec(name, loader, is_package=is_package)  # type: ignore[arg-type]
