"""Opens changed files, one after the other, and judges what came of each.

    python files_child.py FOLDER SEED FIRST LAST KIND ...

For each number it prints a line when it begins, and one with the outcome, as JSON.  The process
runs under a limit of memory.  It ends by a signal where Wend crashes: `files.py` sees that.
"""

from __future__ import annotations

import ctypes
import faulthandler
import io
import json
import pickle
import random
import resource
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import files_changes
import files_valid
import numpy as np

import wend
from wend._engine.base import config, defects
from wend._engine.base.errors import FormatError, NotImplementedInWend, OutOfMemory, WendError

MEMORY = 2 << 30  # bytes of addresses
SECONDS = 5  # that a program of a file may run: it may hold a loop without an end
#: What no file may have done, as names of audit events.
FORBIDDEN = (
    "os.", "subprocess.", "shutil.", "socket.", "pickle.find_class", "ctypes.dlopen", "marshal.",
    "exec", "webbrowser.", "tempfile.",
)  # fmt: skip
LOADS = {"onnx": (FormatError, NotImplementedInWend)}
#: Errors of numbers are Python's own: a program of a file divides as the user's does.
RUNS = (WendError, ArithmeticError)


class TooLong(BaseException):
    """A program of a file ran on."""


class Watch:
    """Notes audit events that no file may cause."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self.hear)

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        """Called by Python for each event."""
        if not self.on or not event.startswith(FORBIDDEN) or event == "os.putenv":
            return
        if event == "ctypes.dlopen" and args[0] is None:  # the process itself, to give memory back
            return
        stack = traceback.extract_stack()
        files = "".join(frame.filename for frame in stack)
        # Named tuples are made of names that were checked; modules are imported when needed.
        if "importlib" in files or any(
            f.name == "namedtuple" and "collections" in f.filename for f in stack
        ):
            return
        # The caches of machine code, of this user and of the installation.
        if event.startswith(("os.", "tempfile.")) and (
            "object_cache" in files or "ready_objects" in files
        ):
            return
        self.seen.append(f"{event} {str(args)[:80]} in {stack[-2].filename}:{stack[-2].lineno}")


class Opened:
    """Opens files of a kind.  `names`: of the valid files"""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        library = folder / "libmodel.so"
        if library.exists():
            self.library = ctypes.CDLL(str(library))
            self.library.model_error.restype = ctypes.c_char_p
            self.library.model_new.restype = ctypes.c_void_p
            self.library.model_free.argtypes = (ctypes.c_void_p,)
            self.library.model_run.argtypes = (
                ctypes.c_void_p,
                *[ctypes.c_void_p, ctypes.c_int] * 2,
            )

    def load(self, kind: str, data: bytes) -> Any:
        """What a file holds."""
        if kind == "export":
            return wend.export.load(io.BytesIO(data))
        if kind == "jit":
            return wend.jit.load(io.BytesIO(data))
        if kind == "onnx":
            return wend.onnx.load(data)
        if kind == "session":
            path = self.folder / f"changed-{id(self)}.wend"
            path.write_bytes(data)
            return wend.load_session(path)
        return self.weights(data)

    def weights(self, data: bytes) -> Any:
        """A model of the library with these weights."""
        path = self.folder / f"changed-{id(self)}.safetensors"
        path.write_bytes(data)
        made = self.library.model_new(str(path).encode())
        if not made:
            raise FormatError(self.library.model_error().decode("utf-8", "replace"))
        return made

    def run(self, kind: str, name: str, loaded: Any, draw: random.Random) -> None:
        """Use what a file held."""
        args = files_valid.arguments(kind, name)
        if kind == "aot":
            self.run_library(loaded, args)
            return
        if kind == "export":
            str(loaded), str(loaded.graph_signature), loaded.range_constraints
            if draw.random() < 0.1:
                wend.session(loaded)(*args)
            found = loaded.module()(*args)
        elif kind == "session":
            str(loaded.report)
            found = loaded(*args)
        else:
            found = loaded(*args)
        for x in wend.utils._pytree.tree_leaves(found):
            if isinstance(x, wend.Tensor):
                x.detach().numpy()

    def run_library(self, model: Any, args: Any) -> None:
        """Run a model of a library, and free it."""
        from callers import CTensor  # of the tests of libraries

        x = np.ascontiguousarray(args[0].numpy())
        given, made = CTensor(data=x.ctypes.data, ndim=x.ndim, dtype=self.float32), CTensor()
        given.shape[: x.ndim] = x.shape
        code = self.library.model_run(model, ctypes.byref(given), 1, ctypes.byref(made), 1)
        if not code:
            self.library.model_release(ctypes.byref(made))
        self.library.model_free(ctypes.c_void_p(model))

    @property
    def float32(self) -> int:
        """The number of the type in C."""
        from wend._engine.compiler.aot.pattern_code import DTYPES

        return DTYPES.index("float32")


def stop(signum: int, frame: Any) -> None:
    """The program of a file runs for too long."""
    raise TooLong


def raised(error: BaseException) -> dict[str, Any]:
    """An error that is none of the documented ones."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {str(error)[:200]}"
    return {"error": text, "at": f"{Path(where.filename).name}:{where.lineno} {where.name}"}


def own_error(error: BaseException) -> bool:
    """Whether the program of a file raised an error that it says."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.line in ("raise end.error",)


def outcome_of(watch: Watch, opened: Opened, kind: str, name: str, data: bytes, draw: Any) -> Any:
    """What opening and running a file gave, and whether that is well."""
    before = defects._count
    watch.on, watch.seen = True, []
    found: dict[str, Any]
    loaded = None
    try:
        loaded = opened.load(kind, data)
        found = {"outcome": "read"}
    except LOADS.get(kind, (FormatError,)) as error:
        found = {"outcome": "refused", "text": str(error)[:300]}
    except Exception as error:
        found = {"outcome": "BAD load", **raised(error)}
    if loaded is not None:
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            with config.override(compile=True, wait=True) if draw.random() < 0.05 else nothing():
                opened.run(kind, name, loaded, draw)
            found = {"outcome": "ran"}
        except TooLong:
            found = {"outcome": "ran on"}
        except Exception as error:
            documented = isinstance(error, RUNS) or own_error(error)
            if isinstance(error, MemoryError) and not isinstance(error, OutOfMemory):
                documented = False
            found = {"outcome": "raised" if documented else "BAD run", **raised(error)}
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    watch.on = False
    if watch.seen:
        found = {"outcome": "BAD executed", "error": watch.seen[0], "at": ""}
    if defects._count != before:
        text = str(list(defects.known())[-1:])[:400]
        defects.reset()
        found = {"outcome": "BAD defect", "error": text, "at": ""}
    return found


class nothing:
    """A context without effect."""

    def __enter__(self) -> None: ...
    def __exit__(self, *exc: object) -> None: ...


def limit() -> None:
    """Give this process its limits."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def drawn(table: Any, kinds: list[str], seed: int, number: int) -> tuple[Any, ...]:
    """Kind, name, way and bytes of a changed file, and the source of what else is drawn."""
    draw = random.Random(f"{seed} {number}")
    kind = kinds[number % len(kinds)]
    name = draw.choice(sorted(table[kind]))
    how, data = files_changes.change(kind, table[kind][name], draw)
    return kind, name, how, data, draw


def main(folder: Path, seed: int, first: int, last: int, kinds: list[str]) -> None:
    """Open the changed files of some numbers."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGVTALRM, stop)
    table = pickle.loads((folder / "valid.pickle").read_bytes())
    opened, watch = Opened(folder), Watch()
    for kind in kinds:
        for name, data in table[kind].items():
            found = outcome_of(watch, opened, kind, name, data, random.Random(0))
            assert found["outcome"] == "ran", (kind, name, found)
    limit()
    for number in range(first, last):
        print(json.dumps({"begin": number}), flush=True)
        kind, name, how, data, draw = drawn(table, kinds, seed, number)
        found = outcome_of(watch, opened, kind, name, data, draw)
        row = {"number": number, "kind": kind, "name": name, "how": how, **found}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    numbers = [int(x) for x in sys.argv[2:5]]
    main(Path(sys.argv[1]), *numbers, sys.argv[5:])
