"""Variants of kernels: the operands of their conditions, the table, and who computes a product."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from products import product
from targets import targets

from wend._engine.compiler.kernels.conv import forward
from wend._engine.compiler.kernels.conv.input_gradient import PhaseTaps, keeps_order
from wend._engine.compiler.kernels.conv.sizes import first_variant
from wend._engine.compiler.kernels.conv.winograd.squares import has_tiles
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int, every
from wend._engine.compiler.llvm_ir.variants import Variant, variant, variants_of
from wend.debug import variants

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "wend"

# -- integers and conditions ----------------------------------------------------------------------

FORMULAS = [
    lambda x, y: x + 3 - y * 2,
    lambda x, y: 100 - x // 3 + y % 5,
    lambda x, y: 7 * x + (y & 6) + 1000 // (x + 1),
    lambda x, y: x.ceil_div(4) + x.at_most(y) * 10 + y.at_least(3),
    lambda x, y: ((x == y) | (x < 3) & ~(y >= 5)).choose(x, y + 1),
    lambda x, y: ((x != 4) & (x > y) & (y <= 6)).choose(1, 0),
    lambda x, y: x.is_within(y).choose(y, x),
    lambda x, y: every([x >= 0, y > 2, x < 6]).choose(2, 3),
]


OPERATIONS = {
    "add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "udiv": int.__floordiv__,
    "urem": int.__mod__, "and": int.__and__, "or": int.__or__, "xor": int.__xor__,
}  # fmt: skip
RELATIONS = {
    "eq": int.__eq__, "ne": int.__ne__, "slt": int.__lt__, "sle": int.__le__,
    "sgt": int.__gt__, "sge": int.__ge__,
    "ule": lambda x, y: x % 2**64 <= y % 2**64,
}  # fmt: skip


class Numbers:
    """In place of a routine: computes instructions at once, and names the results."""

    def __init__(self, **values):
        self.values = {"true": 1, "false": 0} | {f"%{name}": x for name, x in values.items()}

    def number(self, word):
        return self.values[word] if word in self.values else int(word)

    def let(self, instruction):
        head, *operands = instruction.replace(",", "").split()
        name = f"%v{len(self.values)}"
        if head == "icmp":
            relation, _, x, y = operands
            found = int(RELATIONS[relation](self.number(x), self.number(y)))
        elif head == "select":
            _, condition, _, x, _, y = operands
            found = self.number(x if self.number(condition) else y)
        else:
            _, x, y = operands
            found = OPERATIONS[head](self.number(x), self.number(y))
        self.values[name] = found
        return name


@pytest.mark.parametrize("formula", FORMULAS)
def test_code_computes_what_known_numbers_give(formula):
    for x, y in itertools.product(range(8), range(8)):
        f = Numbers(x=x, y=y)
        assert f.number(str(formula(Int("%x", f), Int("%y", f)))) == formula(Int(x), Int(y)).value


def test_negative_numbers_are_in_no_range():
    f = Numbers(x=-1)
    assert not f.number(str(Int("%x", f).is_within(5)))
    assert not Int(-1).is_within(5)


def test_instructions_stand_in_pythons_order():
    f = Routine("f", [("i64", "n")])
    n = Int("%n", f)
    with f.when((n + 1 < 5) & ~(n == 3)):
        f.store("i64", str(2 * n), "null")
    assert f.text().splitlines()[2:8] == [
        "  %v1 = add i64 %n, 1",
        "  %v2 = icmp slt i64 %v1, 5",
        "  %v3 = icmp eq i64 %n, 3",
        "  %v4 = xor i1 %v3, true",
        "  %v5 = and i1 %v2, %v4",
        "  br i1 %v5, label %then.v6, label %next.v6",
    ]


def test_a_condition_in_code_has_no_truth_value():
    with pytest.raises(TypeError, match="the condition %x is known only when the code runs"):
        bool(Bool("%x", Routine("f", [])))


# -- the table ------------------------------------------------------------------------------------


@pytest.fixture
def family(monkeypatch):
    monkeypatch.setattr("wend._engine.compiler.llvm_ir.variants._AFTER", {})
    return "test"


def test_variants_come_in_the_order_that_they_name(family):
    @variant(family, after="First")
    class Second(Variant): ...

    @variant(family)
    class First(Variant): ...

    assert variants_of(family) == [First, Second]


def test_a_place_is_given_once(family):
    @variant(family)
    class First(Variant): ...

    with pytest.raises(ValueError, match="variant: First is after '' already"):
        variant(family)(First)


def test_a_variant_after_none_is_an_error(family):
    @variant(family, after="Nobody")
    class Lost(Variant): ...

    with pytest.raises(ValueError, match="variants_of: Lost of test come after none of it"):
        variants_of(family)


def test_debug_prints_the_table():
    table = variants()
    assert {row.family for row in table.rows} >= {"convolve", "convolve_weight", "product"}
    assert all((PACKAGE / "_engine" / row.file).exists() for row in table.rows)
    assert all(row.when and row.when == row.when.strip() for row in table.rows)
    text = str(variants("product"))
    assert text.startswith("product\n  DotProducts  Up to 11 rows; ")
    assert "compiler/kernels/matmul/blocked.py" in text
    assert text.count("\n") == 2 * len(variants("product").rows)
    assert "<td>Blocked</td>" in table._repr_html_()


def test_debug_knows_no_other_family():
    with pytest.raises(ValueError, match="variants: 'products' is none of 'convolve', "):
        variants("products")


def test_pages_show_the_table():
    pages = "".join(
        (ROOT / "docs/internals" / name).read_text(encoding="utf-8")
        for name in ("conv.md", "matmul.md")
    )
    shown = re.findall(r"^\| `(\w+)` \| (.*) \| `(.*)` \|$", pages, flags=re.MULTILINE)
    assert sorted(shown) == sorted(row[1:] for row in variants().rows)


# -- products -------------------------------------------------------------------------------------


def test_variants_of_products_are_in_order():
    assert [made.__name__ for made in variants_of("product")] == [
        "DotProducts", "Transposed", "Outer", "Held", "Upright", "Streamed", "ColumnDots", "Blocked"
    ]  # fmt: skip


def test_sizes_known_beforehand_answer_as_the_code_does():
    weight = {"left_row": 700, "left_step": 1, "right_step": 1, "right_column": 700}
    p = matmul.sizes_of("float32", rows=3, columns=500, depth=700, **weight)
    assert p.both_along
    assert p.takes("DotProducts")
    assert not p.takes("Blocked")
    assert not matmul.sizes_of("float32", rows=500, columns=9, depth=2, **weight).takes("Outer")


EXTENTS = (1, 3, 4, 8, 11, 12, 17, 33, 40, 64, 300)
NAMES = [name for name, _ in targets()]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("target", [target for _, target in targets()], ids=NAMES)
def test_one_variant_computes_each_column_of_a_product(dtype, target):
    taken = set()
    for rows, columns, depth in itertools.product(EXTENTS, EXTENTS, EXTENTS):
        for left in ({"left_row": depth, "left_step": 1}, {"left_row": 1, "left_step": rows}):
            for right in (
                {"right_step": columns, "right_column": 1},
                {"right_step": 1, "right_column": depth},
                {"packed": 1},
            ):
                sizes = {"rows": rows, "columns": columns, "depth": depth, "out_row": 4 * columns}
                p = matmul.sizes_of(dtype, target, **sizes, **left, **right)
                names = [made.__name__ for made, condition in p.chosen() if condition]
                taken.update(names)
                if p.few_columns.left_over:
                    assert names in (["Transposed", "Blocked"], ["ColumnDots", "Blocked"])
                else:
                    assert len(names) == 1
    assert taken >= {"DotProducts", "Blocked"}
    assert dtype == "bfloat16" or taken >= {"Transposed", "Outer", "Upright", "ColumnDots"}


@pytest.mark.parametrize(("name", "target"), targets())
@pytest.mark.parametrize("rows", [3, 4, 11])
def test_few_transposed_rows_times_one_column_are_added_once(rows, name, target):
    rng = np.random.default_rng(rows)
    left, weight = (rng.normal(size=size).astype(np.float32) for size in ((300, rows), (1, 300)))
    out = np.ones((rows, 1), np.float32)
    product(left.T, weight.T, out, "float32", target=target, accumulate=1)
    np.testing.assert_allclose(out, left.T @ weight.T + 1, rtol=1e-4, atol=1e-4)


# -- convolutions ---------------------------------------------------------------------------------


def sizes_of_convolution(name, dtype="float32", **words):
    """The sizes of one image of 32 channels and filters, 3 x 3, but for other words."""
    given = {
        "images": 1, "batch": 1, "groups": 1, "channels": 32, "filters": 32,
        "input_height": 56, "input_width": 56, "out_height": 56, "out_width": 56,
        "kernel_height": 3, "kernel_width": 3, "stride_height": 1, "stride_width": 1,
        "dilation_height": 1, "dilation_width": 1, "pad_height": 1, "pad_width": 1,
        "input_column": 1, "out_column": 1, "last_column": 56 * 56, "last_filter": 32,
    }  # fmt: skip
    return forward.sizes_of(name, dtype, **{**given, **words})


def test_variants_of_convolutions_are_in_order():
    families = ("convolve", "convolve, shifted image", "convolve, image by image",
                "convolve_input", "convolve_input, phase", "convolve_weight")  # fmt: skip
    assert [[made.__name__ for made in variants_of(family)] for family in families] == [
        ["Winograd4x4", "Winograd2x2", "ShiftedImage"],
        ["Winograd4x1"],
        ["DirectImage", "Patches"],
        ["WinogradInput"],
        ["OrderedTaps", "ReversedTaps"],
        ["WinogradWeight", "DirectWeight", "ImageLines"],
    ]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({}, "Winograd2x2"),
        ({"channels": 3}, "ShiftedImage"),
        ({"kernel_height": 5, "kernel_width": 5, "channels": 8}, "ShiftedImage"),
        ({"stride_height": 2, "stride_width": 2}, "Patches"),
        ({"channels": 1, "filters": 1, "groups": 32}, "DirectImage"),
    ],
)
def test_known_sizes_of_a_convolution_find_their_variant(words, name):
    c = sizes_of_convolution("convolve", **words)
    if not has_tiles(c.shape, c.dtype) or c.shape.bytes < 32:
        pytest.skip("this processor has fewer variants")
    if name == "Winograd2x2" and c.pools:
        name = "Winograd4x4"
    found = first_variant("convolve", c) or first_variant("convolve, image by image", c)
    assert found == name
    columns = c.pools and words == {"channels": 3}
    assert first_variant("convolve, shifted image", c) == ("Winograd4x1" if columns else "")


def test_known_sizes_of_gradients_find_their_variant():
    many = {"channels": 64, "filters": 64}
    names = [
        first_variant("convolve_weight", sizes_of_convolution("convolve_weight", **words))
        for words in (many, {"channels": 1, "filters": 1, "groups": 32}, {"kernel_height": 5})
    ]
    c = sizes_of_convolution("convolve_input", **many)
    taken = has_tiles(c.shape, c.dtype)
    squares = taken and c.shape.lanes >= 8
    assert names == ["WinogradWeight" if squares else "ImageLines", "DirectWeight", "ImageLines"]
    assert first_variant("convolve_input", c) == ("WinogradInput" if taken else "")
    for high, name in ((3, "OrderedTaps"), (2, "ReversedTaps")):
        phase = PhaseTaps(c, keeps_order(c), Int(high), Int(3))
        applies = [
            made.__name__ for made in variants_of("convolve_input, phase") if made.applies(phase)
        ]
        assert applies == [name]
