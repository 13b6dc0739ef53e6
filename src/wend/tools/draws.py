"""Random draws and initial weights that a run on Wend and a run on PyTorch have in common.

Wend and PyTorch have streams of their own: equal seeds give unlike numbers. So in both runs

- draws that the script asks for itself (`torch.randn(...)`, `x.uniform_()`, ...) and masks of
  `dropout` come from a single NumPy generator. The key of a draw is its kind, its shape, and how
  many of the kind came before. A run may thus draw more of another kind without shifting these;
- the order of `RandomSampler` (`DataLoader(shuffle=True)`) comes from there, too;
- parameters and buffers are taken over from the run on Wend when first seen: when an optimizer gets
  the tensors, or when the module is first called.

Numbers drawn in further ways are counted, and named in the report: those are not in common.
"""

from __future__ import annotations

import base64
import functools
import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["share"]

#: Draws that are not in common, by module or class: the numbers of the two runs differ.
APART = {
    "": ("multinomial", "normal", "poisson", "binomial", "randint_like", "bernoulli", "rrelu"),
    "Tensor": ("multinomial", "bernoulli_", "random_", "exponential_", "geometric_", "cauchy_",
               "log_normal_", "bernoulli"),
    "nn.functional": ("gumbel_softmax", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d",
                      "feature_alpha_dropout"),
    "utils.data": ("random_split",),
}  # fmt: skip


class Draws:
    """Random numbers, keyed by use."""

    def __init__(self) -> None:
        self.made: Counter[Any] = Counter()

    def of(self, name: str, shape: tuple[int, ...]) -> np.random.Generator:
        """The generator of the next draw of this name and shape."""
        self.made[name, shape] += 1
        text = f"{name} {shape} {self.made[name, shape]}"
        return np.random.default_rng(zlib.crc32(text.encode()))


def share(journal: Any, path: str, write: bool) -> None:
    """Replace the functions that draw, and write the weights down or take over those of the first
    run."""
    torch, draws = journal.torch, Draws()
    _share_functions(journal, torch, draws)
    _share_methods(journal, torch, draws)
    _share_dropout(torch, draws)
    _share_sampler(torch, draws)
    for owner, names in APART.items():
        _count(journal, torch, owner, names)
    Weights(journal, path, write).watch()


def _by_user(journal: Any) -> bool:
    """Whether the frame that called the replaced function is the user's own."""
    name = sys._getframe(2).f_code.co_filename
    return not any(name.startswith(folder) for folder in journal.inside)


def _shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    return tuple(int(n) for n in size)


def _tensor(torch: Any, array: Any, options: dict[str, Any], dtype: Any) -> Any:
    wanted = options.get("dtype") or dtype
    made = torch.tensor(np.ascontiguousarray(array)).to(wanted)
    return made.requires_grad_() if options.get("requires_grad") else made


def _share_functions(journal: Any, torch: Any, draws: Draws) -> None:
    def replace(name: str, draw: Callable[..., Any]) -> None:
        real = getattr(torch, name)

        @functools.wraps(real)
        def drawn(*args: Any, **options: Any) -> Any:
            return draw(*args, **options) if _by_user(journal) else real(*args, **options)

        setattr(torch, name, drawn)

    def floats(name: str) -> Callable[..., Any]:
        def draw(*size: Any, **options: Any) -> Any:
            shape = _shape(size if size else (options["size"],))
            rng = draws.of(name, shape)
            array = rng.standard_normal(shape) if name == "randn" else rng.random(shape)
            return _tensor(torch, array, options, torch.get_default_dtype())

        return draw

    def alike(name: str) -> Callable[..., Any]:
        def draw(input: Any, **options: Any) -> Any:
            shape = tuple(input.shape)
            rng = draws.of(name, shape)
            array = rng.standard_normal(shape) if name == "randn_like" else rng.random(shape)
            return _tensor(torch, array, options, input.dtype)

        return draw

    def randint(*args: Any, **options: Any) -> Any:
        given = list(args)
        shape = _shape((options["size"] if "size" in options else given.pop(),))
        high = options["high"] if "high" in options else given.pop()
        low = options.get("low", given[0] if given else 0)
        array = draws.of("randint", shape).integers(int(low), int(high), shape)
        return _tensor(torch, array, options, torch.int64)

    def randperm(n: int, **options: Any) -> Any:
        return _tensor(torch, draws.of("randperm", (n,)).permutation(n), options, torch.int64)

    for name in ("randn", "rand"):
        replace(name, floats(name))
    for name in ("randn_like", "rand_like"):
        replace(name, alike(name))
    replace("randint", randint)
    replace("randperm", randperm)


def _share_methods(journal: Any, torch: Any, draws: Draws) -> None:
    def replace(name: str, draw: Callable[[np.random.Generator, Any, float, float], Any],
                first: tuple[str, float], second: tuple[str, float]) -> None:  # fmt: skip
        real = getattr(torch.Tensor, name)

        @functools.wraps(real)
        def drawn(tensor: Any, *args: Any, **options: Any) -> Any:
            if not _by_user(journal):
                return real(tensor, *args, **options)
            a, b = (
                args[k] if len(args) > k else options.get(key, default)
                for k, (key, default) in enumerate((first, second))
            )
            shape = tuple(tensor.shape)
            array = draw(draws.of(name, shape), shape, float(a), float(b))
            return tensor.copy_(torch.tensor(np.asarray(array)))

        setattr(torch.Tensor, name, drawn)

    replace("normal_", lambda rng, shape, mean, std: rng.normal(mean, std, shape),
            ("mean", 0.0), ("std", 1.0))  # fmt: skip
    replace("uniform_", lambda rng, shape, low, high: rng.uniform(low, high, shape),
            ("from", 0.0), ("to", 1.0))  # fmt: skip


def _share_dropout(torch: Any, draws: Draws) -> None:
    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if not training or p == 0:
            return input
        shape = tuple(input.shape)
        kept = draws.of("dropout", shape).random(shape) >= p
        mask = torch.tensor(kept).to(input.dtype)
        scale = 1 / (1 - p) if p < 1 else 0.0
        return input.mul_(mask).mul_(scale) if inplace else input * mask * scale

    torch.nn.functional.dropout = dropout
    # the functions that Wend's own modules call
    inner = sys.modules.get("wend.nn.functional")
    if torch.__name__ == "wend" and inner is not None:
        vars(inner)["dropout"] = dropout


def _share_sampler(torch: Any, draws: Draws) -> None:
    cls = torch.utils.data.RandomSampler

    def order(sampler: Any) -> Any:
        n, left = len(sampler.data_source), sampler.num_samples
        rng = draws.of("sampler", (n,))
        if sampler.replacement:
            yield from rng.integers(0, n, left).tolist()
            return
        while left > 0:
            yield from rng.permutation(n).tolist()[:left]
            left -= n

    cls.__iter__ = order


def _count(journal: Any, torch: Any, owner: str, names: tuple[str, ...]) -> None:
    """Note each kind of draw that is not in common, when the script first makes such a draw."""
    holder = functools.reduce(getattr, owner.split(".") if owner else [], torch)
    noted: set[str] = set()

    def watch(name: str) -> None:
        real = getattr(holder, name, None)
        if real is None:
            return

        @functools.wraps(real)
        def drawn(*args: Any, **options: Any) -> Any:
            if name not in noted and _by_user(journal):
                noted.add(name)
                journal.write(what="apart", name=name, line=journal.user_line())
            return real(*args, **options)

        setattr(holder, name, drawn)

    for name in names:
        watch(name)


class Weights:
    """Parameters and buffers of the run on Wend, in order of first use."""

    def __init__(self, journal: Any, path: str, write: bool) -> None:
        self.journal, self.torch, self.writes = journal, journal.torch, write
        self.file = open(path, "w" if write else "r", encoding="utf-8")  # noqa: SIM115
        self.seen: dict[int, Any] = {}

    def watch(self) -> None:
        """Look at the arguments of modules, and at the parameters that optimizers get."""
        module, optimizer = self.torch.nn.Module, self.torch.optim.Optimizer
        real_call, real_init = module.__call__, optimizer.__init__
        known: dict[int, Any] = {}

        def call(m: Any, *args: Any, **kwargs: Any) -> Any:
            if id(m) not in known:
                known.update((id(part), part) for part in m.modules())
                self.meet([*m.parameters(), *m.buffers()])
            return real_call(m, *args, **kwargs)

        @functools.wraps(real_init)
        def init(o: Any, *args: Any, **kwargs: Any) -> None:
            real_init(o, *args, **kwargs)
            self.meet([p for group in o.param_groups for p in group["params"]])

        module.__call__, optimizer.__init__ = call, init

    def meet(self, tensors: list[Any]) -> None:
        """Write tensors down, or fill them with the values of the first run."""
        for tensor in tensors:
            if id(tensor) not in self.seen:
                self.seen[id(tensor)] = tensor
                if self.writes:
                    self.write(tensor)
                else:
                    self.read(tensor)

    def write(self, tensor: Any) -> None:
        array = self.journal.array_of(tensor)
        raw = base64.b64encode(array.tobytes()).decode()
        self.file.write(json.dumps([list(tensor.shape), array.dtype.str, raw]) + "\n")
        self.file.flush()

    def read(self, tensor: Any) -> None:
        line = self.file.readline()
        shape, kind, raw = json.loads(line) if line else (None, "", "")
        if shape != list(tensor.shape):
            self.journal.write(what="apart", name="initial weights", line=self.journal.user_line())
            return
        array = np.frombuffer(bytearray(base64.b64decode(raw)), dtype=_dtype(kind)).reshape(shape)
        if tensor.numel():
            wide = array.astype(np.float32) if kind not in _PLAIN else array
            tensor.data.copy_(self.torch.tensor(wide))


_PLAIN = frozenset(np.dtype(c).str for c in "?bBhilefdFD")


def _dtype(kind: str) -> Any:
    if kind in _PLAIN:
        return np.dtype(kind)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)
