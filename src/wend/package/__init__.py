"""torch.package: names for libraries that ask for them; packages are neither read nor written."""

from __future__ import annotations

from typing import Any, NoReturn

from wend._engine.base import refusals

__all__ = [
    "Directory",
    "EmptyMatchError",
    "GlobGroup",
    "Importer",
    "ObjMismatchError",
    "ObjNotFoundError",
    "OrderedImporter",
    "PackageExporter",
    "PackageImporter",
    "PackagingError",
    "is_from_package",
    "sys_importer",
]

_REMEDY = (
    "archives of code with pickles in them are not available; keep weights by torch.save and "
    "torch.load, a program by torch.export.save, and the code as a Python package"
)


class PackagingError(Exception):
    """Raised by PyTorch where a package cannot be written."""


class EmptyMatchError(Exception):
    """Raised by PyTorch where a pattern of an exporter matches nothing."""


class ObjNotFoundError(Exception):
    """Raised by PyTorch where an importer does not find an object."""


class ObjMismatchError(Exception):
    """Raised by PyTorch where an importer finds another object of the name."""


class _Refused:
    """Base: raises NotImplementedInWend when made."""

    _refused_by_wend = True

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        refusals.refuse(f"torch.package.{cls.__name__}", _REMEDY)


class Importer(_Refused):
    """A source of modules. Raises NotImplementedInWend when made."""


class OrderedImporter(Importer):
    """Several sources of modules, in turn. Raises NotImplementedInWend when made."""


class PackageImporter(Importer):
    """A reader of a package. Raises NotImplementedInWend when made."""


class PackageExporter(_Refused):
    """A writer of a package. Raises NotImplementedInWend when made."""


class GlobGroup(_Refused):
    """Names of modules by patterns. Raises NotImplementedInWend when made."""


class Directory(_Refused):
    """The files of a package. Raises NotImplementedInWend when made."""


class _SysImporter:
    """The modules that Python has imported: its methods are refused."""

    _refused_by_wend = True

    def __getattr__(self, name: str) -> NoReturn:
        if name not in ("get_name", "import_module", "whichmodule"):
            raise AttributeError(f"torch.package.sys_importer has no attribute {name!r}")
        refusals.refuse(f"torch.package.sys_importer.{name}", _REMEDY)


sys_importer = _SysImporter()


def is_from_package(obj: Any) -> bool:
    """Whether an object comes out of a package: never, as packages are not read."""
    return False
