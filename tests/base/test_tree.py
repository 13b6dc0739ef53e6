"""Trees: out and back, structure as a key, what is a leaf."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.base.shapes import Size

Point = namedtuple("Point", "x y")

TREES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.tuples(inner, inner).map(lambda pair: Point(*pair)),
        st.lists(inner, max_size=2).map(lambda items: deque(items, 5)),
        st.dictionaries(st.integers(), inner, max_size=2).map(OrderedDict),
    ),
    max_leaves=12,
)


@given(TREES)
def test_out_and_back(x):
    leaves, structure = tree.flatten(x)
    again = tree.unflatten(structure, leaves)
    assert again == x and type(again) is type(x)
    assert structure.leaves == len(leaves) == len(tree.leaves(x))
    assert tree.flatten(again)[1] == structure
    hash(structure)


def test_order_and_types():
    x = {"b": [1, (2, 3)], "a": Point(4, None)}
    leaves, structure = tree.flatten(x)
    assert leaves == [1, 2, 3, 4, None]
    assert repr(structure) == "dict(list(*, tuple(*, *)), Point(*, *))"
    doubled = tree.map(lambda leaf: leaf and 2 * leaf, x)
    assert doubled == {"b": [2, (4, 6)], "a": Point(8, None)} and type(doubled["a"]) is Point


def test_defaultdict_keeps_its_factory():
    x = defaultdict(list, a=[1])
    again = tree.unflatten(tree.flatten(x)[1], [5])
    assert again == {"a": [5]} and again["new"] == []


def test_structures_differ():
    same = [((1, 2), (3, "x")), ({"a": 1}, {"a": 2}), ([], [])]
    other = [([1], (1,)), ({"a": 1}, {"b": 1}), ([1], [1, 2]), ([1], 1), ({}, OrderedDict())]
    for a, b in same:
        assert tree.flatten(a)[1] == tree.flatten(b)[1]
    for a, b in other:
        assert tree.flatten(a)[1] != tree.flatten(b)[1]


def test_leaves_by_type_and_by_question():
    class Mine(dict):
        pass

    assert tree.leaves([Size([1, 2]), Mine(a=1), "ab", range(2)]) == [
        (1, 2),
        {"a": 1},
        "ab",
        range(2),
    ]
    assert tree.leaves([(1, 2), [3]], is_leaf=lambda x: type(x) is tuple) == [(1, 2), 3]
    assert tree.leaves([]) == [] and tree.leaves(None) == [None]


def test_map_over_several():
    assert tree.map(lambda a, b: a + b, [1, (2,)], [10, (20,)]) == [11, (22,)]
    with pytest.raises(ArgumentError, match=r"tree 0 is list\(\*\) and tree 1 is tuple\(\*\)"):
        tree.map(lambda a, b: a, [1], (1,))


def test_unflatten_counts():
    structure = tree.flatten([1, [2]])[1]
    with pytest.raises(ArgumentError, match="has 2 leaves, and 1 are given"):
        tree.unflatten(structure, [1])
    with pytest.raises(ArgumentError, match="and 3 are given"):
        tree.unflatten(structure, iter([1, 2, 3]))


def test_register():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    tree.register(Pair, lambda p: ((p.a, p.b), None), lambda items, _: Pair(*items))
    made = tree.map(lambda x: x + 1, [Pair(1, 2)])[0]
    assert (made.a, made.b) == (2, 3)
    with pytest.raises(ArgumentError, match="registered already"):
        tree.register(Pair, None, None)
    with pytest.raises(ArgumentTypeError, match="takes a class"):
        tree.register(3, None, None)
