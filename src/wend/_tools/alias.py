"""`import torch` served by Wend, for `wend run` and notebooks.

A finder at the head of `sys.meta_path` answers for `torch` and `torch.x.y` with the very module
objects of `wend` and `wend.x.y`. So identity, pickles and monkey-patching hold under both
names. A name that Wend lacks raises ModuleNotAvailable (an ImportError) or NotAvailable (an
AttributeError), with the full name.
"""

from __future__ import annotations

import dis
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

from wend._engine.base.devices import DeviceLike
from wend._engine.base.errors import GraphError, ModuleNotAvailable, NotAvailable
from wend._engine.base.version import Version
from wend._engine.core._modules import PublicModule
from wend._tools.missing import (
    as_torch,
    is_internal,
    missing_from_module,
    public_modules,
    real_name,
)

TORCH_VERSION: Final = Version("2.13.0+wend")
_IMPORT_FROM: Final = dis.opmap["IMPORT_FROM"]
_EXPLAINED: Final = "__wend_explained__"


class _Loader(Loader):
    """Puts an existing module under a second name, with no change to the module's attributes."""

    def __init__(self, real: ModuleType) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # The import system takes the module from sys.modules then, and drops the module just made.
        sys.modules[module.__name__] = self.real
        # It also binds each submodule that it finds anew to the parent: a function that bears the
        # name of its module, as `torch._higher_order_ops.scan` does, would be lost.
        for name, value in list(vars(self.real).items()):
            inner = sys.modules.get(f"{real_name(self.real)}.{name}")
            if inner is not None and value is not inner:
                sys.modules[f"{module.__name__}.{name}"] = inner


class _WithSafeOpen(Loader):
    """Loads the package safetensors, whose `safe_open` makes tensors of PyTorch's itself."""

    def __init__(self, real: Any, package: str) -> None:
        self.real = real
        self.package = package

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.real.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.real.exec_module(module)
        other = vars(module)["safe_open"]

        def safe_open(
            filename: object, framework: str, device: DeviceLike = "cpu", **ways: object
        ) -> Any:
            if framework not in ("pt", "torch", "pytorch"):
                return other(filename, framework, device, **ways)
            own = importlib.import_module(f"{self.package}.serialization.safetensors")
            return own.SafeFile(filename, device, **ways)

        vars(module)["safe_open"] = safe_open


class TorchFinder(MetaPathFinder):
    """Answers for `torch` and `torch.x.y`, and for the part of safetensors that is torch's."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "safetensors":
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _WithSafeOpen(spec.loader, self.package)
            return spec
        if name == "safetensors.torch":
            own = importlib.import_module(f"{self.package}.serialization.safetensors")
            return ModuleSpec(name, _Loader(own))
        if name != "torch" and not name.startswith("torch."):
            return None
        real_name = self.package + name[len("torch") :]
        real = self._load(real_name)
        if real is None:
            if _asked_only():
                return None
            owner, _, leaf = real_name.rpartition(".")
            raise ModuleNotAvailable(missing_from_module(owner, leaf, self.package), name=name)
        _explain_all(self.package)
        return ModuleSpec(name, _Loader(real), is_package=hasattr(real, "__path__"))

    def find_distributions(self, context: Any) -> Iterable[Any]:
        """Answer `importlib.metadata` for the distribution `torch`, which nobody installed."""
        from wend._tools.distribution import ServedTorch

        if context.name is None or context.name.lower() == "torch":
            return (ServedTorch(self.package, str(TORCH_VERSION)),)
        return ()

    def _load(self, real_name: str) -> ModuleType | None:
        if is_internal(real_name, self.package):
            return None
        try:
            return importlib.import_module(real_name)
        except ModuleNotFoundError as error:
            # An error about another module, missing inside of this module, is raised as found.
            if error.name not in (real_name, as_torch(real_name, self.package)):
                raise
        # A module that is only an attribute of the parent module will do.
        owner, _, leaf = real_name.rpartition(".")
        value = getattr(importlib.import_module(owner), leaf, None) if owner else None
        return value if isinstance(value, ModuleType) else None


class ServedModule(PublicModule):
    """The package while it serves PyTorch: libraries that ask are told the name `torch`.

    The import system, and the package itself, see the name that the package was loaded by.
    """

    @property
    def __name__(self) -> str:
        frame = sys._getframe(1)
        asker = frame.f_globals.get("__name__") or ""
        own = real_name(self)
        if asker.startswith((f"{own}.", "importlib.", "_frozen_importlib")):
            return own
        if frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM:
            return own
        return "torch"

    @__name__.setter
    def __name__(self, name: str) -> None:
        vars(self)["__name__"] = name


class MissingFinder(MetaPathFinder):
    """Stands last: a public module of Wend's that nobody found is a part that Wend lacks.

    `from torch.nn import Spam` comes here as `wend.nn.Spam` once the attribute is not found.
    """

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        owner, _, leaf = name.rpartition(".")
        if not name.startswith(f"{self.package}.") or is_internal(name, self.package):
            return None
        if leaf.startswith("__") or _asked_only():
            return None
        torch_name = as_torch(name, self.package)
        raise ModuleNotAvailable(missing_from_module(owner, leaf, self.package), name=torch_name)


def _asked_only() -> bool:
    """Whether `importlib.util.find_spec` asks, which wants None for a missing module."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name in ("_find_spec", "find_spec"):
        if frame.f_globals.get("__name__") == "importlib.util":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _explain_all(package: str) -> None:
    for module in public_modules(package):
        _explain(module, package)


def _explain(module: ModuleType, package: str) -> None:
    """Give a public module a `__getattr__` that names a missing attribute in full."""
    space = vars(module)
    own = space.get("__getattr__")
    if _explains(space, own) or is_internal(real_name(module), package):
        return

    def __getattr__(name: str) -> Any:
        value = _attribute(module, name, own, package)
        if isinstance(value, ModuleType) and real_name(value).startswith(f"{package}."):
            _explain(value, package)
        return value

    space[_EXPLAINED] = __getattr__, own
    space["__getattr__"] = __getattr__
    if not isinstance(module, ServedModule):
        module.__class__ = PublicModule
    if "__path__" not in space:
        # `from module import name` asks the finders for `module.name` only where the module has a
        # path; an empty path leads to MissingFinder and the message there.
        space["__path__"] = []


def _explains(space: dict[str, Any], function: object) -> bool:
    """Whether a module's `__getattr__` is that of `_explain`: a reload takes the module's own."""
    return function is not None and space.get(_EXPLAINED, (None,))[0] is function


def _explain_none(package: str) -> None:
    """Undo `_explain` for all modules."""
    for module in public_modules(package):
        space = vars(module)
        if _explains(space, space.get("__getattr__")):
            _, own = space.pop(_EXPLAINED)
            space["__getattr__"] = own
            if own is None:
                del space["__getattr__"]
            if space["__path__"] == []:
                del space["__path__"]


def _attribute(module: ModuleType, name: str, own: Any, package: str) -> Any:
    real = f"{real_name(module)}.{name}"
    if own is not None:
        try:
            value = own(name)
        except AttributeError:  # a name that the module lacks: the next place is asked
            pass
        except ModuleNotFoundError as error:
            # A submodule that is announced, not there: `hasattr` wants an AttributeError.
            if error.name not in (real, as_torch(real, package)):
                raise
        else:
            return value
    if name.startswith("__"):
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    # PyTorch loads all submodules at once; Wend may load a submodule at the first request.
    if not is_internal(real, package) and importlib.util.find_spec(real) is not None:
        return importlib.import_module(real)
    raise NotAvailable(missing_from_module(real_name(module), name, package))


def install(package: str = "wend", asker: str = "wend run") -> None:
    """Serve `torch` from the package in this process and in the workers that the process starts.

    asker: who wants that, for the error
    Raises GraphError if the real PyTorch is imported already. A second call does nothing.
    """
    if is_installed():
        return
    if "torch" in sys.modules:
        raise GraphError(f"{asker}: torch is imported already, and cannot be replaced now")
    module = importlib.import_module(package)
    facts = importlib.import_module(f"{package}.version")
    vars(module)["__wend_version__"] = str(vars(facts)["__version__"])
    for space in (vars(module), vars(facts)):
        space["__version__"] = TORCH_VERSION
    module.__class__ = ServedModule
    sys.meta_path.insert(0, TorchFinder(package))
    sys.meta_path.append(MissingFinder(package))
    _explain_all(package)
    _serve_workers(package)


def is_installed() -> bool:
    """Whether `torch` is served in this process."""
    return any(isinstance(finder, TorchFinder) for finder in sys.meta_path)


def uninstall(package: str = "wend") -> None:
    """Serve `torch` no longer: an import finds the installed PyTorch, or nothing.

    Modules that a program has imported stay with the program. Without `install` nothing happens.
    """
    if not is_installed():
        return
    sys.meta_path[:] = [
        finder for finder in sys.meta_path if not isinstance(finder, TorchFinder | MissingFinder)
    ]
    # The package safetensors has taken Wend's functions: an import finds its own again.
    for name in list(sys.modules):
        if name.partition(".")[0] in ("torch", "safetensors"):
            del sys.modules[name]
    _explain_none(package)
    module = sys.modules[package]
    module.__class__ = PublicModule
    own = vars(module).pop("__wend_version__")
    for space in (vars(module), vars(sys.modules[f"{package}.version"])):
        space["__version__"] = own
    _serve_no_workers()


# --- worker processes ----------------------------------------------------------


class _InstallInChild:
    """Unpickled by a spawned process before the user's main module runs."""

    def __init__(self, package: str) -> None:
        self.package = package

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return install, (self.package,)


_prepare: Any = None  # multiprocessing's own function, while workers are served


def _serve_workers(package: str) -> None:
    """Let processes that multiprocessing spawns install the alias too (forks have it)."""
    import multiprocessing
    from multiprocessing import spawn

    global _prepare
    prepare: Any = spawn.get_preparation_data
    _prepare = prepare

    def get_preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = prepare(name)
        data["wend_alias"] = _InstallInChild(package)
        return data

    spawn.get_preparation_data = get_preparation_data
    # The fork server would import the user's main module before anything installs the alias.
    if "forkserver" in multiprocessing.get_all_start_methods():
        multiprocessing.set_forkserver_preload(["wend._tools.alias"])


def _serve_no_workers() -> None:
    """Undo `_serve_workers`."""
    import multiprocessing
    from multiprocessing import spawn

    spawn.get_preparation_data = _prepare
    if "forkserver" in multiprocessing.get_all_start_methods():
        multiprocessing.set_forkserver_preload(["__main__"])
