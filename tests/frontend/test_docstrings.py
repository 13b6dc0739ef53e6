"""Everything public says what it does."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import wend

LAYERS = "base core ops transforms compiler runtime frontend tools".split()
MODULES = [
    info.name
    for info in pkgutil.walk_packages(wend.__path__, "wend.")
    if info.name.split(".")[1] not in LAYERS and "._" not in info.name
]


def silent(owner: str, names: dict[str, Any]) -> Iterator[str]:
    """Names of the functions, classes and methods of Wend's own that have no docstring."""
    for name, found in names.items():
        value = getattr(found, "__func__", found)
        home = str(getattr(value, "__module__", "wend"))
        if name.startswith("_") or not home.startswith("wend") or inspect.ismodule(value):
            continue
        if (callable(value) or isinstance(value, property)) and not inspect.getdoc(value):
            yield f"{owner}.{name}"


@pytest.mark.parametrize("name", ["wend", *MODULES])
def test_public_names_have_docstrings(name):
    module = importlib.import_module(name)
    assert module.__doc__
    missing = list(silent(name, vars(module)))
    for key, value in vars(module).items():
        if inspect.isclass(value) and value.__module__.startswith("wend"):
            inherited = {n: getattr(value, n) for n in vars(value) if hasattr(value, n)}
            missing += silent(f"{name}.{key}", {**vars(value), **_documented(value, inherited)})
    assert not missing


def _documented(cls: type, members: dict[str, Any]) -> dict[str, Any]:
    """Members that say nothing themselves, and whose docstring comes with the base's."""
    return {
        name: None
        for name in members
        if any(inspect.getdoc(vars(base)[name]) for base in cls.__mro__ if name in vars(base))
    }
