"""Minimum cuts: which values to keep so that all else follows from them (Dinic's algorithm)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

_MUCH = 1 << 62


class Network:
    """Directed edges with capacities, and the flow through them; nodes are numbers."""

    def __init__(self, n: int) -> None:
        self.edges: list[list[int]] = [[] for _ in range(n)]
        self.to: list[int] = []
        self.left: list[int] = []  # capacity that is left; edge e and e ^ 1 are a pair

    def connect(self, a: int, b: int, capacity: int) -> None:
        """An edge from a to b."""
        self.edges[a].append(len(self.to))
        self.to.append(b)
        self.left.append(capacity)
        self.edges[b].append(len(self.to))
        self.to.append(a)
        self.left.append(0)

    def saturate(self, source: int, sink: int) -> None:
        """Send as much as possible from the source to the sink."""
        while True:
            levels = self._levels(source, sink)
            if levels[sink] < 0:
                return
            at = [0] * len(self.edges)
            while self._send(source, sink, levels, at):
                pass

    def _levels(self, source: int, sink: int) -> list[int]:
        """How many edges with capacity left lead to each node; -1 if none do."""
        levels = [-1] * len(self.edges)
        levels[source] = 0
        waiting = deque([source])
        while waiting and levels[sink] < 0:
            a = waiting.popleft()
            for e in self.edges[a]:
                b = self.to[e]
                if self.left[e] > 0 and levels[b] < 0:
                    levels[b] = levels[a] + 1
                    waiting.append(b)
        return levels

    def _send(self, source: int, sink: int, levels: list[int], at: list[int]) -> bool:
        """Send along a shortest way; False if none is left. at: edges tried, by node."""
        way: list[int] = []
        a = source
        while a != sink:
            edges = self.edges[a]
            while at[a] < len(edges):
                e = edges[at[a]]
                if self.left[e] > 0 and levels[self.to[e]] == levels[a] + 1:
                    break
                at[a] += 1
            if at[a] < len(edges):
                way.append(edges[at[a]])
                a = self.to[way[-1]]
            elif way:
                a = self.to[way.pop() ^ 1]
                at[a] += 1
            else:
                return False
        amount = min(self.left[e] for e in way)
        for e in way:
            self.left[e] -= amount
            self.left[e ^ 1] += amount
        return True

    def leading_to(self, sink: int) -> set[int]:
        """The nodes from which more could be sent to the sink."""
        nodes = {sink}
        waiting = [sink]
        while waiting:
            b = waiting.pop()
            for e in self.edges[b]:
                a = self.to[e]
                if self.left[e ^ 1] > 0 and a not in nodes:
                    nodes.add(a)
                    waiting.append(a)
        return nodes


def nearest_cut(
    costs: Mapping[int, int], follows: Mapping[int, Iterable[int]], wanted: Iterable[int]
) -> set[int]:
    """The cheapest values to keep, so that all wanted values are kept or follow from these.

    costs: of keeping each value, above 0     follows: the values that a value is computed from; a
    value that is missing there has to be kept if needed. Among equally cheap choices, the
    choice nearest to the wanted values.
    """
    place = {v: 2 * k for k, v in enumerate(costs)}
    source, sink = 2 * len(place), 2 * len(place) + 1
    network = Network(sink + 1)
    for v, k in place.items():
        network.connect(k, k + 1, costs[v])
        if v not in follows:
            network.connect(source, k, _MUCH)
        for u in follows.get(v, ()):
            network.connect(place[u] + 1, k, _MUCH)
    for v in wanted:
        network.connect(place[v] + 1, sink, _MUCH)
    network.saturate(source, sink)
    behind = network.leading_to(sink)
    return {v for v, k in place.items() if k not in behind and k + 1 in behind}
