"""Frozen records behave as frozen dataclasses do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pytest

from wend._engine.base.records import Record


class Point(Record):
    """Two numbers."""

    x: int
    y: int = 2

    @cached_property
    def both(self) -> int:
        """Their sum."""
        return self.x + self.y


class Other(Record):
    """The same fields."""

    x: int
    y: int = 2


class Spot(Point):
    """With a name."""

    name: str = "here"


def test_fields_by_place_by_name_and_by_default():
    assert (Point(1).x, Point(1).y) == (1, 2)
    assert Point(y=5, x=4) == Point(4, 5) == Point(4, y=5)
    assert Spot(1, 2, "there").name == "there" and Spot(1).name == "here"


@pytest.mark.parametrize(
    ("given", "named"),
    [((), {}), ((), {"y": 1}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})],
)
def test_what_is_too_much_or_too_little_is_refused(given, named):
    with pytest.raises(TypeError, match="Point"):
        Point(*given, **named)


def test_equal_where_class_and_fields_are():
    assert Point(1, 2) == Point(1) and hash(Point(1, 2)) == hash(Point(1))
    assert Point(1, 3) != Point(1)
    assert Point(1) != Other(1) and Point(1) != Spot(1) and Point(1) != (1, 2)
    assert len({Point(1), Point(1, 2), Point(2), Other(1)}) == 3


def test_what_is_cached_is_no_field():
    point = Point(1)
    assert point.both == 3
    assert point == Point(1) and repr(point) == "Point(x=1, y=2)"


def test_frozen():
    point = Point(1)
    with pytest.raises(AttributeError, match="x"):
        point.x = 3
    with pytest.raises(AttributeError, match="x"):
        del point.x
    assert point == Point(1)


def test_hashes_and_text_are_those_of_a_dataclass():
    @dataclass(frozen=True)
    class Known:
        x: int
        y: int = 2

    assert hash(Point(1)) == hash(Known(1))
    assert repr(Known(1)).split("Known")[-1] == repr(Point(1)).split("Point")[-1]
