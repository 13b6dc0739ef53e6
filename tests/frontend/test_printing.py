"""Printing: the same characters as PyTorch, over thousands of random arrays and every option."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wend
from wend._engine.base import dtypes
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._frontend import printing

torch = pytest.importorskip("torch")

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTS = ("int8", "int16", "int32", "int64", "uint8", "bool")
COMPLEX = ("complex64", "complex128")


@pytest.fixture(autouse=True)
def default_options():
    yield
    printing.set_printoptions(profile="default")
    torch.set_printoptions(profile="default")


def to_numpy(tensor) -> np.ndarray:
    if tensor.dtype == torch.bfloat16:
        return tensor.float().numpy().astype(ml_dtypes.bfloat16)
    return tensor.numpy()


def wend_text(tensor, **facts) -> str:
    default = torch.get_default_dtype()
    usual = (default, torch.complex64, torch.int64, torch.bool)
    return printing.describe(
        to_numpy(tensor.detach()),
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype),
        usual_dtype=tensor.dtype in usual,
        default_dtype=tensor.dtype == default,
        **facts,
    )


def assert_same(tensor) -> None:
    assert wend_text(tensor) == repr(tensor)


def random_tensor(rng: np.random.Generator, dtype: str):
    """A tensor whose shape, scale, signs, repeats and non-finite elements are all drawn."""
    rank = int(rng.integers(0, 5))
    shape = tuple(int(n) for n in rng.choice([0, 1, 1, 2, 3, 4, 7, 8, 13], size=rank))
    if dtype == "bool":
        return torch.from_numpy(np.asarray(rng.random(shape) < 0.5))
    if dtype in INTS:
        info = np.iinfo(dtype)
        top = int(rng.choice([2, 10, 1000, info.max]))
        top = min(top, info.max)
        return torch.from_numpy(np.asarray(rng.integers(max(info.min, -top), top, size=shape))).to(
            getattr(torch, dtype)
        )
    values = draw_floats(rng, shape)
    if dtype in COMPLEX:
        values = np.asarray(values, dtype=np.complex128)
        values.imag = draw_floats(rng, shape)
    return torch.from_numpy(np.asarray(values)).to(getattr(torch, dtype))


def draw_floats(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-7, 11)
    style = rng.integers(0, 6)
    if style == 1:
        values = np.round(values)
    elif style == 2:
        values = values * 10.0 ** rng.integers(-5, 5, size=shape)
    elif style == 3:
        values = rng.integers(-5, 6, size=shape).astype(float)
    elif style == 4:
        values = np.where(rng.random(shape) < 0.5, 0.0, values)
    if rng.random() < 0.3:
        odd = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], size=shape)
        values = np.where(rng.random(shape) < 0.4, odd, values)
    return np.asarray(values)


@pytest.mark.parametrize("dtype", FLOATS + INTS + COMPLEX)
def test_random_tensors_print_alike(dtype):
    rng = np.random.default_rng(len(dtype) + ord(dtype[0]))
    for _ in range(120):
        assert_same(random_tensor(rng, dtype))


def test_summaries_print_alike():
    for shape in [
        (1001,),
        (1000,),
        (40, 40),
        (2, 600),
        (600, 2),
        (7, 7, 30),
        (1, 1, 1001),
        (3, 5, 6, 20),
    ]:
        assert_same(torch.arange(float(np.prod(shape))).reshape(shape))
        assert_same(torch.linspace(-1, 1, int(np.prod(shape))).reshape(shape))
        assert_same(torch.arange(int(np.prod(shape))).reshape(shape).to(torch.complex64) * (1 - 2j))


def test_special_scalars_print_alike():
    values = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        1e8,
        1.1e8,
        1e-4,
        9.9e-5,
        3.4e38,
        1e-45,
        np.nan,
        np.inf,
        -np.inf,
    ]
    for value in values:
        assert_same(torch.tensor(value))
        assert_same(torch.tensor(value, dtype=torch.float64))
        assert_same(torch.tensor([value, 1.0]))
        assert_same(torch.tensor(complex(value, -value)))
    assert_same(torch.tensor([1.7e308, 5e-324], dtype=torch.float64))
    assert_same(torch.tensor(True))
    assert_same(torch.tensor(-(2**63)))


def test_empty_tensors_show_size_and_dtype():
    for shape in [(0,), (0, 3), (2, 0), (1, 0, 4)]:
        for dtype in (torch.float32, torch.int64, torch.float16, torch.bool, torch.complex64):
            assert_same(torch.empty(shape, dtype=dtype))


OPTION_SETS = [
    {"precision": 0},
    {"precision": 2},
    {"precision": 12},
    {"threshold": 5},
    {"threshold": 0},
    {"threshold": 5, "edgeitems": 1},
    {"threshold": 5, "edgeitems": 0},
    {"edgeitems": 0},
    {"linewidth": 20},
    {"linewidth": 1},
    {"linewidth": 200},
    {"profile": "short"},
    {"profile": "full"},
    {"profile": "full", "precision": 1, "linewidth": 40},
    {"sci_mode": True},
    {"sci_mode": False},
]


@pytest.mark.parametrize("options", OPTION_SETS, ids=str)
def test_options_act_alike(options):
    rng = np.random.default_rng(7)
    torch.set_printoptions(**options)
    printing.set_printoptions(**options)
    assert printing.get_printoptions() == torch._tensor_str.get_printoptions()
    for dtype in FLOATS + INTS + COMPLEX:
        for _ in range(15):
            assert_same(random_tensor(rng, dtype))
    assert_same(torch.linspace(0, 1, 1200))
    assert_same(torch.linspace(0, 1, 1200).reshape(30, 40))
    assert_same(torch.arange(24).reshape(2, 3, 4))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(width=32), max_size=12))
def test_any_floats_print_alike(values):
    assert_same(torch.tensor(values))


def test_facts_follow_and_wrap():
    leaf = torch.ones(2, 3, requires_grad=True)
    assert wend_text(leaf, requires_grad=True) == repr(leaf)
    made = leaf * torch.linspace(0, 1, 3).double() + 1
    assert wend_text(made, grad_fn="AddBackward0", requires_grad=True) == repr(made)
    for n in range(1, 24):
        row = torch.ones(n, dtype=torch.float64, requires_grad=True)
        assert wend_text(row, requires_grad=True) == repr(row)


def test_meta_tensor_has_no_numbers():
    for dtype in (torch.float32, torch.int32):
        meta = torch.empty(2, 3, device="meta", dtype=dtype)
        text = printing.describe(
            None,
            shape=(2, 3),
            dtype=str(dtype),
            usual_dtype=dtype == torch.float32,
            default_dtype=dtype == torch.float32,
            device="meta",
        )
        assert text == repr(meta)


def test_printoptions_restores_even_after_an_error():
    before = printing.get_printoptions()
    with pytest.raises(KeyError), printing.printoptions(precision=1, sci_mode=True):
        assert printing.get_printoptions()["precision"] == 1
        raise KeyError
    assert printing.get_printoptions() == before


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"profile": "tiny"}, ArgumentError, "default, short, full"),
        ({"precision": -1}, ArgumentError, "precision must not be negative"),
        ({"precision": 1.5}, ArgumentTypeError, "precision must be an int"),
        ({"linewidth": "80"}, ArgumentTypeError, "linewidth must be an int"),
        ({"threshold": "many"}, ArgumentTypeError, "threshold must be a number"),
    ],
)
def test_bad_options_change_nothing(options, error, words):
    before = printing.get_printoptions()
    with pytest.raises(error, match=words):
        printing.set_printoptions(**{"linewidth": 33, **options})
    assert printing.get_printoptions() == before


class TestHtml:
    def test_small_matrix_is_a_table(self):
        text = printing.array_html(np.array([[1.5, 2.0], [3.0, -4.0]]), "(2, 2) torch.float64", "t")
        assert text.count("<tr>") == 2 and text.count("<td") == 4
        assert "1.5000" in text and "-4.0000" in text and "(2, 2) torch.float64" in text

    def test_long_dims_are_cut_in_the_middle(self):
        text = printing.array_html(np.arange(10_000).reshape(100, 100), "c", "t")
        assert text.count("<tr>") == 11
        assert "&#8942;" in text and "&#8943;" in text and "9999" in text

    @pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 2, 2)])
    def test_every_rank_gives_one_div(self, shape):
        text = printing.array_html(np.zeros(shape), "caption", "tensor(<x>)")
        assert text.startswith("<div>") and text.endswith("</div>") and "caption" in text

    def test_text_is_escaped(self):
        text = printing.array_html(None, "<script>", "<b>&")
        assert "<script>" not in text and "&lt;b&gt;&amp;" in text


class TestTensors:
    """The same through real tensors: what `repr`, `format` and a notebook show."""

    def test_repr(self):
        for values in ([1.0, 2.5], [[1, 2], [3, 4]], 3, True, [], [1e9, 1.0], [1j]):
            for keywords in ({}, {"dtype": "float64"}, {"dtype": "complex64"}):
                ours = {k: dtypes.NAMES[v] for k, v in keywords.items()}
                theirs = {k: getattr(torch, v) for k, v in keywords.items()}
                try:
                    expected = repr(torch.tensor(values, **theirs))
                except TypeError:
                    continue
                assert repr(wend.tensor(values, **ours)) == expected
                assert str(wend.tensor(values, **ours)) == expected

    def test_a_variable_and_a_parameter(self):
        leaf = wend.tensor([1.0, 2.0], requires_grad=True)
        assert repr(leaf) == "tensor([1., 2.], requires_grad=True)"
        assert repr(leaf.detach()) == "tensor([1., 2.])"

    def test_default_dtype_needs_no_mention(self):
        dtypes.set_default_dtype(dtypes.float64)
        try:
            made = wend.tensor([1.0])
            assert repr(made) == "tensor([1.])"
            assert "dtype=torch.float32" in repr(wend.tensor([1.0], dtype=dtypes.float32))
        finally:
            dtypes.set_default_dtype(dtypes.float32)

    def test_format_of_a_number(self):
        assert f"{wend.tensor(1.23456):.2f}" == "1.23"
        assert f"{wend.tensor(3):>4}" == "   3"
        assert f"{wend.tensor(0.5, dtype=dtypes.bfloat16):.1f}" == "0.5"
        assert f"{wend.tensor([1.0, 2.0])}" == "tensor([1., 2.])"
        with pytest.raises(TypeError, match="format"):
            f"{wend.tensor([1.0, 2.0]):.2f}"

    def test_subclasses_show_their_name(self):
        class Special(wend.Tensor):
            pass

        made = wend.tensor([1.0]).as_subclass(Special)
        assert repr(made) == "Special([1.])"

    def test_html_of_a_tensor(self):
        text = wend.tensor([[1.0, 2.0]], requires_grad=True)._repr_html_()
        assert "(1, 2), torch.float32, requires grad" in text and "<table>" in text
