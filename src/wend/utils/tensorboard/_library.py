"""The library that knows the format of event files, imported when first needed."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Protocol

from wend._engine.base.errors import ModuleNotAvailable


class Message(Protocol):
    """A message of an event file, as protobuf makes messages."""

    def SerializeToString(self) -> bytes:
        """The message as bytes."""


class Event(Message, Protocol):
    """An event of a step."""

    wall_time: float
    step: int


def library(name: str) -> ModuleType:
    """Return a module of tensorboardX.

    name: below the package, as in "proto.summary_pb2"
    Raises ModuleNotAvailable, with the extra to install, where the library is missing.
    """
    return _imported(f"tensorboardX.{name}", "tensorboard", "event files")


def needed(name: str, purpose: str) -> ModuleType:
    """Return a module that a kind of record needs besides: Pillow, matplotlib."""
    package = name.split(".")[0]
    return _imported(name, {"PIL": "pillow"}.get(package, package), purpose)


def _imported(name: str, install: str, purpose: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as fault:
        package = name.split(".")[0]
        if fault.name is None or fault.name.split(".")[0] not in (package, "google", "packaging"):
            raise
        wanted = "'wend-dl[tensorboard]'" if install == "tensorboard" else install
        raise ModuleNotAvailable(
            f"wend.utils.tensorboard: {purpose} need {fault.name}: pip install {wanted}",
            name=fault.name,
        ) from fault
