"""From LLVM's textual language to machine code in memory: with `spirv_server`, all of llvmlite.

    library = compile_module(text, ["kernel"])      # now, in this thread
    compile_later(text, ["kernel"], callback)       # in the background thread
    address = library.address("kernel")             # valid as long as `library` lives

Objects are kept on disk (`llvm_ir.object_cache`), keyed by the text, LLVM's version, the passes and
the target. Some come with the installation (`llvm_ir.ready_objects`), or with a session's file, for
that session alone (`llvm_ir.offered_objects`). In the background thread only LLVM itself runs,
without the interpreter lock. LLVM runs in one thread at a time, under `_lock`; callers of this
module hold no other lock.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import platform
import re
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

from wend._engine.base.config import LEVELS, processor_level
from wend._engine.base.errors import ArgumentError, CompileError
from wend._engine.base.forking import at_fork
from wend._engine.base.records import Record
from wend._engine.compiler.llvm_ir import ready_objects
from wend._engine.compiler.llvm_ir.object_cache import ObjectCache, default_directory
from wend._engine.compiler.llvm_ir.offered_objects import Offer
from wend._engine.compiler.llvm_ir.spirv import in_pairs, spirv_of
from wend._engine.compiler.llvm_ir.user_key import default_secret

#: Kernels are written as vectors, and unrolled where that pays: a few passes tidy up. LLVM's own
#: list for its level 2 takes six times as long for the same loops.
PASSES: Final = (
    "always_inliner",
    "sroa",
    "instruction_combine",
    "simplify_cfg",
    "dead_code_elimination",
    "global_dead_code_eliminate",
)

#: Passes that write integers of odd sizes, which SPIR-V lacks.
_NOT_FOR_SPIRV: Final = frozenset({"instruction_combine"})

#: The processors that the generator knows, as named by `platform.machine`.
_PROCESSORS: Final = frozenset({"x86_64", "amd64", "aarch64", "arm64"})
_PROBE: Final = "define i64 @probe(i64 %x) {\n  %y = add i64 %x, 1\n  ret i64 %y\n}\n"

Callback = Callable[["Library | CompileError"], None]
#: Seconds in which another thread wakes, takes the interpreter lock, and makes several short calls.
WAY: Final = 5e-5
P = ParamSpec("P")
T = TypeVar("T")


@cache
def _names_in(features: str) -> frozenset[str]:
    """Return the names that LLVM's list of features has with a plus."""
    return frozenset(f[1:] for f in features.split(",") if f.startswith("+"))


class Target(Record):
    """A kind of processor. triple, cpu, features: in LLVM's words."""

    triple: str
    cpu: str
    features: str

    def has(self, feature: str) -> bool:
        """Whether the processor has this feature ("avx2", "f16c", "neon")."""
        return feature in self.names

    @property
    def names(self) -> frozenset[str]:
        """The features that the processor has."""
        return _names_in(self.features)

    @cached_property
    def vector_bytes(self) -> int:
        """Bytes in the widest vector register; of an accelerator, whose lanes are work items, 4."""
        if self.is_device:
            return 4
        return 64 if self.has("avx512f") else 32 if self.has("avx") else 16

    @property
    def registers(self) -> int:
        """Number of vector registers."""
        return 32 if self.has("avx512f") or self.is_arm else 16

    @cached_property
    def masks(self) -> bool:
        """Whether the processor stores some lanes of a vector as quickly as all lanes."""
        return self.has("avx512f")

    @cached_property
    def fused(self) -> bool:
        """Whether the processor multiplies and adds with a single rounding."""
        return self.has("fma") or self.is_arm or self.is_device

    @cached_property
    def converts_halves(self) -> bool:
        """Whether the processor converts between float16 and float32."""
        return self.has("f16c") or self.is_arm

    @property
    def is_arm(self) -> bool:
        """Whether the processor is a 64-bit Arm."""
        return self.triple.startswith(("aarch64", "arm64"))

    @property
    def is_wasm(self) -> bool:
        """Whether the processor is WebAssembly's."""
        return self.triple.startswith("wasm32")

    @cached_property
    def is_device(self) -> bool:
        """Whether this is an accelerator, by OpenCL or of NVIDIA."""
        return self.is_spirv or self.is_nvidia

    @property
    def is_spirv(self) -> bool:
        """Whether this is an accelerator by OpenCL."""
        return self.triple.startswith("spirv64")

    @cached_property
    def is_nvidia(self) -> bool:
        """Whether this is an accelerator of NVIDIA."""
        return self.triple.startswith("nvptx64")

    @cached_property
    def pointer(self) -> str:
        """LLVM's type of an address in the memory of operands and results."""
        return "ptr addrspace(1)" if self.is_device else "ptr"


class Library:
    """Functions in executable memory, which goes back when nobody has the library any more."""

    __slots__ = ("__weakref__", "_addresses", "_tracker")

    def __init__(self, addresses: dict[str, int], tracker: Any) -> None:
        self._addresses = addresses
        self._tracker = tracker

    def address(self, name: str) -> int:
        """Where the function starts. Raises CompileError for a name that was not asked for."""
        try:
            return self._addresses[name]
        except KeyError:
            raise CompileError(f"address: {name!r} is none of {list(self._addresses)}") from None

    def function(self, name: str, *arguments: Any, result: Any = None) -> Any:
        """A ctypes function, for tests and measurements. arguments, result: ctypes types."""
        call: Any = ctypes.CFUNCTYPE(result, *arguments)(self.address(name))
        call.library = self  # the code lives as long as its possible callers
        return call

    def __del__(self) -> None:
        # Freeing needs LLVM's lock, which a compilation may hold for long: the next compilation
        # frees.
        _retired.append(self._tracker)


@dataclass
class Counters:
    """The counts so far of modules, by origin.

    compiled now; ready: came with the installation; offered: came with a session's file; loaded
    from disk; shared: in memory; failed: refused by LLVM
    """

    compiled: int = 0
    ready: int = 0
    offered: int = 0
    loaded: int = 0
    shared: int = 0
    failed: int = 0


counters: Final = Counters()
_retired: list[Any] = []
_lock = threading.RLock()
_libraries: weakref.WeakValueDictionary[str, Library] = weakref.WeakValueDictionary()
_cache: ObjectCache | None = None
_maker: Callable[[str], bytes] | None = None
_links = 0


# -- the processor ------------------------------------------------------------------------------


@cache
def _binding() -> Any:
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


#: Beginnings of the names of features that a level of x86-64 processors does not have.
_ABOVE: Final = {
    "sse4.2": ("avx", "fma", "f16c", "xop", "vaes", "vpclmulqdq", "amx", "evex512"),
    "avx2": ("avx512", "avx10", "amx", "evex512"),
    "avx512": (),
}


@cache
def host() -> Target:
    """Return the processor that code is made for: this one, as far as WEND_CPU allows.

    Raises ArgumentError if this processor is below the level that WEND_CPU asks for, or of another
    kind than those that have levels.
    """
    binding = _binding()
    triple, features = binding.get_process_triple(), dict(binding.get_host_cpu_features())
    level = processor_level()
    if level and not triple.startswith("x86_64"):
        kind = triple.partition("-")[0]
        raise ArgumentError(
            f"WEND_CPU: {level} is a level of x86-64 processors, and this one is {kind}; unset it"
        )
    if level and not features.get(LEVELS[level]):
        raise ArgumentError(
            f"WEND_CPU: this processor is below {level}; unset it or name a lower one"
        )
    for name in features:
        if name.startswith(_ABOVE.get(level, ())):
            features[name] = False
    return Target(
        triple,
        binding.get_host_cpu_name(),
        ",".join(("+" if there else "-") + name for name, there in sorted(features.items())),
    )


#: The processor that this context writes kernels for, if not `host()`.
_written_for: ContextVar[Target | None] = ContextVar("written_for", default=None)


def written_for() -> Target:
    """Return the processor that kernels are written for: `host()`, except within `writing_for`."""
    return _written_for.get() or host()


@contextmanager
def writing_for(target: Target) -> Iterator[None]:
    """Write kernels for this processor; this thread's code in the `with` block is concerned."""
    token = _written_for.set(target)
    try:
        yield
    finally:
        _written_for.reset(token)


def cached_by_processor(function: Callable[P, T]) -> Callable[P, T]:
    """Return `functools.cache` of a function whose result depends on `written_for()` too."""

    @cache
    def kept(target: Target, *args: Any, **named: Any) -> T:
        return function(*args, **named)

    @wraps(function)
    def call(*args: Any, **named: Any) -> T:
        return kept(written_for(), *args, **named)

    return cast(Callable[P, T], call)


@cache
def _machine(target: Target) -> Any:
    _initialize(target)
    binding = _binding()
    if target.is_device:
        return binding.Target.from_triple(target.triple).create_target_machine(
            cpu=target.cpu, features=target.features, opt=3 if target.is_nvidia else 0
        )
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=2,
        # Code may lie far from the functions that are called. WebAssembly has no addresses of code.
        reloc="static" if target.is_wasm else "pic",
        codemodel="small",
    )


def _initialize(target: Target) -> None:
    """Have LLVM know other processors, if the target is not this processor."""
    binding = _binding()
    if target.triple != binding.get_process_triple():
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()


@cache
def _builder(target: Target) -> Any:
    binding = _binding()
    return binding.create_pass_builder(
        _machine(target), binding.create_pipeline_tuning_options(speed_level=2)
    )


@cache
def _linker() -> Any:
    # LLVM's older linker places the sections of a module apart. In a large process these may lie
    # farther from each other than an instruction reaches, and LLVM aborts the process: after some
    # thousand modules on x86-64, at once on Arm. JITLink takes one piece of memory per module.
    return _binding().create_lljit_compiler(_machine(host()), use_jit_link=True)


@cache
def _versions() -> str:
    import llvmlite

    return f"{llvmlite.__version__} {_binding().llvm_version_info} {' '.join(PASSES)}"


@cache
def obstacle() -> str | None:
    """Return why no machine code can be made and run here, or None. Found out once."""
    machine = platform.machine().lower()
    if machine not in _PROCESSORS or sys.byteorder != "little" or sys.maxsize < 1 << 32:
        return f"no code is generated for this processor ({machine or 'unknown'})"
    try:
        library = compile_module(_PROBE, ["probe"])
        if library.function("probe", ctypes.c_int64, result=ctypes.c_int64)(41) == 42:
            return None
    except ImportError as fault:
        # Whether the platform lets code be made is the question; the answer is shown to the user
        # once.
        return f"llvmlite cannot be imported ({fault})"
    except Exception as fault:  # whatever the platform refuses: code in memory, say
        return f"{type(fault).__name__}: {fault}"
    return "generated code does not run as it should"


# -- compiling ----------------------------------------------------------------------------------


def compile_module(
    text: str, names: Iterable[str], target: Target | None = None, offer: Offer | None = None
) -> Library:
    """Return the machine code of a module in LLVM's textual language.

    names: the functions to be called from outside
    target: `host()` unless given; code for another target must still run here
    offer: machine code that only this caller may use

    Raises CompileError if LLVM refuses the text.
    """
    with _lock:
        library = _find_or_make(text, list(names), host() if target is None else target, offer)
    assert library is not None
    return library


def find_module(text: str, names: Iterable[str], offer: Offer | None = None) -> Library | None:
    """Return machine code that need not be made: in memory, brought along, or kept on disk.

    offer: machine code that only this caller may use
    The result is None too while another thread is compiling, because nobody waits here.
    """
    if not _lock.acquire(blocking=False):
        return None
    try:
        return _find_or_make(text, list(names), host(), offer, make=False)
    finally:
        _lock.release()


def is_busy() -> bool:
    """Return whether another thread is compiling."""
    if not _lock.acquire(blocking=False):
        return True
    _lock.release()
    return False


def give_way() -> None:
    """Let another thread that is compiling take the interpreter lock for its next steps.

    A job has many calls of LLVM, most of a few microseconds. After each, the thread waits
    for the lock until the interpreter's interval of 5 ms is over.
    """
    if is_busy():
        time.sleep(WAY)


def _find_or_make(
    text: str, names: list[str], target: Target, offer: Offer | None, make: bool = True
) -> Library | None:
    """Return a module's library; None if the machine code is nowhere, and not to be made."""
    key = _key_of(text, names, target)
    _retired.clear()
    library = _libraries.get(key)
    if library is not None:
        counters.shared += 1
        return library
    offered = None if offer is None else _find_offered(key, names, offer)
    if offered is not None:
        return offered
    object_code = _find_object(key, text, target)
    if object_code is None:
        if not make:
            return None
        object_code = _make_object(key, text, target)
    library = _libraries[key] = _link(object_code, names)
    return library


def _find_offered(key: str, names: list[str], offer: Offer) -> Library | None:
    """Return a library of an offer, or None; nobody else finds the library."""
    library: Library | None = offer.libraries.get(key)
    if library is None:
        object_code = offer.find(key)
        if object_code is not None:
            counters.offered += 1
            library = offer.libraries[key] = _link(object_code, names)
    return library


def _key_of(text: str, names: list[str], target: Target) -> str:
    described = "\0".join((text, " ".join(names), _versions(), *_words(target)))
    return hashlib.sha256(described.encode()).hexdigest()


def _make_object(key: str, text: str, target: Target) -> bytes:
    if _maker is not None and target == host():
        return _maker(text)
    object_code = _translate(text, target)
    _object_cache().put(key, object_code)
    counters.compiled += 1
    return object_code


def objects_of(texts: Mapping[str, Iterable[str]], offer: Offer | None = None) -> dict[str, bytes]:
    """Return the objects of modules for this processor, by the keys of offers.

    texts: the modules, each with the functions to be called from outside
    offer: machine code that only this caller may use

    Raises CompileError.
    """
    objects: dict[str, bytes] = {}
    with _lock:
        for text, names in texts.items():
            key = _key_of(text, list(names), host())
            object_code = None if offer is None else offer.find(key)
            if object_code is None:
                object_code = _find_object(key, text, host())
            objects[key] = _make_object(key, text, host()) if object_code is None else object_code
    return objects


def description() -> dict[str, str]:
    """Return the processor that code is made for, and the version of LLVM, as texts."""
    target = host()
    return {"processor": f"{target.triple} {target.cpu}", "features": target.features,
            "llvm": _versions()}  # fmt: skip


@contextmanager
def made_by(maker: Callable[[str], bytes]) -> Iterator[None]:
    """Take each object for this processor from `maker`, in all threads, and none from disk.

    maker: returns the object of a text; called in one thread at a time
    """
    global _maker
    with _lock:
        _maker = maker
    try:
        yield
    finally:
        with _lock:
            _maker = None


def _find_object(key: str, text: str, target: Target) -> bytes | None:
    """Return a module's object if it was brought along, or is kept on disk."""
    if _maker is not None:
        return None
    object_code = ready_objects.find(text, target.triple, target.names)
    if object_code is not None:
        counters.ready += 1
        return object_code
    object_code = _object_cache().get(key)
    if object_code is not None:
        counters.loaded += 1
    return object_code


def machine_code(text: str, target: Target) -> bytes:
    """Return the object of a module for any processor, made now. Raises CompileError."""
    with _lock:
        return _translate(text, target)


def device_code(text: str, target: Target) -> bytes:
    """Return a module for an accelerator: SPIR-V, or the text of PTX. Raises CompileError."""
    with _lock:
        key = _key_of(text, [], target)
        code = _object_cache().get(key)
        if code is None:
            module = _optimized(text if target.is_nvidia else in_pairs(text), target)
            if target.is_nvidia:
                code = str(_machine(target).emit_assembly(module)).encode()
            else:
                code = spirv_of(str(module))
            _object_cache().put(key, code)
            counters.compiled += 1
        else:
            counters.loaded += 1
        return code


def kept_translation(code: bytes, about: str) -> bytes | None:
    """Return the form that a driver has given to a module before, in any process; or None.

    about: the driver and all that its translation depends on
    """
    with _lock:
        return _object_cache().get(_translation_key(code, about))


def keep_translation(code: bytes, about: str, translation: bytes) -> None:
    """Keep the form that a driver has given to a module: see `kept_translation`."""
    with _lock:
        _object_cache().put(_translation_key(code, about), translation)


def _translation_key(code: bytes, about: str) -> str:
    return hashlib.sha256(b"\0".join((about.encode(), code))).hexdigest()


def linkable_code(
    modules: Mapping[str, Mapping[str, str]],
    target: Target,
    told: Callable[[int], object] = lambda done: None,
) -> bytes:
    """Return one object of several modules, for a linker; kept on disk. Raises CompileError.

    modules: the texts; for each the functions to be called from outside, with new names
    told: called with the number of modules that are done
    """
    renamed = [
        f"{text}\0{old} {new}" for text, names in modules.items() for old, new in names.items()
    ]
    described = "\0".join(("for a linker", *renamed, _versions(), *_words(target)))
    key = hashlib.sha256(described.encode()).hexdigest()
    with _lock:
        object_code = _object_cache().get(key)
        if object_code is None:
            context = _binding().create_context()
            whole = _optimized("", target, context=context)
            for done, (text, names) in enumerate(modules.items()):
                told(done)
                whole.link_in(_optimized(text, target, names, context))
            object_code = bytes(_machine(target).emit_object(whole))
            _object_cache().put(key, object_code)
            counters.compiled += 1
        return object_code


def assembly(text: str, target: Target | None = None) -> str:
    """Return a module in the processor's assembly language, for people and tests."""
    target = host() if target is None else target
    with _lock:
        return str(_machine(target).emit_assembly(_optimized(text, target)))


def _words(target: Target) -> tuple[str, str, str]:
    return target.triple, target.cpu, target.features


def _object_cache() -> ObjectCache:
    global _cache
    if _cache is None:
        _cache = ObjectCache(default_directory(), secret=default_secret())
    return _cache


def use_cache(objects: ObjectCache | None) -> None:
    """Keep objects there from now on; None: where the environment says."""
    global _cache
    with _lock:
        _cache = objects


def _optimized(
    text: str, target: Target, names: Mapping[str, str] | None = None, context: Any = None
) -> Any:
    """Return a module after the passes.

    names: the functions that others call, with new names; None: all functions, as they are
    context: the context of LLVM for the module; None for a context of its own
    """
    binding = _binding()
    machine = _machine(target)
    if target.is_wasm:
        text = _with_wide_tables(text)
    try:
        # A context of its own: the common context would keep every type and constant for ever.
        module = binding.parse_assembly(text, context=context or binding.create_context())
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as fault:
        counters.failed += 1
        raise CompileError(f"compile_module: LLVM refuses the text: {fault}") from fault
    if names is not None:
        for item in (*module.functions, *module.global_variables):
            if item.name in names:
                item.name, item.visibility = names[item.name], "hidden"
            elif not item.is_declaration:
                item.linkage = "internal"
    passes = binding.create_new_module_pass_manager()
    for name in PASSES:
        if not (target.is_spirv and name in _NOT_FOR_SPIRV):
            getattr(passes, f"add_{name}_pass")()
    passes.run(module, _builder(target))
    return module


def _with_wide_tables(text: str) -> str:
    """Return a text whose tables of addresses have 8 bytes an entry, for addresses of 4 bytes."""

    def widened(table: re.Match[str]) -> str:
        entries = [f"{{ptr, i32}} {{{entry}, i32 0}}" for entry in table[2].split(", ")]
        return f"[{table[1]} x {{ptr, i32}}] [{', '.join(entries)}]"

    return re.sub(r"\[(\d+) x ptr\] \[(ptr @[^]]*)\]", widened, text)


def _translate(text: str, target: Target) -> bytes:
    return bytes(_machine(target).emit_object(_optimized(text, target)))


def _link(object_code: bytes, names: list[str]) -> Library:
    global _links
    _links += 1
    builder = _binding().JITLibraryBuilder().add_object_img(object_code).add_current_process()
    for name in names:
        builder.export_symbol(name)
    try:
        tracker = builder.link(_linker(), f"wend{_links}")
        addresses = {name: int(tracker[name]) for name in names}
    except (RuntimeError, KeyError) as fault:
        counters.failed += 1
        raise CompileError(f"compile_module: cannot link {names}: {fault}") from fault
    return Library(addresses, tracker)


# -- in the background --------------------------------------------------------------------------


class _Background:
    """A queue of modules and the daemon thread that compiles them, started when first needed."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.queue: deque[tuple[str, list[str], Callback, Offer | None]] = deque()
        self.running = 0
        self.thread: threading.Thread | None = None

    def add(self, text: str, names: list[str], callback: Callback, offer: Offer | None) -> None:
        with self.changed:
            self.queue.append((text, names, callback, offer))
            self._wake()

    def _wake(self) -> None:
        if self.thread is None or not self.thread.is_alive():
            self.thread = threading.Thread(target=self._work, name="wend-compiler", daemon=True)
            self.thread.start()
        self.changed.notify_all()

    def _work(self) -> None:
        while True:
            with self.changed:
                while not self.queue:
                    self.changed.wait()
            # LLVM's lock first: a fork or the end of the process waits for this lock, and must then
            # find a job either whole in the queue or done.
            with _lock:
                with self.changed:
                    if not self.queue:
                        continue
                    text, names, callback, offer = self.queue.popleft()
                    self.running += 1
                try:
                    callback(_compiled(text, names, offer))
                finally:
                    with self.changed:
                        self.running -= 1
                        self.changed.notify_all()

    def drain(self, timeout: float | None) -> bool:
        with self.changed:
            if self.queue:
                self._wake()
            return self.changed.wait_for(lambda: not self.queue and not self.running, timeout)


def _compiled(text: str, names: list[str], offer: Offer | None) -> Library | CompileError:
    try:
        return compile_module(text, names, offer=offer)
    except CompileError as fault:
        # The thread must not end: the plan gets the error, and notes a defect.
        return fault
    except Exception as fault:  # the exception would end the thread, unseen by anybody
        return CompileError(f"compile_later: {type(fault).__name__}: {fault}")


_background = _Background()
#: Functions of callers with more to compile: `drain` calls these before waiting for the queue.
before_rest: list[Callable[[], None]] = []


def compile_later(
    text: str, names: Iterable[str], callback: Callback, offer: Offer | None = None
) -> None:
    """Compile in the background thread, which calls `callback` with the Library or a CompileError.

    The callback must be short, because the interpreter lock is held in another thread than the
    user's. The callback must take no lock that is ever held while calling in here, and not raise.
    Modules are compiled in the order of the calls.
    """
    _background.add(text, list(names), callback, offer)


def pending() -> int:
    """Return how many modules wait to be compiled or are being compiled."""
    with _background.changed:
        return len(_background.queue) + _background.running


def drain(timeout: float | None = None) -> bool:
    """Wait until all modules given to `compile_later` are compiled and the callbacks have run.

    timeout: in seconds. Returns False if the time ran out. Not to be called from a callback.
    """
    for finish in before_rest:
        finish()
    return _background.drain(timeout)


# -- forks and the end --------------------------------------------------------------------------


def _before_fork() -> None:
    _lock.acquire()
    _background.changed.acquire()


def _after_fork_in_parent() -> None:
    _background.changed.release()
    _lock.release()


def _after_fork_in_child() -> None:
    # No thread of the parent's is here. Queued modules are compiled at the next request.
    global _lock
    _lock = threading.RLock()
    _background.changed = threading.Condition()
    _background.running = 0
    _background.thread = None


@atexit.register
def _stop() -> None:
    # The background thread must not be inside LLVM while the process takes LLVM down: the thread
    # waits for the lock, which is not given back.
    _background.queue.clear()
    _lock.acquire()


at_fork(_before_fork, _after_fork_in_parent, _after_fork_in_child)
