"""Work that takes long tells how far it is, where somebody looks on."""

from __future__ import annotations

import sys
import time
from typing import Any, Final, Self

__all__ = ["ProgressLine", "is_watched"]

_AFTER: Final = 2.0  # seconds for which nobody wonders
_EVERY: Final = 0.2


def is_watched(stream: Any) -> bool:
    """Whether a stream's reader sees a line change: a terminal, or the cell of a notebook."""
    if type(stream).__module__.partition(".")[0] == "ipykernel":
        return True
    return stream is not None and not stream.closed and bool(stream.isatty())


class ProgressLine:
    """A line on standard error: `aot.compile: 12 of 40 kernels, 3 s`.

    The line comes after two seconds, changes in place, and goes at the end of the block. Nothing
    is written where standard error is a file or a pipe.

    name: the work, as the user called it     unit: what is counted     total: None for unknown
    """

    def __init__(self, name: str, unit: str = "", total: int | None = None) -> None:
        self.name, self.unit, self.total = name, unit, total
        self._stream = sys.stderr if is_watched(sys.stderr) else None
        self._begun = self._written = time.monotonic()
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        if self._stream is not None and self._width:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()

    def tell(self, done: int | None = None, now: str = "") -> None:
        """Show how many are done, or the words for the present work."""
        if self._stream is None:
            return
        moment = time.monotonic()
        if moment - self._begun < _AFTER or (self._width and moment - self._written < _EVERY):
            return
        self._written = moment
        of = "" if self.total is None else f" of {self.total}"
        count = "" if done is None else f"{done}{of} {self.unit}"
        words = [word for word in (count, now, f"{moment - self._begun:.0f} s") if word]
        self._write(f"{self.name}: {', '.join(words)}")

    def _write(self, text: str) -> None:
        assert self._stream is not None
        self._stream.write(f"\r{text:<{self._width}}")
        self._stream.flush()
        self._width = len(text)
