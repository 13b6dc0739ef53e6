"""Settings of the process, and environment variables for them.

    WEND_EAGER=1    compute after each op (as `with wend.eager():` everywhere)
    WEND_VERIFY=1   check every flush and backward pass against the reference executor
    WEND_STRICT=1   raise a failure inside Wend, although it was repaired; and raise where the
                    processor computes an op of an accelerator's that has no kernel there
    WEND_HOST_STEPS=1  let the processor compute such ops, without a word
    WEND_NAN_GUARD=1  look through the results of each flush for NaN and infinity
    WEND_DETERMINISTIC=1  equal bits for equal calls (as `use_deterministic_algorithms(True)`)
    WEND_PURE=1     use the uncompiled hot core (read once, when the core is imported)
    WEND_TRACEBACK=full  show Wend's own frames in the tracebacks of all errors (short: none)
    WEND_COMPILE=0  never run machine code (unset: once the code is ready); force: wait for the code
    WEND_CPU=avx2   make machine code for this level of x86-64 processors, at most the machine's:
                    sse4.2, avx2 or avx512 (read once, when machine code is first made)
    WEND_XPU=all    the OpenCL devices that are `xpu`: those that are processors too; none: none
                    (unset: accelerators alone; read once, when devices are first counted)

Reading a setting takes no lock: a rebinding of an attribute is atomic. Changes take the lock, so
that of two `override` blocks in two threads neither loses its values halfway.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from wend._engine.base.errors import ArgumentError, ArgumentTypeError, NotAvailable, WendError

ENVIRONMENT: Final = (
    "WEND_EAGER",
    "WEND_VERIFY",
    "WEND_STRICT",
    "WEND_HOST_STEPS",
    "WEND_NAN_GUARD",
    "WEND_DETERMINISTIC",
    "WEND_PURE",
    "WEND_COMPILE",
    "WEND_CPU",
    "WEND_TRACEBACK",
    "WEND_XPU",
)
#: Levels of x86-64 processors, lowest first, and the feature that a processor of a level has.
LEVELS: Final = {"sse4.2": "sse4.2", "avx2": "avx2", "avx512": "avx512f"}
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"", "0", "false", "no", "off"})


def flag(name: str, environment: Mapping[str, str] | None = None) -> bool:
    """A yes-or-no environment variable; unset means no. Raises ArgumentError for another value."""
    value = (os.environ if environment is None else environment).get(name, "")
    lowered = value.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ArgumentError(f"{name}: {value!r} is neither yes nor no; set it to 1 or 0")


def processor_level(environment: Mapping[str, str] | None = None) -> str:
    """Return the level that WEND_CPU asks for; "" for the machine's own.

    Raises ArgumentError for a name that is no level.
    """
    asked = (os.environ if environment is None else environment).get("WEND_CPU", "")
    level = asked.strip().lower()
    if level and level not in LEVELS:
        raise ArgumentError(f"WEND_CPU: {asked!r} is none of {', '.join(LEVELS)}")
    return level


def accelerators_asked(environment: Mapping[str, str] | None = None) -> str:
    """Return the word of WEND_XPU: "", "all" or "none". Raises ArgumentError for another word."""
    asked = (os.environ if environment is None else environment).get("WEND_XPU", "")
    word = asked.strip().lower()
    if word not in {"", "all", "none"}:
        raise ArgumentError(f"WEND_XPU: {asked!r} is neither all nor none")
    return word


def full_tracebacks(environment: Mapping[str, str] | None = None) -> bool:
    """Whether WEND_TRACEBACK asks for all frames. Raises ArgumentError for an unknown word."""
    asked = (os.environ if environment is None else environment).get("WEND_TRACEBACK", "")
    word = asked.strip().lower()
    if word not in {"", "short", "full"}:
        raise ArgumentError(f"WEND_TRACEBACK: {asked!r} is neither short nor full")
    return word == "full"


class Settings:
    """Settings of the whole process, changed by `settings.set(name=value)` or `override`.

    eager: compute after each op     verify: check plans against the reference
    strict: raise failures inside Wend that were repaired, and unless `host_steps` is set the
        want of an accelerator's kernel
    host_steps: the processor computes ops without such a kernel, and nobody is told
    pure: the uncompiled core was asked for     deterministic: bit-equal from run to run
    compile: run plans as machine code     wait: compile at once, before a plan's first run
    autobatch: ops of like structure, and calls of `wend.batched`, run together
    nan_guard: results of each flush are looked through for NaN and infinity
    weigh: calls of `wend.batched` run together only where that is quicker
    full_tracebacks: errors that tell of a mistake show Wend's own frames, too
    """

    __slots__ = (
        "_listeners", "_lock", "autobatch", "compile", "deterministic", "eager", "full_tracebacks",
        "host_steps", "nan_guard", "pure", "strict", "verify", "wait", "weigh",
    )  # fmt: skip

    autobatch: bool
    weigh: bool
    compile: bool
    wait: bool
    eager: bool
    verify: bool
    nan_guard: bool
    strict: bool
    host_steps: bool
    pure: bool
    deterministic: bool
    full_tracebacks: bool

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._lock = threading.RLock()
        self._listeners: list[Callable[[], None]] = []
        self.eager = flag("WEND_EAGER", environment)
        self.verify = flag("WEND_VERIFY", environment)
        self.nan_guard = flag("WEND_NAN_GUARD", environment)
        self.strict = flag("WEND_STRICT", environment)
        self.host_steps = flag("WEND_HOST_STEPS", environment)
        self.pure = flag("WEND_PURE", environment)
        processor_level(environment)  # a wrong name is told now
        self.deterministic = flag("WEND_DETERMINISTIC", environment)
        self.full_tracebacks = full_tracebacks(environment)
        self.autobatch = True
        self.weigh = True
        asked = (os.environ if environment is None else environment).get("WEND_COMPILE", "").strip()
        self.wait = asked.lower() == "force"
        self.compile = not asked or self.wait or flag("WEND_COMPILE", environment)

    def set(self, **changes: bool) -> dict[str, bool]:
        """Change settings by name, all or none; returns the former values of those changed."""
        for name, value in changes.items():
            if name.startswith("_") or name not in self.__slots__:
                raise NotAvailable(f"settings: there is no setting named {name!r}")
            if not isinstance(value, bool):
                raise ArgumentTypeError(
                    f"settings: {name} takes True or False, not a {type(value).__name__}"
                )
        with self._lock:
            before = {name: getattr(self, name) for name in changes}
            for name, value in changes.items():
                setattr(self, name, value)
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()
        return before

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener()` after each change (the core has copies where a lookup is too slow)."""
        with self._lock:
            self._listeners.append(listener)


settings: Final = Settings()


def _choose_tracebacks() -> None:
    WendError.is_short = not settings.full_tracebacks


_choose_tracebacks()
settings.on_change(_choose_tracebacks)


@contextmanager
def override(**changes: bool) -> Iterator[Settings]:
    """Settings changed inside a `with` block, for the whole process."""
    before = settings.set(**changes)
    try:
        yield settings
    finally:
        settings.set(**before)
