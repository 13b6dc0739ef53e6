"""Texts about a part of PyTorch that Wend does not have: the full name, and names near it."""

from __future__ import annotations

import functools
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType

from wend._engine.base.former_names import present_name
from wend._engine.base.modules import PRIVATE


def is_internal(name: str, package: str) -> bool:
    """Whether `package.x.y` belongs to Wend's private packages, not to the public names."""
    if present_name(name) is not None:
        return True
    parts = name.split(".")
    return parts[0] == package and len(parts) > 1 and parts[1] in PRIVATE


def public_modules(package: str) -> Iterator[ModuleType]:
    """The package and all public modules loaded so far."""
    for name, module in list(sys.modules.items()):
        mine = name == package or name.startswith(f"{package}.")
        if mine and isinstance(module, ModuleType) and not is_internal(name, package):
            yield module


def names_in(module: ModuleType, package: str) -> set[str]:
    """Public attributes and submodules of a module."""
    names = {name for name in vars(module) if not name.startswith("_")}
    names.update(info.name for info in pkgutil.iter_modules(getattr(module, "__path__", ())))
    return {name for name in names if not name.startswith("_")}


def real_name(module: ModuleType) -> str:
    """The name that a module was loaded by: under `wend run` the package calls itself torch."""
    spec = module.__spec__
    return module.__name__ if spec is None else spec.name


def as_torch(name: str, package: str) -> str:
    """A module's name as the user's program knows it."""
    return "torch" + name[len(package) :]


def nearest(name: str, candidates: Iterable[str], count: int = 3) -> list[str]:
    """Names that are spelled alike, the best first."""
    import difflib

    by_lower: dict[str, str] = {}
    for candidate in sorted(candidates):
        by_lower.setdefault(candidate.lower(), candidate)
    matches = difflib.get_close_matches(name.lower(), by_lower, count, cutoff=0.7)
    return [by_lower[lower] for lower in matches]


@functools.lru_cache(maxsize=256)
def missing_from_module(module_name: str, name: str, package: str) -> str:
    """The message for `module_name.name`, which is not there."""
    owner = as_torch(module_name, package)
    near: list[str] = []
    # The same name elsewhere is the likeliest intention: torch.gelu is torch.nn.functional.gelu.
    for module in public_modules(package):
        if real_name(module) != module_name and name in vars(module) and not name.startswith("_"):
            near.append(f"{as_torch(real_name(module), package)}.{name}")
    if (home := sys.modules.get(module_name)) is not None:
        near += [f"{owner}.{other}" for other in nearest(name, names_in(home, package))]
    return sentence(f"{owner}.{name}", near, package)


def missing_from_class(kind: type, name: str, package: str) -> str:
    """The message for an attribute that a class of Wend's does not have."""
    owner = f"torch.{kind.__name__}"
    names = [other for other in dir(kind) if not other.startswith("_")]
    return sentence(f"{owner}.{name}", [f"{owner}.{n}" for n in nearest(name, names)], package)


def sentence(full_name: str, near: list[str], package: str) -> str:
    """`torch.x.y: not part of Wend 0.1; near: torch.x.z`."""
    tail = f"; near: {', '.join(dict.fromkeys(near[:5]))}" if near else ""
    return f"{full_name}: not part of Wend {wend_version(package)}{tail}"


def wend_version(package: str = "wend") -> str:
    """Wend's own version, also where the program sees PyTorch's."""
    for name in (package, f"{package}.version"):
        space = vars(sys.modules[name]) if name in sys.modules else {}
        known = space.get("__wend_version__") or space.get("__version__")
        if known:
            return str(known)
    return ""
