"""The journal that a run of a script writes for `wend verify`: values, step by step.

    python -m wend._tools.journal KIND FILE SCRIPT [ARGS ...]

KIND: `asis`, the program on Wend; `reference`, op by op on the NumPy executor; `shared` and
`torch`, on Wend and on PyTorch, with random draws and initial weights in common (`draws.py`).

A line of FILE is an event: a loss that `backward()` was called on, a gradient or a parameter at a
step of an optimizer, a printed line. Nothing is computed earlier than without the journal: losses
and gradients are held, and read behind the step.
"""

from __future__ import annotations

import base64
import functools
import importlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import IO, Any

from wend._engine.base import config
from wend._engine.core import _hot
from wend._tools import alias, launch

__all__ = ["KINDS", "Journal", "main"]

KINDS = ("asis", "reference", "shared", "torch")
SAMPLES = 512  # elements of a tensor that are written down, evenly spread; the rest as a sum
SEED = 0
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Journal:
    """Writes events of the running script."""

    def __init__(self, path: str, torch: Any) -> None:
        self.file = open(path, "w", encoding="utf-8")  # noqa: SIM115 (until the process ends)
        self.torch = torch
        self.own = torch.__spec__.name == "wend"
        self.step = 1
        self.held: list[tuple[str, str, Any, str]] = []  # read behind the step
        self.inside = [_HERE, os.path.dirname(os.path.abspath(torch.__file__))]
        self.names: dict[int, str] = {}
        self.printed = ""
        self.backward_line = ""  # where the last gradients came from
        self.busy = False

    # -- writing

    def write(self, **event: object) -> None:
        """Write an event."""
        self.file.write(json.dumps({"step": self.step, **event}) + "\n")

    def value(self, what: str, name: str, tensor: Any, line: str) -> None:
        """Write a tensor's value, or as much of the value as is compared."""
        self.write(what=what, name=name, line=line, **self.numbers(tensor))

    def numbers(self, tensor: Any) -> dict[str, Any]:
        """dtype, shape, sum, largest element and some elements of a tensor."""
        dtype = str(tensor.dtype).removeprefix("torch.").removeprefix("wend.")
        array = self.array_of(tensor)
        if array.dtype.kind == "c":
            array = array.view(array.real.dtype)
        array = array.astype("<f8")
        stride = -(-array.size // SAMPLES) or 1
        finite = array[abs(array) < float("inf")]
        return {
            "dtype": dtype,
            "shape": list(tensor.shape),
            "sum": float(finite.sum()),
            "largest": float(abs(finite).max()) if finite.size else 0.0,
            "stride": stride,
            "data": base64.b64encode(array[::stride].tobytes()).decode(),
        }

    def array_of(self, tensor: Any) -> Any:
        """A tensor's elements, flat, as NumPy has them; Wend's memory is not handed out."""
        if self.own:
            return _hot.ensure(self.held_value(tensor)).reshape(-1)
        known = tensor.detach()
        if known.dtype == self.torch.bfloat16:
            known = known.to(self.torch.float32)
        return known.numpy().reshape(-1)

    def held_value(self, tensor: Any) -> Any:
        """The value that a handle shows now: values never change."""
        return tensor.value if isinstance(tensor, Kept) else _hot.refreshed(tensor)

    def keep(self, what: str, name: str, tensor: Any, line: str) -> None:
        """Write a value down later: nothing is computed for the journal now."""
        if tensor.layout is not self.torch.strided:
            tensor = tensor.detach().to_dense()  # a gradient of an embedding; not recorded lazily
        kept = Kept(tensor, self.held_value(tensor)) if self.own else tensor.detach().clone()
        self.held.append((what, name, kept, line))

    def settle(self) -> None:
        """Write down the values that are held."""
        held, self.held = self.held, []
        for row in held:
            self.value(*row)

    # -- where the script is

    def user_line(self) -> str:
        """File and line of the innermost frame that is the user's."""
        frame: FrameType | None = self.user_frame()
        return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "an unknown place"

    def user_frame(self) -> Any:
        """The innermost frame that is neither Wend's nor PyTorch's nor the library's."""
        frame: FrameType | None = sys._getframe(1)
        library = os.path.dirname(os.__file__)
        while frame is not None:
            name = frame.f_code.co_filename
            inside = any(name.startswith(folder) for folder in self.inside)
            if not inside and not name.startswith(("<", library)):
                return frame
            frame = frame.f_back
        return None

    def name_of(self, tensor: Any, other: str) -> str:
        """The name of a parameter: the user's variable with the module, and the name inside."""
        if id(tensor) not in self.names:
            for name, parameter in self.named_tensors():
                self.names.setdefault(id(parameter), name)
            self.names.setdefault(id(tensor), other)
        return self.names[id(tensor)]

    def named_tensors(self) -> Iterator[tuple[str, Any]]:
        """Names of the parameters and buffers of modules, and of tensors, in users' variables."""
        frame = self.user_frame()
        while frame is not None:
            for scope in (frame.f_locals, frame.f_globals):
                for name, held in list(scope.items()):
                    if isinstance(held, (self.torch.nn.Module, self.torch.Tensor)):
                        yield from self.within(name, held)
                    elif isinstance(getattr(held, "__dict__", None), dict) and name == "self":
                        for part, inner in list(vars(held).items()):
                            yield from self.within(part, inner)
            frame = frame.f_back

    def within(self, name: str, held: Any) -> Iterator[tuple[str, Any]]:
        """The tensors of a variable."""
        if isinstance(held, self.torch.nn.Module):
            for own, tensor in (*held.named_parameters(), *held.named_buffers()):
                yield f"{name}.{own}", tensor
        elif isinstance(held, self.torch.Tensor):
            yield name, held

    # -- watched calls

    def watch(self) -> None:
        """Have backward passes, optimizers and printing write to the journal."""
        self._watch_backward()
        self._watch_optimizers()
        sys.stdout = Tee(sys.stdout, self)

    def _watch_backward(self) -> None:
        real = self.torch.Tensor.backward

        @functools.wraps(real)
        def backward(tensor: Any, *args: object, **kwargs: object) -> Any:
            self.backward_line = self.user_line()
            if tensor.numel() == 1:
                self.keep("loss", "the loss", tensor, self.backward_line)
            return real(tensor, *args, **kwargs)

        self.torch.Tensor.backward = backward

    def _watch_optimizers(self) -> None:
        base = self.torch.optim.Optimizer
        real = base.__init__
        watched: set[type] = set()

        @functools.wraps(real)
        def init(optimizer: object, *args: object, **kwargs: object) -> None:
            cls: Any = next(c for c in type(optimizer).__mro__ if "step" in vars(c))
            if cls not in watched:
                watched.add(cls)
                cls.step = self._watched_step(cls.step)
            real(optimizer, *args, **kwargs)

        base.__init__ = init

    def _watched_step(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def step(optimizer: Any, *args: object, **kwargs: object) -> Any:
            if self.busy:  # an optimizer that calls the step of another
                return real(optimizer, *args, **kwargs)
            self.busy = True
            try:
                line = self.user_line()
                rows = self.parameters(optimizer)
                for name, p in rows:
                    if p.grad is not None:
                        self.keep("gradient", name, p.grad, self.backward_line or line)
                result = real(optimizer, *args, **kwargs)
                for name, p in rows:
                    self.keep("parameter", name, p, line)
                self.settle()
                self.step += 1
                return result
            finally:
                self.busy = False

        return step

    def parameters(self, optimizer: Any) -> list[tuple[str, Any]]:
        """(name, parameter) of all that an optimizer updates."""
        kind = type(optimizer).__name__
        return [
            (self.name_of(p, f"parameter {k} of group {n} of {kind}"), p)
            for n, group in enumerate(optimizer.param_groups)
            for k, p in enumerate(group["params"])
        ]

    def close(self) -> None:
        """The script has ended."""
        self.settle()
        if self.printed:
            self.write(what="printed", name="a printed line", line="", text=self.printed)
        self.write(what="end", name="the end", line="")
        self.file.close()


class Kept:
    """A value of Wend's as first shown by a handle."""

    def __init__(self, tensor: Any, value: object) -> None:
        self.value = value
        self.dtype, self.shape = tensor.dtype, tuple(tensor.shape)


class Tee:
    """Standard output that also writes lines down."""

    def __init__(self, out: IO[str], journal: Journal) -> None:
        self.out, self.journal = out, journal

    def write(self, text: str) -> int:
        journal = self.journal
        *lines, journal.printed = (journal.printed + text).split("\n")
        for line in lines:
            journal.settle()
            where = journal.user_line()
            journal.write(what="printed", name="a printed line", line=where, text=line)
        return int(self.out.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.out, name)


def seed(torch: ModuleType) -> None:
    """Begin alike in each run, should the script not do so itself."""
    random.seed(SEED)
    torch.manual_seed(SEED)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(SEED)


def main(arguments: list[str]) -> int:
    """Run a script and write the journal of the run."""
    kind, path, script, *rest = arguments
    if kind != "torch":
        alias.install()
    torch = importlib.import_module("torch")
    if kind == "reference":
        config.settings.set(compile=False, autobatch=False)
    journal = Journal(path, torch)
    seed(torch)
    journal.watch()
    if kind in ("shared", "torch"):
        from wend._tools.draws import share

        share(journal, path.rsplit(".", 1)[0] + ".weights", kind == "shared")
    status: Any = 0
    try:
        status = launch.run_script(script, rest)
    except SystemExit as stop:  # the script's exit status becomes that of the run
        status = stop.code
    journal.close()
    if isinstance(status, str):
        print(status, file=sys.stderr)
        return 1
    return status or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
