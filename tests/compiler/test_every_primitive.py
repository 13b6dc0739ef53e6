"""Every op as machine code gives what its reference gives: odd shapes, dtypes, layouts, values.

Samples come from the registry (0-d, empty and size-1 operands among them). Operands lie in memory
as they are, transposed, as every third element, behind an offset, or as a broadcast of one
element; what machine code reads is then a view. A case is drawn from a seed and can be run again by
`check(*case_of(seed))`.
"""

import random

import harness
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wend as torch
from tries import own_trie
from wend._engine.base import config, dtypes
from wend._engine.core.primitive import Sample
from wend._engine.ops.neural.attend import Attention

LAYOUTS = ("dense", "transposed", "strided", "offset", "reversed", "broadcast")
#: Floats of a case: as the sample has them, or special ones strewn in.
VALUES = ("plain", "special")
OPS = [op for op in harness.OPS if harness.supported(op)]


class Case:
    """An op, a sample of it, and how its operands lie; with or without its gradient."""

    def __init__(self, draw: random.Random) -> None:
        self.op = draw.choice(OPS)
        self.dtype = draw.choice(harness.supported(self.op))
        samples = harness.samples(self.op, self.dtype)
        self.sample = draw.choice(samples)
        if harness.has_grid(self.op) and draw.random() < 0.4:
            self.sample = Sample(*harness.special_grid(self.op, self.dtype))
        elif draw.choice(VALUES) == "special" and not is_attention(self.op):
            # In the first operand: the others may be weights, which padding multiplies with 0 too,
            # or results that belong to it. Of attention, pairs that the mask leaves out are
            # multiplied by zero by the reference and not looked at by machine code.
            given = iter([lambda a: strewn(a, draw)])
            self.sample = harness.map_arrays(
                self.sample, lambda a: next(given, lambda other: other)(a)
            )
        self.layouts: list[str] = []
        harness.map_arrays(self.sample, lambda a: self.layouts.append(draw.choice(LAYOUTS)))
        self.gradient = self.dtype.category == dtypes.FLOAT and draw.random() < 0.5

    def __str__(self) -> str:
        return f"{self.dtype}, {self.layouts}, gradient {self.gradient}"


def is_attention(op) -> bool:
    """Whether an op is attention, or a composite of it."""
    return issubclass(op, Attention) or op.name in ("attention", "attention_dropout")


def strewn(array: np.ndarray, draw: random.Random) -> np.ndarray:
    """Floats with a few infinities, NaN, zeros and tiny numbers among them."""
    if not harness.is_float(array) or array.size == 0:
        return array
    array = array.copy()
    for value in (np.inf, -np.inf, np.nan, -0.0, 1e-40):
        if draw.random() < 0.5:
            array[tuple(draw.randrange(n) for n in array.shape)] = value
    return array


def laid_out(array: np.ndarray, layout: str, wants: bool):
    """(the leaf, a view of it with the elements of the array)."""
    if layout == "transposed" and array.ndim > 1:
        leaf = harness.tensor(np.ascontiguousarray(np.swapaxes(array, 0, -1)), wants)
        return leaf, leaf.transpose(0, -1)
    if layout == "strided" and array.ndim:
        leaf = harness.tensor(np.repeat(array, 3, axis=-1), wants)
        return leaf, leaf[..., ::3]
    if layout == "offset" and array.ndim:
        leaf = harness.tensor(np.concatenate([array[:1], array, array[:1]]), wants)
        first = min(1, array.shape[0])
        return leaf, leaf[first : first + array.shape[0]]
    if layout == "reversed" and array.ndim:
        leaf = harness.tensor(np.ascontiguousarray(array[::-1]), wants)
        return leaf, leaf.flip(0)
    if layout == "broadcast" and array.ndim and array.shape[0] == 1:
        leaf = harness.tensor(array[0], wants)
        return leaf, leaf.expand(array.shape)
    leaf = harness.tensor(array, wants)
    return leaf, leaf


def run(case: Case, compiled: bool) -> list[np.ndarray]:
    """Results, and gradients of the leaves, on a trie of their own."""
    layouts = iter(case.layouts)
    leaves = []

    def operand(array):
        wants = case.gradient and array.dtype == case.dtype.numpy
        leaf, view = laid_out(array, next(layouts), wants)
        if wants:
            leaves.append(leaf)
        return view

    with own_trie(), config.override(compile=compiled, wait=compiled):
        torch.manual_seed(3)
        given = harness.map_arrays(case.sample, operand)
        results = harness.as_tuple(case.op.function(*given.args, **given.kwargs))
        found = [harness.value(r) for r in results]
        made = [r for r in results if r.requires_grad]
        if leaves and made:
            sum((r * 0.5).sum() for r in made).backward()
            found += [harness.value(leaf.grad) for leaf in leaves if leaf.grad is not None]
        return found


def case_of(seed: int) -> Case:
    """The case of a seed."""
    return Case(random.Random(seed))


def fault_of(case: Case) -> str:
    """What machine code does otherwise than the reference; "" if nothing."""
    want, error = harness.outcomes(run, case, False)
    got, fault = harness.outcomes(run, case, True)
    if error is not None or fault is not None:
        return "" if type(error) is type(fault) else f"raises {fault!r}, the reference {error!r}"
    pairs = list(zip(got, want, strict=True))
    differences = [harness.difference(a, b, True) for a, b in pairs if not cancelled(a, b)]
    return next((d for d in differences if d), "")


def cancelled(got: np.ndarray, want: np.ndarray) -> bool:
    """Whether two arrays differ by the rounding of sums that cancel, of numbers about 1."""
    if got.shape != want.shape or got.dtype != np.float32 or not got.size:
        return False
    with np.errstate(all="ignore"):
        near = (np.abs(want) < 10) & (np.abs(got - want) < 2e-6)
    return bool(np.all(near | (got == want) | (np.isnan(got) & np.isnan(want))))


def check(case: Case) -> None:
    fault = fault_of(case)
    if fault:
        pytest.fail(harness.snippet(case.op, case.sample, f"{fault} ({case})"), pytrace=False)


@given(st.integers(0, 1 << 40))
@settings(max_examples=250, derandomize=True, deadline=None)
@pytest.mark.filterwarnings("ignore")
def test_drawn_cases(seed):
    check(case_of(seed))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("share", range(10))
def test_many_cases(share):
    for seed in range(share * 300, (share + 1) * 300):
        check(case_of(seed))
