"""Version numbers that compare as numbers: `torch.__version__ >= (1, 13)`."""

from __future__ import annotations

import re
from typing import Any

_PATTERN = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|b|rc|alpha|beta|c|pre|preview)[-_.]?(?P<pre_number>\d*))?"
    r"(?:(?:[-_.]?(?:post|rev|r)[-_.]?|-)(?P<post>\d+))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_number>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.IGNORECASE,
)
_PRE_RANK = {"a": 0, "alpha": 0, "b": 1, "beta": 1}


def _key(version: Any) -> tuple[Any, ...] | None:
    """Sort key by the rules of PEP 440; None for no version. A tuple is joined by dots."""
    text = ".".join(map(str, version)) if isinstance(version, tuple | list) else version
    match = _PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        return None
    release = [int(part) for part in match["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    if match["pre"]:
        pre = (_PRE_RANK.get(match["pre"].lower(), 2), int(match["pre_number"] or 0))
    else:
        # A development version without a pre-release tag precedes all pre-releases.
        pre = (-1, 0) if match["dev"] and not match["post"] else (3, 0)
    post = int(match["post"]) if match["post"] else -1
    dev = int(match["dev_number"] or 0) if match["dev"] else float("inf")
    parts = re.split(r"[-_.]", match["local"].lower()) if match["local"] else []
    local = tuple((1, int(p), "") if p.isdigit() else (0, 0, p) for p in parts)
    return tuple(release), pre, post, dev, local


class Version(str):
    """A version string; compared with a string or a tuple of numbers by the rules of PEP 440.

    A string that is no version (`"nightly"`) is compared as text, as PyTorch's does.
    """

    __slots__ = ()

    def _pair(self, other: Any) -> tuple[Any, Any]:
        mine, others = _key(self), _key(other)
        return (str(self), other) if mine is None or others is None else (mine, others)

    def __eq__(self, other: object) -> bool:
        a, b = self._pair(other)
        return bool(a == b)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        a, b = self._pair(other)
        return bool(a < b)

    def __le__(self, other: Any) -> bool:
        a, b = self._pair(other)
        return bool(a <= b)

    def __gt__(self, other: Any) -> bool:
        a, b = self._pair(other)
        return bool(a > b)

    def __ge__(self, other: Any) -> bool:
        a, b = self._pair(other)
        return bool(a >= b)

    __hash__ = str.__hash__
