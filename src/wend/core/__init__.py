"""Recording: types, primitives, the trie of paths, the graph."""

from wend.core._select import select

select()
