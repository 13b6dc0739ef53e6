"""Declared signatures: parameters, kinds and defaults."""

from wend.core.signature import EMPTY, Param, parse_signature


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
