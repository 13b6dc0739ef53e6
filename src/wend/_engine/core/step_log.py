"""The log of the last flushes and backward passes, in the order in which they were run.

The runtime and `transforms` write rows here, and `runtime/flush_log.py` reads them.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

#: The number of rows in the log: more than a step of training has.
REMEMBERED = 128
#: Why a way that only pays for paths that come back declines. (The trie has sealed the path.)
NEVER_BACK = "paths that begin like this do not come back"
ROWS: deque[tuple[Any, ...]] = deque(maxlen=REMEMBERED)


class BackwardRow(NamedTuple):
    """One call of `backward` or `grad` that the core has not run by itself.

    asked: (part of the graph, way, why the way was not taken, or "") -> how many parts
    """

    asked: dict[tuple[str, str, str], int]
