"""Calls of the ops with values at which formulas go wrong, and what PyTorch makes of them.

The ops come from the registry, and so do the calls: each sample of an op is called again with its
floats replaced. Of a pointwise op (one that computes each element from those in its place) the
operands hold every combination of special values, of any other op several draws of them, with ties.
Results, gradients and second gradients are compared: NaN equals NaN, and the sign of a zero counts
in results.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import harness
import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.core.primitive import Sample

INF, NAN = float("inf"), float("nan")
# fmt: off
#: Zeros, ends of domains, infinities, what is around the branches of activations and losses.
FEW = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, INF, -INF, NAN]
MORE = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, 0.25, 20.0, -20.0, 20.5, 100.0,
        -100.0, 1e-3, -1e-3, 1e-5, INF, -INF, NAN]
#: What other than pointwise ops are given: draws of each row.
PALETTES = [[0.0, 1.0], [0.0, -0.0], [1.0, -1.0, 2.0], [0.0, 1.0, -2.0, 3.0], [INF, 1.0, 0.0],
            [-INF, -1.0, 2.0], [INF, -INF, 0.5], [NAN, 0.0, 1.0, 2.0, -3.0],
            [INF, -INF, NAN, 0.0, -0.0, 1.0, -1.0, 0.5], [INF], [-INF], [NAN], [0.0], [-0.0], [1.0]]
# fmt: on


def ends(dtype: DType) -> list[float]:
    """The least and greatest numbers of a dtype, and some that overflow or vanish when squared."""
    info = dtypes.finfo(dtype)
    small, great = float(info.smallest_normal), float(info.max)
    found = [small, -small, small / 8, -small / 8, great, -great, float(1 - info.eps / 2)]
    return [*found, float(1 + info.eps), great**0.6, -(great**0.6), small**0.6, great / 8]


def comparable() -> list[Any]:
    """The ops of floats that PyTorch has, and that do not draw numbers."""
    ops = [op for op in harness.OPS if "float" in op.facts.supports and not op.facts.random]
    return [op for op in ops if harness.torch_function(op) is not None]


class Call(NamedTuple):
    """A call of an op, whether it is pointwise, and what its gradients are weighted with."""

    sample: Sample
    pointwise: bool
    weight: float = 1.0


def pointwise_calls(op: Any, function: Any, dtype: DType) -> list[Call]:
    """The calls with every combination of values, once each; none of other than pointwise ops."""
    found = calls(op, function, dtype, palettes=[])
    return [call for call in found if call.pointwise and call.weight]


def calls(
    op: Any, function: Any, dtype: DType, palettes: list[list[float]] = PALETTES
) -> Iterator[Call]:
    """Each sample of the op with its floats replaced by special values."""
    spread = set()
    for sample in harness.samples(op, dtype):
        floats = harness.leaves(sample)
        form = _form(sample)
        if not floats or form in spread:
            continue
        if is_pointwise(op, function, sample):
            spread.add(form)
            for grid in grids(op, function, sample, dtype):
                yield Call(grid, True)
                yield Call(grid, True, 0.0)
            continue
        if not sum(a.size for a in floats):
            yield Call(sample, False)
            continue
        rng = np.random.default_rng(zlib.crc32(op.name.encode()))
        for palette in palettes:
            draw = partial(rng.choice, palette)
            yield Call(_replaced(sample, lambda a, draw=draw: draw(a.shape)), False)


def _form(sample: Sample) -> str:
    """What a sample is besides the shapes and values of its floats."""
    return repr(harness.map_arrays(sample, lambda a: a.dtype))


def _replaced(sample: Sample, values: Any) -> Sample:
    """The sample with values(array) in the place of each float array."""
    return harness.map_arrays(
        sample,
        lambda a: np.asarray(values(a)).astype(a.dtype) if harness.is_float(a) else a,
    )


def _unreduced(op: Any, sample: Sample) -> Sample:
    """The sample as a call that gives the losses themselves."""
    if not any(p.name == "reduction" for p in op.params):
        return sample
    return Sample(*sample.args, **{**sample.kwargs, "reduction": "none"})


def is_pointwise(op: Any, function: Any, sample: Sample) -> bool:
    """Whether each element of PyTorch's result is computed from the operands' in its place."""
    found: list[np.ndarray] = []
    harness.map_arrays(sample, found.append)
    if not all(harness.is_float(a) or a.dtype == np.bool_ for a in found):
        return False
    rng = np.random.default_rng(0)
    order = rng.permutation(8)
    values = [rng.uniform(0.05, 0.95, 8) for _ in found]

    def result(shuffled: bool) -> Any:
        rest = iter(values)

        def operand(a: np.ndarray) -> np.ndarray:
            drawn = next(rest)[order if shuffled else slice(None)]
            return (drawn > 0.5) if a.dtype == np.bool_ else drawn.astype(a.dtype)

        moved = harness.torch_sample(_unreduced(op, harness.map_arrays(sample, operand)))
        return function(*moved.args, **moved.kwargs)

    plain, error = harness.outcomes(result, False)
    other, refusal = harness.outcomes(result, True)
    if error is not None or refusal is not None:
        return False
    pairs = zip(harness.as_tuple(plain), harness.as_tuple(other), strict=True)
    return all(
        tuple(a.shape) == (8,) and np.allclose(_wide(a)[order], _wide(b), 1e-3) for a, b in pairs
    )


def _wide(result: Any) -> np.ndarray:
    return harness.from_torch(result).astype(np.float64)


def grids(op: Any, function: Any, sample: Sample, dtype: DType) -> Iterator[Sample]:
    """The sample with flat operands that hold all combinations, each number being every other."""
    sample = _unreduced(op, sample)
    given: list[np.ndarray] = []
    harness.map_arrays(sample, given.append)
    unary = len(given) == 1
    values = MORE + ends(dtype) if unary else MORE + ends(dtype)[:6] if len(given) == 2 else FEW
    axes = [[False, True] if a.dtype == np.bool_ else values for a in given]
    rows = iter(list(zip(*itertools.product(*axes), strict=True)))
    whole = harness.map_arrays(sample, lambda a: np.array(next(rows)).astype(a.dtype))
    numbers = [i for i, p in enumerate(op.params) if p.kind == "operand"]
    places = [i for i in numbers if i < len(sample.args) and type(sample.args[i]) is float]
    if not places:
        yield accepted(function, whole)
    for place in places:
        for number in [*FEW, 0.25, 3.0, -0.5]:
            args = list(whole.args)
            args[place] = number
            yield accepted(function, Sample(*args, **whole.kwargs))


def accepted(function: Any, sample: Sample) -> Sample:
    """The elements of flat operands that PyTorch does not refuse."""

    def call(part: Sample) -> Any:
        moved = harness.torch_sample(part)
        return function(*moved.args, **moved.kwargs)

    if harness.outcomes(call, sample)[1] is None:
        return sample
    size = next(a.size for a in _arrays(sample))
    keep = [i for i in range(size) if harness.outcomes(call, one(sample, i))[1] is None]
    return harness.map_arrays(sample, lambda a: a[keep])


def _arrays(sample: Sample) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    harness.map_arrays(sample, found.append)
    return found


def one(sample: Sample, i: int) -> Sample:
    """Only the i-th element of each operand."""
    return harness.map_arrays(sample, lambda a: a[i : i + 1])


# -- results and gradients, of either library -------------------------------------------------


class Library(NamedTuple):
    """What `outcome` needs of PyTorch or of Wend."""

    tensor: Callable[..., Any]  # (array, whether it requires grad) -> tensor
    array: Callable[[Any], np.ndarray]
    grad: Callable[..., Any]


def wend_library() -> Library:
    """Wend."""
    from wend._frontend.autograd.backward import grad

    return Library(harness.tensor, harness.value, grad)


def torch_library() -> Library:
    """PyTorch."""
    import torch

    return Library(harness.to_torch, harness.from_torch, torch.autograd.grad)


def outcome(library: Library, function: Any, call: Call, order: int) -> dict[str, np.ndarray]:
    """Results, gradients (order 1) and the gradients of each of these (order 2), by name."""
    inputs: list[Any] = []

    def operand(array: np.ndarray) -> Any:
        made = library.tensor(array, harness.is_float(array))
        if harness.is_float(array):
            inputs.append(made)
        return made

    given = harness.map_arrays(call.sample, operand)
    if library.tensor is harness.to_torch:
        given = with_torch_dtypes(given)
    results = [
        r for r in harness.as_tuple(function(*given.args, **given.kwargs)) if hasattr(r, "dtype")
    ]
    found = {f"result {i}": library.array(r.detach()) for i, r in enumerate(results)}
    outs = [r for r in results if r.requires_grad]
    if not order or not outs:
        return found
    weights = [_filled(library, r, call.weight) for r in outs]
    first = library.grad(outs, inputs, weights, create_graph=order > 1, allow_unused=True)
    for i, (g, x) in enumerate(zip(first, inputs, strict=True)):
        found[f"gradient {i}"] = _array(library, g, x)
    for i, g in enumerate(first if order > 1 else ()):
        if g is not None and g.requires_grad:
            ones = [_filled(library, g, 1.0)]
            second = library.grad([g], inputs, ones, allow_unused=True, retain_graph=True)
            for j, (s, x) in enumerate(zip(second, inputs, strict=True)):
                found[f"second gradient {i}{j}"] = _array(library, s, x)
    return found


def with_torch_dtypes(sample: Sample) -> Sample:
    """The sample with PyTorch's dtypes in the place of Wend's."""
    import torch

    def each(value: Any) -> Any:
        return getattr(torch, value.name) if isinstance(value, DType) else value

    return Sample(*map(each, sample.args), **{k: each(v) for k, v in sample.kwargs.items()})


def _filled(library: Library, like: Any, weight: float) -> Any:
    dtype = library.array(like.detach()).dtype
    return library.tensor(np.full(tuple(like.shape), weight).astype(dtype), False)


def _array(library: Library, g: Any, x: Any) -> np.ndarray:
    """A gradient; zeros in the place of none."""
    if g is None:
        return np.zeros(tuple(x.shape), library.array(x.detach()).dtype)
    return library.array(g.detach())


def wanted(function: Any, call: Call, order: int) -> tuple[dict[str, np.ndarray] | None, int]:
    """(PyTorch's outcome, or None if it refuses the call; the order up to which it has one)."""
    for least in range(order, -1, -1):
        found, refusal = harness.outcomes(outcome, torch_library(), function, call, least)
        if refusal is None:
            return found, least
    return None, -1


# -- comparing --------------------------------------------------------------------------------

Excuse = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (Wend's, PyTorch's) -> mask


def anything(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.ones(a.shape, bool)


def not_a_number(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.isnan(b)


def not_finite(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ~np.isfinite(a) | ~np.isfinite(b)


def zeros(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == 0) & (b == 0)


def pole(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.isinf(a) | np.isnan(a)


class Known(NamedTuple):
    """A difference that is no fault: of which ops, outcomes and elements, and why."""

    ops: str
    outcomes: str
    excuse: Excuse
    reason: str

    def holds(self, op: str, outcome: str) -> bool:
        """Whether it is about this outcome of this op."""
        return op in self.ops.split() and outcome.startswith(tuple(self.outcomes.split("|")))


_ALL = "result|gradient|second"
# fmt: off
#: The one list of differences from PyTorch at special values; docs/compatibility.md sums it up.
KNOWN = (
    Known("topk kthvalue median_dim nanmedian_dim mode", "result 1|gradient|second", anything,
          "which of several equal elements, or of several NaN, is chosen is left open"),
    Known("mode", "result 0", not_finite, "PyTorch sorts by <, which gives NaN no place"),
    Known("adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d",
          "result 1|gradient|second", anything, "of several NaN the first is chosen, not the last"),
    Known("add_scaled sub_scaled add_alpha_first sub_alpha_first lerp", "result", not_finite,
          "PyTorch multiplies and adds in one instruction, which does not overflow in between"),
    Known("addcdiv addcdiv_value_first cosine_similarity dist norm normalize pairwise_distance "
          "renorm logaddexp logaddexp2 mish rnn_relu_cell sinc hypot digamma polygamma lgamma "
          "mvlgamma ldexp div_rounded div igamma igammac", "second", not_a_number,
          "the limit is a number where PyTorch multiplies 0 by an infinite slope"),
    Known("digamma polygamma lgamma mvlgamma", _ALL, pole,
          "infinite at the poles, where PyTorch's sine of a multiple of pi is not quite 0"),
    Known("binary_cross_entropy", "second", anything, "PyTorch adds 1e-12 to the probabilities"),
    Known("huber_loss smooth_l1_loss hardswish", "second", lambda a, b: b == 0,
          "PyTorch's second derivative takes NaN to lie outside, its first inside"),
    Known("huber_loss", "second", not_a_number, "beside a weight, of an infinite distance"),
    Known("pow float_power", "result|gradient", lambda a, b: zeros(a, b) | not_finite(a, b),
          "square roots of -0 and -inf: the function hands 0.5 to `pow_special`"),
    Known("cdist", "result|gradient", not_finite,
          "infinite coordinates differ by NaN, which PyTorch leaves out of sums and maxima"),
    Known("prod cumprod matrix_power", _ALL, not_finite,
          "PyTorch divides by the element where none is 0, or multiplies in another order"),
    Known("logcumsumexp", "gradient|second", not_finite,
          "PyTorch goes through logarithms of gradients, NaN behind nothing but -inf"),
    Known("norm", "gradient", not_finite, "of negative orders, of infinite elements"),
    Known("renorm glu cross_entropy", "gradient|second", not_finite,
          "sums of infinite products, in another order"),
    Known("std_mean var_mean", "result 1", not_finite,
          "the mean beside an infinite variance, which PyTorch updates with NaN"),
    Known("var var_mean", "gradient|second", not_finite, "of a single element, and 1 less"),
    Known("triplet_margin_loss", "gradient|second", anything,
          "distances that tie but for rounding"),
    Known("pow_special", "gradient|second", not_finite,
          "slopes at -inf of square roots, which PyTorch takes for powers there"),
    Known("cholesky_inverse cholesky_solve det logdet ormqr", _ALL, not_finite,
          "infinite and singular matrices, with which two LAPACKs divide in another order"),
    Known("ormqr", "gradient|second", anything,
          "PyTorch undoes reflections one by one, which loses digits in float32; Wend's are exact"),
    Known("geqrf", "result", anything, "columns that depend on each other but for rounding"),
    Known("softplus sinc", "second", anything, "1e-9 at the threshold; differences that cancel"),
    Known("remainder ldexp div div_rounded hypot", _ALL, not_finite,
          "divisors below the least normal number, and products that overflow"),
    Known("fmod", "gradient", not_finite, "divisors below the least normal number"),
    Known("cdist", "gradient", anything, "beside infinite coordinates; ties have their own test"),
    Known("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d group_norm "
          "interpolate", _ALL, not_finite, "sums with infinite parts, taken in another order"),
    Known("frexp", "gradient|second", not_finite, "PyTorch takes the powers of two in float32"),
    Known("polygamma", "result|gradient", not_finite, "at infinity, where PyTorch has NaN"),
    Known("polar", "gradient|second", anything,
          "the sign of the largest numbers, whose size overflows in PyTorch; terms that cancel"),
    Known("sinc mvlgamma", "gradient|second", anything, "differences that cancel, in float32"),
)
# fmt: on


def unexcused(op: str, name: str, pointwise: bool, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Flat indices of the elements that differ, and are not of a kind that `KNOWN` lists."""
    wrong = ~alike(name, got, want, pointwise)
    for known in KNOWN:
        if wrong.any() and known.holds(op, name):
            wrong &= ~known.excuse(got.astype(np.float64), want.astype(np.float64))
    return np.flatnonzero(wrong)


def alike(name: str, got: np.ndarray, want: np.ndarray, pointwise: bool) -> np.ndarray:
    """Which elements agree: NaN with NaN; zeros by their signs in results of pointwise ops.

    Elsewhere the sign of a zero depends on the order of a sum, in PyTorch on the width of vectors.
    """
    if got.dtype.kind in "biu":
        return np.asarray(got == want)
    bound = harness.TOLERANCE[dtypes.from_numpy(got.dtype)] * (100 if got.itemsize == 8 else 2)
    a, b = got.astype(np.float64), want.astype(np.float64)
    floor = 1e-2 if got.itemsize > 2 else 1.0
    if not pointwise and got.itemsize < 8:  # what cancels is of the size of the others
        floor = 1.0 + float(np.max(np.abs(b), initial=0, where=np.isfinite(b)))
    with np.errstate(all="ignore"):
        close = np.abs(a - b) <= bound * (np.abs(b) + floor)
    close |= (a == b) | (np.isnan(a) & np.isnan(b))
    if pointwise and name.startswith("result"):
        close &= ~(zeros(a, b) & (np.signbit(a) != np.signbit(b)))
    return np.asarray(close)


def faults(op: Any, function: Any, given: Iterable[Call], order: int) -> list[str]:
    """What Wend computes otherwise than PyTorch, as programs."""
    found: list[str] = []
    for call in given:
        want, order_there = wanted(function, call, order)
        if want is None:
            continue
        got, error = harness.outcomes(outcome, wend_library(), op.function, call, order_there)
        if error is not None:
            found.append(harness.snippet(op, call.sample, f"raises {error!r}; PyTorch does not"))
            continue
        for name in sorted({*got, *want}):
            # No gradient here is one of zeros there.
            a, b = (found_in(got, want, name), found_in(want, got, name))
            if a.shape != b.shape or a.dtype != b.dtype:
                found.append(harness.snippet(op, call.sample, f"{name} is {a.dtype}{a.shape}"))
                continue
            for i in unexcused(op.name, name, call.pointwise, a, b):
                if call.pointwise and _alone(function, call, int(i), order_there, name, a):
                    continue
                small = one(call.sample, int(i)) if call.pointwise else call.sample
                fault = f"{name}, weighted {call.weight}, is {a.flat[i]}, should be {b.flat[i]}"
                found.append(harness.snippet(op, small, fault))
                break
    return found


def found_in(outcome: dict[str, np.ndarray], other: dict[str, np.ndarray], name: str) -> Any:
    """The array of a name, or zeros like the other's."""
    return outcome[name] if name in outcome else np.zeros_like(other[name])


def _alone(function: Any, call: Call, i: int, order: int, name: str, got: np.ndarray) -> bool:
    """Whether PyTorch has Wend's value where the element is computed by itself, without vectors."""
    alone, refusal = harness.outcomes(
        outcome, torch_library(), function, call._replace(sample=one(call.sample, i)), order
    )
    if refusal is not None or name not in alone:
        return False
    return bool(alike(name, got.reshape(-1)[i : i + 1], alone[name].reshape(-1), True).all())
