"""The two vocabularies: a class of Wend's is written under its PyTorch name.

`wend.nn.modules.linear.Linear` becomes `torch.nn.modules.linear Linear`. A class whose path is only
its file (`wend.optim.sgd.SGD`) is looked for among the public modules. A class of PyTorch's is
looked for in `wend.nn.modules.linear`, `wend.nn.modules`, `wend.nn`, in this order.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from wend._engine.base.modules import PRIVATE
from wend._engine.core._hot import OpFunction

__all__ = ["torch_path", "wend_object"]


def torch_path(value: object) -> tuple[str, str] | None:
    """(module, name) by which PyTorch knows a class or function of Wend's, or None."""
    module = getattr(value, "__module__", None) or ""
    name = getattr(value, "__qualname__", "")
    if isinstance(value, OpFunction):
        return _op_path(value)
    if not (module == "wend" or module.startswith("wend.")) or "." in name:
        return None
    if not PRIVATE.intersection(module.split(".")[1:2]):
        return "torch" + module[len("wend") :], name
    for public in sorted(_public_modules(), key=lambda path: (_distance(path, module), path)):
        if getattr(sys.modules[public], name, None) is value:
            return "torch" + public[len("wend") :], name
    return None


def _op_path(op: OpFunction) -> tuple[str, str] | None:
    """The module that exports an op: functions of layers are known by theirs."""
    name = op.__name__
    for public in ("wend.nn.functional", "wend"):
        if getattr(sys.modules.get(public), name, None) is op:
            return "torch" + public[len("wend") :], name
    return None


def _public_modules() -> list[str]:
    loaded = [path for path in list(sys.modules) if path == "wend" or path.startswith("wend.")]
    return [
        path for path in loaded if not path.startswith(tuple(f"wend.{name}" for name in PRIVATE))
    ]


def _distance(public: str, module: str) -> int:
    """Fewer words of `public` that are missing in `module`, then more words in common: nearer."""
    words, own = public.split(".")[1:], module.split(".")
    missing = sum(word not in own for word in words)
    return missing * 100 - sum(word in own for word in words)


def wend_object(module: str, name: str) -> Any:
    """Wend's object for PyTorch's `module.name`. Raises AttributeError with the missing name."""
    words = ["wend", *module.split(".")[1:]]
    while words:
        try:
            target: Any = importlib.import_module(".".join(words))
            for part in name.split("."):
                target = getattr(target, part)
            return target
        except (ImportError, AttributeError):
            # A name that is no module is looked up as an attribute of the one before.
            words.pop()
    raise AttributeError(f"load: the file needs {module}.{name}, which Wend does not have")
