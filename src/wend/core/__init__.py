"""Recording: types, primitives, the trie of paths, the graph."""

from wend.base import forking as forking  # before the core: see there
from wend.core._select import select

select()
