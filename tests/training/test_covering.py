"""Covering arrays: complete, small, always the same."""

from itertools import combinations, product

import pytest

from training.covering import covering

CHOICES = {"a": "xyz", "b": "pq", "c": "012345", "d": "p", "e": "uvw"}


@pytest.mark.parametrize(("strength", "most"), [(1, 6), (2, 20), (3, 60)])
def test_all_meetings_are_covered(strength, most):
    rows = covering(CHOICES, strength)
    for names in combinations(CHOICES, strength):
        wanted = set(product(*(CHOICES[name] for name in names)))
        assert {tuple(row[name] for name in names) for row in rows} == wanted
    assert len(rows) <= most
    assert covering(CHOICES, strength) == rows


def test_the_plainest_case_is_the_first():
    assert covering(CHOICES)[0] == {name: values[0] for name, values in CHOICES.items()}


def test_combinations_that_are_not_allowed_are_left_out():
    def allowed(row):
        return not (row["a"] == "z" and row["c"] > "3") and row["b"] + row["e"] != "pw"

    rows = covering(CHOICES, 2, allowed)
    assert all(map(allowed, rows))
    every = [dict(zip(CHOICES, values, strict=True)) for values in product(*CHOICES.values())]
    for one, other in combinations(CHOICES, 2):
        wanted = {(row[one], row[other]) for row in every if allowed(row)}
        assert {(row[one], row[other]) for row in rows} == wanted
