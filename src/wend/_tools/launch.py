"""Run a program as `python` itself would, in this process.

`sys.argv`, `sys.path[0]`, `__main__` and tracebacks are as the program sees them under `python`;
the only difference is the alias installed before (`alias.install`).
"""

from __future__ import annotations

import builtins
import io
import os
import pkgutil
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any

from wend._tools import alias
from wend._tools.missing import missing_from_class

_OURS = frozenset({os.path.abspath(__file__), os.path.abspath(alias.__file__)})


def run_module(name: str, arguments: list[str]) -> int:
    """`python -m name arguments`."""
    sys.argv = ["-m", *arguments]
    _set_first_path(os.getcwd())
    sys.modules["__main__"] = _fresh_main()
    return _guarded(lambda: _runpy_main(name, True))


def run_script(path: str, arguments: list[str]) -> int:
    """`python path arguments`; path is a script, or a folder or zip file with a __main__.py.

    Returns 2 if the file cannot be opened.
    """
    sys.argv = [path, *arguments]
    if os.path.isdir(path) or _is_archive(path):
        _set_first_path(os.path.abspath(path))
        sys.modules["__main__"] = _fresh_main()
        return _guarded(lambda: _runpy_main("__main__", False))
    full = os.path.abspath(path)
    try:
        with io.open_code(full) as file:
            source = file.read()
    except OSError as error:
        # The script cannot be read: said on standard error, with Python's exit status.
        print(f"wend run: can't open file {full!r}: {error}", file=sys.stderr)
        return 2
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    main = _fresh_main()
    main.__file__ = full
    main.__loader__ = SourceFileLoader("__main__", full)
    vars(main)["__cached__"] = None
    sys.modules["__main__"] = main
    return _guarded(lambda: exec(_compiled(source, full), vars(main)))


def _runpy_main(name: str, alter_argv: bool) -> None:
    # The function that `python -m` itself calls: it runs in sys.modules["__main__"], which stays.
    runner: Any = runpy
    runner._run_module_as_main(name, alter_argv)


def _is_archive(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    import zipfile

    return zipfile.is_zipfile(path)


def _compiled(source: bytes, path: str) -> CodeType:
    code = pkgutil.read_code(io.BytesIO(source)) if path.endswith(".pyc") else None
    # dont_inherit: this file's own `from __future__` is not the program's.
    return code or compile(source, path, "exec", dont_inherit=True)


def _fresh_main() -> ModuleType:
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    vars(main)["__annotations__"] = {}
    return main


def _set_first_path(folder: str) -> None:
    """Replace the entry that Python put there for the command itself; with -P there is none."""
    if sys.flags.safe_path:
        return
    sys.path[0] = folder


def _guarded(program: Any) -> int:
    """Run a program; an uncaught exception is reported as by Python, without frames of this file.

    The exception is raised on, silenced, so that the interpreter ends as always: exit status 1, or
    death by SIGINT after KeyboardInterrupt.
    """
    try:
        program()
    except SystemExit:
        raise
    except BaseException as error:
        _annotate(error)
        error.__traceback__ = _without_ours(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.excepthook = lambda *args: None
        raise
    return 0


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    kept = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename not in _OURS:
            kept.append(trace)
        trace = trace.tb_next
    following = None
    for entry in reversed(kept):
        entry.tb_next = following
        following = entry
    return following


def _annotate(error: BaseException) -> None:
    """Add names near the attribute that a class of Wend's lacks to the error."""
    if not isinstance(error, AttributeError) or error.name is None or error.obj is None:
        return
    if isinstance(error.obj, ModuleType):  # modules whose own `__getattr__` has added them
        return
    kind = error.obj if isinstance(error.obj, type) else type(error.obj)
    # A user's subclass of Tensor lacks an attribute of Tensor; of Module's, perhaps one of its own.
    kind = next((base for base in kind.__mro__ if base.__name__ == "Tensor"), kind)
    if kind.__module__.split(".")[0] == "wend":
        error.add_note(missing_from_class(kind, error.name, "wend"))
