"""QConfigMapping: which module or function of a traced model has which QConfig."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Self

from wend.ao.quantization.qconfig import get_default_qat_qconfig, get_default_qconfig

__all__ = [
    "QConfigMapping",
    "get_default_qat_qconfig_mapping",
    "get_default_qconfig_mapping",
]


class QConfigMapping:
    """QConfigs for all of a model, by types, and by names of modules; the last have priority."""

    def __init__(self) -> None:
        self.global_qconfig: Any = None
        self.object_type_qconfigs: OrderedDict[Any, Any] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, Any] = OrderedDict()

    def set_global(self, global_qconfig: Any) -> Self:
        """Set the QConfig of everything else."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Any, qconfig: Any) -> Self:
        """Set the QConfig of modules of a type, or of calls of a function."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: Any) -> Self:
        """Set the QConfig of a module, and of the modules in it."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def of(self, name: str, kind: Any) -> Any:
        """The QConfig of a module of that name and type."""
        path = name
        while path:
            if path in self.module_name_qconfigs:
                return self.module_name_qconfigs[path]
            path = path.rpartition(".")[0]
        return self.object_type_qconfigs.get(kind, self.global_qconfig)

    def __repr__(self) -> str:
        return (
            f"QConfigMapping (\n global_qconfig\n  {self.global_qconfig}\n"
            f" object_type_qconfigs\n  {self.object_type_qconfigs}\n"
            f" module_name_qconfigs\n  {self.module_name_qconfigs}\n)"
        )


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """The mapping of a backend for calibration."""
    return QConfigMapping().set_global(get_default_qconfig(backend, version))


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """The mapping of a backend for training."""
    return QConfigMapping().set_global(get_default_qat_qconfig(backend, version))
