"""Names for questions of libraries; a program that uses them is refused.

Libraries import such names in any case, or ask `isinstance(x, Name)`. Such a name bears a
mark: `wend compat` and the page of PyTorch's names do not count it as working.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from wend._engine.base.errors import NotImplementedInWend

#: The attribute of functions and classes that are refused when called.
MARK = "_refused_by_wend"


def is_refused(value: object) -> bool:
    """Whether a function or class is refused when called; a subclass may not be."""
    return MARK in getattr(value, "__dict__", ())


def refuse(name: str, remedy: str) -> NoReturn:
    """Raise NotImplementedInWend. remedy: the missing part, and the way without it"""
    raise NotImplementedInWend(f"{name}: {remedy}")


def refusal(name: str, remedy: str) -> Callable[..., NoReturn]:
    """A function that raises NotImplementedInWend for any arguments."""

    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(name, remedy)

    refused.__name__ = refused.__qualname__ = name.rpartition(".")[2]
    refused.__doc__ = f"Raises NotImplementedInWend: {remedy}"
    setattr(refused, MARK, True)
    return refused
