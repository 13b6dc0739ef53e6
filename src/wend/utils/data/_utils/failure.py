"""An exception of a worker, raised again in the main process."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from typing import Any

from wend._engine.base.errors import ExecutionError


class _Verbatim(str):
    """Text whose repr is the text: KeyError shows the repr of its argument."""

    def __repr__(self) -> str:
        return str(self)


class WorkerError(ExecutionError):
    """An exception of a worker whose own type could not be brought here."""


class WorkerDied(ExecutionError):
    """A worker process ended without being asked to."""


@dataclass
class Failure:
    """The facts of a worker's exception.

    kind: name of the type; trace: the traceback as text; pickled: the exception itself, or None if
    the exception cannot be pickled; place: which worker, at which task.
    """

    kind: str
    trace: str
    pickled: bytes | None
    place: str

    @classmethod
    def of(cls, error: BaseException, place: str) -> Failure:
        """Describe an exception that was caught in a worker."""
        trace = "".join(traceback.format_exception(error))
        try:
            pickled: bytes | None = pickle.dumps(error)
            pickle.loads(pickled or b"")
        except Exception:  # a user's error that cannot be pickled travels as text
            pickled = None
        return cls(type(error).__name__, trace, pickled, place)

    def exception(self) -> BaseException:
        """Return an exception of the original type whose text names worker and traceback.

        The original is its ``__cause__``. Falls back to WorkerError, a RuntimeError.
        """
        text = f"{self.kind} in {self.place}; the worker's traceback:\n{self.trace}"
        original = self._original()
        raised = _retold(original, text) if original is not None else WorkerError(text)
        raised.__cause__ = original if raised is not original else None
        return raised

    def _original(self) -> BaseException | None:
        try:
            original = pickle.loads(self.pickled or b"")
        except Exception:  # the type may not exist in this process
            return None
        return original if isinstance(original, BaseException) else None


def _retold(original: BaseException, text: str) -> BaseException:
    """Return an exception of the same type with another text; with a note if that cannot be."""
    kind: Any = type(original)
    if issubclass(kind, StopIteration):  # would end the user's loop instead of stopping it
        return WorkerError(text)
    try:
        if len(original.args) <= 1 and not vars(original):
            told: BaseException = kind(_Verbatim(text) if issubclass(kind, KeyError) else text)
            if text in str(told):
                return told
        return _like(original, text)
    except Exception:  # the constructor does something else
        original.add_note(text)
        return original


def _like(original: BaseException, text: str) -> BaseException:
    """Return an exception with the original's type and attributes, whose str is the text."""
    kind = type(original)
    facts = {"__str__": lambda self: text, "__module__": kind.__module__}
    retold = type(kind.__name__, (kind,), facts)
    reduced: Any = original.__reduce__()
    told: BaseException = retold(*reduced[1])
    if len(reduced) > 2 and reduced[2]:
        vars(told).update(reduced[2])
    return told
