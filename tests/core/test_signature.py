"""Declared signatures: parameters, kinds and defaults."""

import pytest

import wend
import wend.nn.functional as F
from wend._engine.core.signature import EMPTY, Binder, parse_signature


def test_parameters_of_a_declaration():
    text = (
        "input, dims: dims = (0, -1), other: tensor? = None, eps: scalar = 1e-8, "
        "mode: str = 'mean', *, count: int = -3, keepdim: bool = False, dtype: dtype"
    )
    given = parse_signature(text)
    assert [(p.name, p.kind, p.default, p.keyword_only) for p in given] == [
        ("input", "tensor", EMPTY, False),
        ("dims", "dims", (0, -1), False),
        ("other", "tensor?", None, False),
        ("eps", "scalar", 1e-8, False),
        ("mode", "str", "mean", False),
        ("count", "int", -3, True),
        ("keepdim", "bool", False, True),
        ("dtype", "dtype", EMPTY, True),
    ]
    assert [p.is_attr for p in given] == [False, True, False, False, True, True, True, True]
    assert type(parse_signature("x: scalar = 1.0")[0].default) is float
    assert type(parse_signature("x: scalar = 1")[0].default) is int
    assert parse_signature("x: bool = True")[0].default is True
    assert parse_signature("") == () == parse_signature(" ")


def test_a_list_that_was_changed_is_another_argument():
    """Call plans compare constants with what they were."""
    x, dims, pair = wend.ones(2, 3), [0, 1], ([1], [0])
    y = wend.ones(3, 2)
    for _ in range(3):
        assert tuple(x.sum(dims).shape) == ()
        assert tuple(x.permute(dims).shape) == (2, 3)
        assert tuple(wend.tensordot(x, y, dims=pair).shape) == (2, 2)
    dims.reverse()
    assert tuple(x.permute(dims).shape) == (3, 2)
    dims.pop()
    assert tuple(x.sum(dims).shape) == (2,)
    pair[0].append(0)
    pair[1].append(1)
    assert tuple(wend.tensordot(x, y, dims=pair).shape) == ()


def test_a_form_of_call_is_bound_once(monkeypatch):
    """Sizes that stand for several, tuples of tuples, numbers by keyword: the core takes them."""
    x, y = wend.ones(1, 2, 8, 8), wend.ones(8, 3)
    calls = [
        lambda n: F.max_pool2d(x, n),
        lambda n: F.avg_pool2d(x, 2, stride=n),
        lambda n: wend.tensordot(x, y, dims=((3,), (0,))),
        lambda n: F.interpolate(x, scale_factor=(1.5, 2.0), mode="bilinear"),
        lambda n: F.pad(x, (1, n)),
    ]
    for call in calls:
        call(2)
    bound = []
    monkeypatch.setattr(Binder, "bind", lambda self, *call: bound.append(self.name))
    for call in calls:
        call(3)
    assert bound == []


def test_lists_of_any_number_of_tensors_are_bound_once(monkeypatch):
    """One list of tensors: as many forms as there are lengths, and lists of what is no tensor."""
    parts = [wend.full((1, 2), float(k)) for k in range(30)]
    for n in range(1, 31):
        wend.cat(parts[:n])
    bound = []
    bind = Binder.bind
    monkeypatch.setattr(
        Binder, "bind", lambda self, *call: (bound.append(self.name), bind(self, *call))[1]
    )
    for n in (30, 1, 17, 2, 29):
        assert wend.cat(parts[:n]).tolist() == [[float(k)] * 2 for k in range(n)]
        assert wend.cat(tuple(parts[:n])).shape == (n, 2)
    assert bound == []
    with pytest.raises(TypeError):
        wend.cat([parts[0], 3.0, parts[1]])
    assert wend.cat(parts[:3], 1).shape == (1, 6)
    assert wend.cat(parts[:3]).shape == (3, 2)
