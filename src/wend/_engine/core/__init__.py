"""Recording: types, primitives, the trie of paths, the graph."""

from wend._engine.base import forking as forking  # before the core: see there
from wend._engine.core._select import select

select()
