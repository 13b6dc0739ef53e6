"""Which parts of a graph lie on all ways to a part: dominators of points and stretches."""

from __future__ import annotations

from wend._engine.transforms.exploring.program import Go, StaticGraph
from wend.export._strict import damaged

__all__ = ["Place", "Ways"]

#: A point (number, None), or a stretch (number of a point, answer).
Place = tuple[int, int | None]


class Ways:
    """The ways from the entry through points and stretches.

    Dominators by Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm (2001).
    Raises FormatError for a way to no point, and for points that no way leads to.
    """

    def __init__(self, graph: StaticGraph) -> None:
        count = len(graph.points)
        if not count:
            raise damaged("there are no points")
        self.next: dict[Place, list[Place]] = {}
        for number, point in enumerate(graph.points):
            self.next[number, None] = [(number, k) for k in range(len(point.answers))]
        for number, answer, stretch in graph.stretches():
            end = stretch.end
            ways: list[Place] = []
            if isinstance(end, Go):
                if not 0 < end.point < count:
                    raise damaged(f"there is no point {end.point}")
                ways = [(end.point, None)]
            self.next[number, answer] = ways
        self.order = self.sorted()
        if len(self.order) != len(self.next):
            raise damaged("no way leads to a point")
        self.parent = self.dominators()
        self.enter, self.leave = self.numbered()

    def sorted(self) -> list[Place]:
        """All places that can be reached, each before those that only it leads to."""
        done: list[Place] = []
        seen: set[Place] = {(0, None)}
        stack: list[tuple[Place, int]] = [((0, None), 0)]
        while stack:
            place, k = stack.pop()
            if k == len(self.next[place]):
                done.append(place)
                continue
            stack.append((place, k + 1))
            after = self.next[place][k]
            if after not in seen:
                seen.add(after)
                stack.append((after, 0))
        return done[::-1]

    def dominators(self) -> list[int]:
        """For each place of the order the nearest that lies on all ways there."""
        index = {place: k for k, place in enumerate(self.order)}
        before: list[list[int]] = [[] for _ in self.order]
        for place, ways in self.next.items():
            for after in ways:
                before[index[after]].append(index[place])
        parent = [-1] * len(self.order)
        parent[0] = 0
        changed = True
        while changed:
            changed = False
            for k in range(1, len(self.order)):
                dominator = -1
                for other in before[k]:
                    if parent[other] >= 0:
                        dominator = other if dominator < 0 else _common(parent, other, dominator)
                if dominator != parent[k]:
                    parent[k], changed = dominator, True
        return parent

    def numbered(self) -> tuple[dict[Place, int], dict[Place, int]]:
        """When a walk through the tree of dominators enters and leaves a place."""
        children: list[list[int]] = [[] for _ in self.order]
        for k in range(1, len(self.order)):
            children[self.parent[k]].append(k)
        enter: dict[Place, int] = {}
        leave: dict[Place, int] = {}
        stack = [(0, False)]
        while stack:
            k, left = stack.pop()
            (leave if left else enter)[self.order[k]] = len(enter)
            if not left:
                stack.append((k, True))
                stack += [(child, False) for child in children[k]]
        return enter, leave

    def leads(self, first: Place, then: Place) -> bool:
        """Whether a place lies on all ways to a further place."""
        return self.enter[first] <= self.enter[then] < self.leave[first]


def _common(parent: list[int], a: int, b: int) -> int:
    """The nearest place on all ways to two places."""
    while a != b:
        while a > b:
            a = parent[a]
        while b > a:
            b = parent[b]
    return a
