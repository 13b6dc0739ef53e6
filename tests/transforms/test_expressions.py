"""Expressions of extents, put over other operands."""

from __future__ import annotations

from wend._engine.core import symbolic


def test_parts_that_sums_share_are_replaced_once(monkeypatch):
    """Where the parts of a tensor begin are sums of which each holds those before."""
    made = []
    make = symbolic.make
    monkeypatch.setattr(symbolic, "make", lambda *given: made.append(given) or make(*given))
    sums, total = [], (symbolic.DIM, 0, 0)
    for k in range(1, 40):
        total = (symbolic.ADD, total, (symbolic.NEG, (symbolic.ARG, k)))
        sums.append(total)
    leaves = (lambda i, axis: (symbolic.DIM, i + 1, axis), lambda k: (symbolic.ARG, k + 2))
    known = {}
    found = [symbolic.substitute(e, *leaves, known) for e in sums]
    assert len(made) == 2 * len(sums)
    assert found == [symbolic.substitute(e, *leaves) for e in sums]
