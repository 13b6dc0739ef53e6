"""Random numbers: generators, seeds, and the functions and methods that draw.

Draws are counter-based: seed and offset are taken when the op is recorded, so that results do not
depend on fusion, batching or ops left out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Unpack

from wend._engine.base import random_state
from wend._engine.base.devices import AWAY, CPU, META, DeviceLike, usable
from wend._engine.base.devices import device as Device
from wend._engine.base.dtypes import BOOL, DType, finfo, float32, float64, iinfo, int64, uint8
from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeNotImplemented,
    ExecutionError,
    ValueRefused,
    WendError,
)
from wend._engine.base.random_state import RandomState
from wend._engine.base.shapes import int_of
from wend._engine.base.tracebacks import short_errors
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.core.symbolic import broadcast_shapes
from wend._engine.ops.elementwise.family import FLOATING
from wend._engine.ops.numeric import require
from wend._engine.ops.placing import beside
from wend._frontend.aliasing.rebinding import assign
from wend._frontend.creation import (
    Options,
    TensorOptions,
    empty,
    empty_like,
    finished,
    is_away,
    sizes_of,
    tensor,
)
from wend._frontend.memory_order import as_asked

__all__ = [
    "Generator",
    "_dirichlet_grad",
    "_sample_dirichlet",
    "_standard_gamma",
    "_standard_gamma_grad",
    "bernoulli",
    "binomial",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
]


class Generator:
    """A separate stream of random numbers: torch.Generator()."""

    def __init__(self, device: DeviceLike = "cpu", *, _state: RandomState | None = None) -> None:
        self._place = usable(device, "Generator")
        self._own = _state if _state is not None else RandomState()

    @property
    def _state(self) -> RandomState:
        return self._own

    @property
    def device(self) -> Device:
        """The device that was named; the numbers are the same on all."""
        return self._place

    def manual_seed(self, seed: int) -> Generator:
        """Restart as the stream of that seed; returns the generator."""
        self._state.manual_seed(int(seed))
        return self

    def seed(self) -> int:
        """Restart from a seed of the operating system, which is returned."""
        return self._state.reseed()

    def initial_seed(self) -> int:
        """The seed in force."""
        return self._state.seed

    def get_state(self) -> Tensor:
        """The state as a uint8 tensor."""
        return tensor(list(self._state.get_state()), dtype=uint8, device=CPU)

    def set_state(self, new_state: Tensor) -> Generator:
        """Go back to a state from get_state."""
        self._state.set_state(_state_bytes(new_state))
        return self

    def get_offset(self) -> int:
        """Raises ExecutionError: only generators of GPUs have an offset."""
        raise ExecutionError("Generator.get_offset: a generator of the CPU does not use an offset")

    def set_offset(self, offset: int) -> Generator:
        """Raises ExecutionError: only generators of GPUs have an offset."""
        raise ExecutionError("Generator.set_offset: a generator of the CPU does not use an offset")

    def graphsafe_get_state(self) -> Generator:
        """A generator in the state of now, for `graphsafe_set_state`."""
        return self.clone_state()

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Go back to the state of another generator."""
        return self.set_state(state.get_state())

    def clone_state(self) -> Generator:
        """A generator that will draw the same numbers."""
        return Generator(_state=self._state.clone())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._state.get_state(),)

    def __repr__(self) -> str:
        return f"<torch._C.Generator device='{self.device}'>"


def _restored(state: bytes) -> Generator:
    generator = Generator()
    generator._state.set_state(state)
    return generator


class _DefaultGenerator(Generator):
    """The generator of this thread's default stream."""

    @property
    def _state(self) -> RandomState:
        return random_state.current()


default_generator: Generator = _DefaultGenerator()


def _state_bytes(state: object) -> bytes:
    if not isinstance(state, Tensor) or state.dtype is not uint8:
        raise ArgumentTypeError("set_state: RNG state must be a torch.ByteTensor")
    return bytes(_hot.ensure(_hot.refreshed(state)).tobytes())


def manual_seed(seed: int) -> Generator:
    """Seed the default generator; returns the generator."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the operating system."""
    return default_generator.seed()


def initial_seed() -> int:
    """The default generator's seed."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """State of the default generator, a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the default generator's state."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **unused: object) -> Iterator[None]:
    """Inside the block the default generator may be used freely; the state is restored after."""
    if not enabled:
        yield
        return
    before = random_state.current().get_state()
    try:
        yield
    finally:
        random_state.current().set_state(before)


#: By public name, the ops that draw numbers of a float type.
_DRAWS: dict[str, Any] = {"rand": ops.uniform, "randn": ops.standard_normal}


class RandomOptions(TensorOptions, total=False):
    """The keyword arguments that functions of random numbers take through `**keywords`."""

    generator: Generator | None


def reserve(generator: Generator | None, count: int) -> tuple[int, int]:
    """(seed, offset) for a draw of `count` numbers from `generator`, or from the default."""
    if generator is None:
        return random_state.current().reserve(count)
    if not isinstance(generator, Generator):
        raise ArgumentTypeError(
            f"generator: expected a torch.Generator, got {type(generator).__name__}"
        )
    return generator._state.reserve(count)


def _draw(op: str, size: Any, keywords: Any) -> Tensor:
    try:
        if not keywords and not AWAY:
            shape = sizes_of(op, size)
            seed, offset = random_state.current().reserve(math.prod(shape))
            return _DRAWS[op](shape, seed, offset, dtype=None)  # type: ignore[no-any-return]
        generator = keywords.pop("generator", None)
        named_size = keywords.pop("size", None)
        shape = sizes_of(op, size, named_size)
        options = Options(op, **keywords)
        if options.place is META:
            return empty(shape, **keywords)
        return finished(_same, _numbers(_DRAWS[op], shape, options.dtype, generator), options)
    except WendError as error:
        error.shorten()
        raise


def _numbers(
    draw: Any, shape: tuple[Any, ...], dtype: DType | None, generator: Generator | None
) -> Tensor:
    """Uniform or standard normal numbers; both parts of complex numbers are drawn.

    The parts of a complex normal number have variance 1/2, so that the number has variance 1.
    """
    if dtype is None or not dtype.is_complex:
        seed, offset = reserve(generator, math.prod(shape))
        return draw(shape, seed, offset, dtype=dtype)  # type: ignore[no-any-return]
    parts = _numbers(draw, (*shape, 2), dtype.to_real(), generator)
    if draw is _DRAWS["randn"]:
        parts = parts * math.sqrt(0.5)
    return ops.view_as_complex(parts)  # type: ignore[no-any-return]


def _same(x: Tensor, **unused: object) -> Tensor:
    return x


def rand(*size: int | Sequence[int], **keywords: Unpack[RandomOptions]) -> Tensor:
    """Uniform numbers in [0, 1).  Keywords: generator, out, dtype, device, requires_grad."""
    return _draw("rand", size, keywords)


def randn(*size: int | Sequence[int], **keywords: Unpack[RandomOptions]) -> Tensor:
    """Standard normal numbers.  Keywords: generator, out, dtype, device, requires_grad."""
    return _draw("randn", size, keywords)


def _like(op: str, input: Tensor, keywords: Any) -> Tensor:
    if _hot.has_override(input):
        function = globals()[f"{op}_like"]
        return _hot.slot("torch_function")(function, (input,), keywords)  # type: ignore[no-any-return]
    memory_format = keywords.pop("memory_format", None)
    if keywords.get("dtype") is None:
        keywords["dtype"] = input.dtype
    if keywords.get("device") is None and is_away(input):
        keywords["device"] = input.device
    return as_asked(_draw(op, (tuple(input.shape),), keywords), input, memory_format, f"{op}_like")


@short_errors
def rand_like(input: Tensor, **keywords: Unpack[RandomOptions]) -> Tensor:
    """Uniform numbers with the shape and dtype of `input`."""
    return _like("rand", input, keywords)


@short_errors
def randn_like(input: Tensor, **keywords: Unpack[RandomOptions]) -> Tensor:
    """Standard normal numbers with the shape and dtype of `input`."""
    return _like("randn", input, keywords)


@short_errors
def randint(*args: Any, **keywords: Unpack[RandomOptions]) -> Tensor:
    """randint([low=0], high, size): integers low <= y < high, int64 unless dtype is given."""
    rest: Any = keywords
    low, high, size = _randint_arguments(args, rest)
    if not rest and not AWAY:
        check_range("randint", low, high, int64)
        shape = sizes_of("randint", (size,))
        seed, offset = random_state.current().reserve(math.prod(shape))
        return ops.random_integers(shape, low, high, seed, offset, dtype=int64)  # type: ignore[no-any-return]
    generator = rest.pop("generator", None)
    dtype = rest.pop("dtype", None) or int64
    options = Options("randint", dtype=dtype, **rest)
    check_range("randint", low, high, dtype)
    shape = sizes_of("randint", (size,))
    seed, offset = reserve(generator, math.prod(shape))
    integers = ops.random_integers(shape, low, high, seed, offset, dtype=dtype)
    return finished(_same, integers, options)


def _randint_arguments(args: tuple[Any, ...], keywords: Any) -> tuple[int, int, Any]:
    rest = list(args)
    low = keywords.pop("low", None)
    high = keywords.pop("high", None)
    size = keywords.pop("size", None)
    if size is None:
        if not rest:
            raise ArgumentTypeError("randint: missing required argument 'size'")
        size = rest.pop()
    if high is None:
        if not rest:
            raise ArgumentTypeError("randint: missing required argument 'high'")
        high = rest.pop()
    if low is None:
        low = rest.pop() if rest else 0
    if rest:
        raise ArgumentTypeError("randint: too many positional arguments")
    if isinstance(size, int):
        raise ArgumentTypeError("randint: argument 'size' must be a tuple of ints, not int")
    return _int("randint", "low", low), _int("randint", "high", high), size


def _int(op: str, name: str, value: object) -> int:
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    try:
        number = int_of(value)
    except TypeError:
        raise ArgumentTypeError(
            f"{op}: argument '{name}' must be int, not {type(value).__name__}"
        ) from None
    if not -(2**63) <= number < 2**63:
        raise ArgumentError(f"{op}: {name} is {number}, which needs more than 64 bits")
    return number


@cache
def _bounds_of(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    info = iinfo(dtype)
    return info.min, info.max


def check_range(op: str, low: int, high: int, dtype: DType) -> None:
    """Raise ValueRefused unless there are numbers low <= y < high, all in the range of `dtype`.

    Warns of numbers that a float type cannot tell from their neighbours.
    """
    if low >= high:
        raise ValueRefused(f"{op}: expects 'from' < 'to', but got from={low} >= to={high}")
    exact = 0
    if dtype.is_floating_point:
        most, exact = finfo(dtype).max, 2 ** digits_of(dtype)
        least = -most
    elif dtype.category == BOOL:
        least, most = 0, 1
    else:
        least, most = _bounds_of(dtype)
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if not least <= bound <= most:
            raise ValueRefused(f"{op}: {name} is {bound}, which is out of bounds for {dtype}")
        if exact and not -exact <= bound <= exact:
            warnings.warn(
                f"{op}: {name} is {bound}; beyond 2**{digits_of(dtype)} {dtype} cannot tell "
                "integers apart",
                stacklevel=3,
            )


@short_errors
def randint_like(input: Tensor, *bounds: object, **keywords: Unpack[RandomOptions]) -> Tensor:
    """randint_like(input, [low=0], high): as `randint`, with the shape and dtype of `input`."""
    memory_format = keywords.pop("memory_format", None)
    if keywords.get("dtype") is None:
        keywords["dtype"] = input.dtype
    if keywords.get("device") is None and (is_away(input) or input.is_meta):
        keywords["device"] = input.device
    rest: Any = keywords
    rest["size"] = tuple(input.shape)
    output = randint(*bounds, **rest)
    return as_asked(output, input, memory_format, "randint_like")


@short_errors
def randperm(n: int, **keywords: Unpack[RandomOptions]) -> Tensor:
    """A random permutation of 0..n-1, int64 unless dtype is given.

    Raises ValueRefused if n is negative, or the type cannot hold n - 1 exactly.
    """
    n = _int("randperm", "n", n)
    rest: Any = keywords
    generator = rest.pop("generator", None)
    dtype = rest.pop("dtype", None) or int64
    options = Options("randperm", dtype=dtype, **rest)
    if n < 0:
        raise ValueRefused(f"randperm: n must be non-negative, and is {n}")
    require("randperm", frozenset({"int", "float"}), dtype)
    most = 2 ** digits_of(dtype) if dtype.is_floating_point else iinfo(dtype).max
    if n - 1 > most:
        raise ValueRefused(f"randperm: {dtype} cannot hold the numbers below {n}")
    seed, offset = reserve(generator, n)
    order = ops.argsort(ops.random_bits((n,), seed, offset))
    return finished(_same, ops.cast(order, dtype) if dtype is not int64 else order, options)


@short_errors
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: int | Sequence[int] | None = None,
    **keywords: Unpack[RandomOptions],
) -> Tensor:
    """Normal numbers with the given means and deviations (numbers or tensors).

    Raises ValueRefused for a negative deviation, ValuesRefused (when computed) for a tensor's.
    """
    rest: Any = keywords
    generator = rest.pop("generator", None)
    if isinstance(std, Tensor):
        std = ops.within(std, 0.0, math.inf, fault="normal: expects all elements of std >= 0.0")
    elif not std >= 0:
        raise ValueRefused(f"normal: expects std >= 0.0, but found std {std}")
    if size is None:
        shape = tuple(
            ops.broadcast_tensors(mean, std)[0].shape
            if isinstance(mean, Tensor) and isinstance(std, Tensor)
            else (mean if isinstance(mean, Tensor) else std).shape
        )
        like = mean if isinstance(mean, Tensor) else std
        rest.setdefault("dtype", like.dtype)
        rest.setdefault("device", like.device)
    else:
        shape = sizes_of("normal", (size,))
    return randn(*[tuple(shape)], generator=generator, **rest) * std + mean


@short_errors
def bernoulli(
    input: Tensor, p: Any = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """1 with probability input (or p), else 0; the dtype of `input`.

    Raises as `probability`.
    """
    if type(input) is not Tensor and input.is_meta:
        return empty_like(input) if out is None else out
    chance = probability("bernoulli", input if p is None else p)
    seed, offset = reserve(generator, input.numel())
    dtype = input.dtype if input.dtype.is_floating_point else None
    drawn = beside(input, ops.uniform(tuple(input.shape), seed, offset, dtype=dtype))
    draws = ops.cast(drawn < chance, input.dtype)
    if out is not None:
        return _hot.slot("call_out")(_same, (draws,), {"out": out})  # type: ignore[no-any-return]
    return draws


def probability(op: str, p: float | Tensor) -> float | Tensor:
    """A number or tensor that lies from 0 to 1.

    Raises ValueRefused for another number, ValuesRefused (when computed) for a tensor's element,
    DTypeNotImplemented for a tensor of bools or ints.
    """
    if isinstance(p, Tensor):
        require(op, FLOATING, p.dtype)
        return ops.within(p, fault=f"{op}: expects probabilities from 0 to 1")
    if not 0 <= p <= 1:
        raise ValueRefused(f"{op}: expects p to be in [0, 1], but got p={p}")
    return p


@short_errors
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Indices drawn with probabilities proportional to the rows of `input`."""
    rows = 1 if input.dim() == 1 else input.shape[0]
    columns = input.shape[-1] if input.dim() else 0
    count = rows * (num_samples if replacement else columns)
    seed, offset = reserve(generator, count)
    indices = ops.multinomial_draw(input, num_samples, seed, offset, replacement=replacement)
    if out is not None:
        return _hot.slot("call_out")(_same, (indices,), {"out": out})  # type: ignore[no-any-return]
    return indices  # type: ignore[no-any-return]


@short_errors
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers with the rates `input`."""
    seed, offset = reserve(generator, input.numel())
    return ops.poisson_draw(input, seed, offset)  # type: ignore[no-any-return]


@short_errors
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed, each with probability `prob`."""
    drawn = broadcast_shapes("binomial", tuple(count.shape), tuple(prob.shape))
    seed, offset = reserve(generator, math.prod(drawn))
    return ops.binomial_draw(count, prob, seed, offset)  # type: ignore[no-any-return]


def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Gamma numbers of the shapes `input` and scale 1, with gradients by the shapes."""
    seed, offset = reserve(generator, input.numel())
    return ops.standard_gamma(input, seed, offset)  # type: ignore[no-any-return]


def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Dirichlet numbers of the concentrations `input` along the last dim, with gradients."""
    seed, offset = reserve(generator, input.numel())
    return ops.dirichlet_draw(input, seed, offset)  # type: ignore[no-any-return]


def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """The derivatives of gamma numbers `output` by the shapes `input`."""
    return ops.gamma_slope(input, output)  # type: ignore[no-any-return]


def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """The derivatives of elements x of Dirichlet numbers by alpha, divided by 1 - x."""
    return ops.dirichlet_slope(x, alpha, total)  # type: ignore[no-any-return]


def von_mises(concentration: Tensor, generator: Generator | None = None) -> Tensor:
    """Angles from -pi to pi around 0 of the given concentrations."""
    seed, offset = reserve(generator, concentration.numel())
    return ops.von_mises_draw(concentration, seed, offset)  # type: ignore[no-any-return]


# -- in-place -------------------------------------------------------------------------------


def _fill(self: Tensor, values: Tensor) -> Tensor:
    if values.dtype is not self.dtype:
        values = ops.cast(values, self.dtype)
    assign(self, beside(self, values), None)
    return self


def _drawn(
    self: Tensor, op: Callable[..., Any], *parameters: object, generator: Generator | None
) -> Tensor | None:
    """A draw of one step; None for dtypes but float32 and float64.

    For those dtypes the one-step draws have other numbers than `rand` and `randn`, rounded later.
    """
    if self.dtype not in (float32, float64):
        return None
    shape = tuple(self.shape)
    seed, offset = reserve(generator, math.prod(shape))
    return op(shape, *parameters, seed, offset, dtype=self.dtype)  # type: ignore[no-any-return]


def _unit(self: Tensor, generator: Generator | None) -> Tensor:
    shape = tuple(self.shape)
    seed, offset = reserve(generator, math.prod(shape))
    dtype = self.dtype if self.dtype.is_floating_point else float64
    return beside(self, ops.uniform(shape, seed, offset, dtype=dtype))


def _normal(self: Tensor, generator: Generator | None) -> Tensor:
    return _numbers(ops.standard_normal, tuple(self.shape), self.dtype, generator)


@short_errors
def uniform_(
    self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Any = None, **kw: Any
) -> Tensor:
    """Fill with uniform numbers from..to; both parts of complex numbers."""
    low = kw.pop("from", kw.pop("a", from_))
    to = kw.pop("b", to)
    if self.dtype.is_complex:
        parts = empty((*self.shape, 2), dtype=self.dtype.to_real())
        return _fill(self, ops.view_as_complex(uniform_(parts, low, to, generator=generator)))
    require("uniform_", FLOATING, self.dtype)
    if not low <= to:
        raise ValueRefused(
            f"uniform_: expects to return a [from, to) range, but found {low} > {to}"
        )
    most = finfo(self.dtype).max
    if not (-most <= low and to <= most and to - low <= most):
        raise ValueRefused(f"uniform_: from {low} to {to} is out of bounds for {self.dtype}")
    values = _drawn(self, ops.uniform_between, low, to, generator=generator)
    return _fill(self, _unit(self, generator) * (to - low) + low if values is None else values)


@short_errors
def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with normal numbers."""
    if not std >= 0:
        raise ValueRefused(f"normal_: expects std >= 0.0, but found std {std}")
    values = _drawn(self, ops.normal, mean, std, generator=generator)
    return _fill(self, _normal(self, generator) * std + mean if values is None else values)


@short_errors
def bernoulli_(
    self: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None
) -> Tensor:
    """Fill with 1 (probability p) and 0. Raises as `probability`."""
    p = probability("bernoulli_", p)
    return _fill(self, _unit(self, generator) < p)


def _continuous(op: str, x: Tensor, name: str, scale: float) -> None:
    """Check the tensor and the scale of a continuous distribution."""
    if not x.dtype.is_floating_point:
        raise DTypeNotImplemented(
            f"{op}: the distribution is continuous, and {x.dtype} is no float type"
        )
    if not scale > 0:
        raise ValueRefused(f"{op}: expects {name} > 0.0, but found {name}={scale}")


@short_errors
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponential numbers of rate lambd. Raises ValueRefused unless lambd > 0."""
    _continuous("exponential_", self, "lambda", lambd)
    return _fill(self, -ops.log1p(-_unit(self, generator)) / lambd)


@short_errors
def log_normal_(
    self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with numbers whose logarithm is normal. Raises ValueRefused unless std > 0."""
    _continuous("log_normal_", self, "std", std)
    values = _drawn(self, ops.log_normal_draw, mean, std, generator=generator)
    return _fill(self, (_normal(self, generator) * std + mean).exp() if values is None else values)


@short_errors
def cauchy_(
    self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with Cauchy numbers. Raises ValueRefused unless sigma > 0."""
    _continuous("cauchy_", self, "sigma", sigma)
    return _fill(self, ((_unit(self, generator) - 0.5) * math.pi).tan() * sigma + median)


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials up to the first success.

    Raises ValueRefused unless 0 < p < 1.
    """
    require("geometric_", frozenset({"int", "float"}), self.dtype)
    if not 0 < p < 1:
        raise ValueRefused(f"geometric_: expects p to be in (0, 1), but got p={p}")
    tail = math.log1p(-p)
    return _fill(self, (ops.log1p(-_unit(self, generator)) / tail).ceil().clamp(min=1))


@short_errors
def random_(self: Tensor, *bounds: int, generator: Generator | None = None, **kw: Any) -> Tensor:
    """Fill with integers: random_(), random_(to), random_(from, to)."""
    bounds = tuple(v for v in (kw.pop("from", None), kw.pop("to", None)) if v is not None) or bounds
    if len(bounds) == 2:
        low, high = bounds
    else:
        low, high = 0, bounds[0] if bounds else _range_of(self)
    check_range("random_", low, high, self.dtype)
    return _fill(self, randint(low, high, tuple(self.shape), generator=generator))


def digits_of(dtype: DType) -> int:
    """Binary digits of a float type's significand."""
    return 1 - math.frexp(finfo(dtype).eps)[1] + 1


def _range_of(x: Tensor) -> int:
    if x.dtype.is_floating_point:
        return 2 ** digits_of(x.dtype)
    return 2 if x.dtype.category == 0 else int(iinfo(x.dtype).max)


for _function in (
    uniform_,
    normal_,
    bernoulli_,
    exponential_,
    log_normal_,
    cauchy_,
    geometric_,
    random_,
    multinomial,
    bernoulli,
):
    setattr(Tensor, _function.__name__, _function)
