"""Declared signatures: parameters, kinds and defaults."""

import wend
import wend.nn.functional as F
from wend.core.signature import EMPTY, Binder, Param, parse_signature


def test_parameters_of_a_declaration():
    text = (
        "input, dims: dims = (0, -1), other: tensor? = None, eps: scalar = 1e-8, "
        "mode: str = 'mean', *, count: int = -3, keepdim: bool = False, dtype: dtype"
    )
    assert parse_signature(text) == (
        Param("input", "tensor", EMPTY, False),
        Param("dims", "dims", (0, -1), False),
        Param("other", "tensor?", None, False),
        Param("eps", "scalar", 1e-8, False),
        Param("mode", "str", "mean", False),
        Param("count", "int", -3, True),
        Param("keepdim", "bool", False, True),
        Param("dtype", "dtype", EMPTY, True),
    )
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
