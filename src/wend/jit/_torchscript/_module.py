"""Modules of an archive: they run, train, and have a state, as modules of programs do."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from wend._engine.base.errors import ArgumentTypeError, FormatError, NotImplementedInWend
from wend._engine.core._hot import Tensor
from wend.jit._torchscript._classes import ArchiveClass
from wend.jit._torchscript._compiling import Code
from wend.jit._torchscript._values import outgoing
from wend.nn.modules.module import Module
from wend.nn.parameter import Parameter

__all__ = ["MACHINERY", "ArchiveModule", "fill", "run"]

#: Names of the machinery of modules, which no file sets.
MACHINERY = frozenset(Module().__dict__) | {"_example", "_kind", "_values"}


def run(code: Code, owner: list[Any], args: Any, keywords: dict[str, Any]) -> Any:
    """The result of a call by the user.  Raises FormatError for calls without an end."""
    try:
        return outgoing(code.call_by_user(owner, args, keywords))
    except RecursionError as error:
        raise FormatError(f"TorchScript: {code.name} of the archive calls itself") from error


class ArchiveModule(Module):
    """A module of an archive of PyTorch's TorchScript.

    Parameters, buffers and parts are those of a Module. Further attributes of the archive can be
    read and set as attributes, and methods called.
    """

    _kind: ArchiveClass

    def __init__(self, kind: ArchiveClass) -> None:
        super().__init__()
        self.__dict__["_kind"] = kind
        self.__dict__["_values"] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the archive's `forward`."""
        if self._kind.hooks:
            raise NotImplementedInWend("torch.jit.load: the archive has hooks, which do not run")
        return run(self._kind.method("forward"), [self], args, kwargs)

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        kind = self.__dict__.get("_kind")
        if kind is not None and not name.startswith("__"):
            if name in kind.methods:
                return self._method(name)
            if name in kind.constants:
                return kind.constants[name]
        return super().__getattr__(name)

    def _method(self, name: str) -> Callable[..., Any]:
        code = self._kind.method(name)

        def method(*args: Any, **kwargs: Any) -> Any:
            return run(code, [self], args, kwargs)

        method.__name__ = method.__qualname__ = name
        return method

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_values", {}):
            self._values[name] = value
        else:
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._values, *self._kind.methods})

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def __getitem__(self, index: Any) -> Any:
        """A part, by the number or the name."""
        return self._archive_item(index)

    def _archive_item(self, index: Any) -> Any:
        if isinstance(index, str):
            return self._modules[index]
        count = len(self._modules)
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of range: the module has {count} parts")
        return next(itertools.islice(self._modules.values(), index % count, None))

    # -- attributes as programs of the archive see them

    def _archive_read(self, name: str) -> Any:
        for place in (self._parameters, self._modules, self._buffers, self._values):
            if name in place:
                return place[name]
        if name == "training":
            return self.training
        if name in self._kind.constants:
            return self._kind.constants[name]
        raise ArgumentTypeError(
            f"TorchScript: the module {self._kind.name} has no attribute {name[:80]!r}"
        )

    def _archive_write(self, name: str, value: Any) -> None:
        if name == "training":
            self.training = bool(value)
        elif name in self._buffers:
            self._buffers[name] = value
        elif name in self._values:
            self._values[name] = value
        else:
            raise ArgumentTypeError(f"TorchScript: the attribute {name[:80]!r} cannot be set")

    def _get_name(self) -> str:
        return f"RecursiveScriptModule(original_name={self._kind.name})"

    @property
    def original_name(self) -> str:
        """The name of the module's class."""
        return self._kind.name

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        kind = self.__dict__["_kind"]
        memo[id(kind)] = kind
        for name, value in self.__dict__.items():
            twin.__dict__[name] = kind if value is kind else copy.deepcopy(value, memo)
        return twin

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise NotImplementedInWend(
            "a module of an archive is not pickled: use torch.jit.save, or the state_dict"
        )


def fill(module: ArchiveModule, state: dict[str, Any], memo: dict[int, Parameter]) -> None:
    """Put the values of a file into a module: parameters, buffers, parts, further attributes."""
    kind = module._kind
    for name, value in state.items():
        if name in MACHINERY - {"training", "_is_full_backward_hook"} and _is_part(value):
            raise FormatError(f"torch.jit.load: a part of a module is named {name!r}")
        if name == "training":
            module.training = bool(value)
        elif isinstance(value, ArchiveModule):
            module._modules[name] = value
        elif name in kind.parameters and isinstance(value, Tensor):
            parameter = memo.get(id(value))
            if parameter is None:
                parameter = memo[id(value)] = Parameter(value.detach(), value.requires_grad)
            module._parameters[name] = parameter
        elif name in kind.parameters and value is None:
            module._parameters[name] = None
        elif name in kind.buffers and (value is None or isinstance(value, Tensor)):
            module._buffers[name] = value
        else:
            module._values[name] = value


def _is_part(value: Any) -> bool:
    return isinstance(value, (Tensor, Module))
