"""The signature of an op, from the signature of the op's function."""

from functools import wraps

import pytest

from wend._engine.core.kinds import params_of
from wend._engine.core.signature import EMPTY, parse_signature


def as_text(params):
    return [(p.name, p.kind, p.default, p.keyword_only) for p in params]


def function(
    input: "Tensor",  # noqa: F821 (annotations are texts, as in modules with the future import)
    mask: "Tensor | None",  # noqa: F821
    scale: "Scalar" = 1.0,  # noqa: F821
    dim: "Dims | None" = None,  # noqa: F821
    *,
    keepdim: "bool" = False,
    dtype: "DType | None" = None,  # noqa: F821
):
    return input


def test_parameters_are_those_of_the_text():
    text = (
        "input, mask: tensor?, scale: scalar = 1.0, dim: dims = None, *, keepdim: bool = False, "
        "dtype: dtype = None"
    )
    assert as_text(params_of(function)) == as_text(parse_signature(text))
    assert params_of(function)[1].default is EMPTY


def test_a_decorated_function_has_its_own_parameters():
    @wraps(function)
    def outer(first, *rest, **settings):
        return function(first, *rest, **settings)

    assert as_text(params_of(outer)) == as_text(params_of(function))


def test_an_annotation_that_is_no_kind_is_an_error():
    def wrong(input: "Tensor", much: "float"):  # noqa: F821
        return input

    with pytest.raises(TypeError, match="wrong: much: float is no kind of parameter"):
        params_of(wrong)
