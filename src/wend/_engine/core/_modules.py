# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, auto_pickle=False
"""Modules and blocks: the call of a module, and contexts that change the recording of a thread.

Compiled with the types in `_modules.pxd`, or run as plain Python: see `_hot.py`.
"""

from importlib import import_module
from types import ModuleType

from wend._engine.core._hot import current_trace, is_internal
from wend._engine.core._siblings import begin_write, end_write


class ModeBlock:
    """Context in which the thread's mode is `_mode(mode)` of the subclass.

    These blocks end natively: an interrupt cannot come in between, and leave things as inside.
    In the uncompiled core an interrupt can, like at the end of any block, when `__exit__` has just
    begun.
    """

    def __enter__(self):
        trace = current_trace()
        before = trace.mode
        mode = self._mode(before)
        self._before = before
        trace.mode = mode
        return self

    def __exit__(self, *exc):
        try:
            current_trace().mode = self._before
        except BaseException:  # an interrupt, in the uncompiled core
            current_trace().mode = self._before
            raise


class SiteBlock:
    """Context in which all ops of a thread have the same line, that of slot `user_site`."""

    def __init__(self, trace):
        self.trace = trace

    def __enter__(self):
        trace = self.trace
        code = trace.site_code
        lasti = trace.site_lasti
        self.code = code
        self.lasti = lasti
        if code is None:
            code, lasti = SLOTS.user_site()
            trace.site_code = code
            trace.site_lasti = lasti

    def __exit__(self, kind, error, traceback):
        trace = self.trace
        trace.site_code = self.code
        trace.site_lasti = self.lasti


class WholeBlock:
    """Context whose rebindings are taken back by slot `take_back`, if that says so of an error."""

    def __enter__(self):
        trace = current_trace()
        self.trace = trace
        self.outer = trace.journal
        if trace.journal is None:
            trace.journal = []
        self.start = len(trace.journal) + len(trace.touched)

    def __exit__(self, kind, error, traceback):
        try:
            if error is not None:
                SLOTS.take_back(self.trace, self.start, error)
        finally:
            self.trace.journal = self.outer


class WriteBlock:
    """Context in which only a single thread may be at a time: see `begin_write`."""

    def __enter__(self):
        begin_write()

    def __exit__(self, kind, error, traceback):
        end_write()


class ModuleBase:
    """Native half of nn.Module: the call without hooks, and the user's line and module path."""

    def __call__(self, *args, **kwargs):
        return call_module(self, args, kwargs)


def call_module(module, args, kwargs):
    """Call a module with a tuple and a dict (or None); compiled, this is the slot of the type."""
    trace = current_trace()
    code = current_code()
    outer_code = trace.site_code
    outer_lasti = trace.site_lasti
    if not is_internal(code):
        trace.site_code = code
        trace.site_lasti = current_lasti()
    code = forward_code(module)
    if code is not None and not is_internal(code):
        trace.site_code = None  # the lines of its ops are further in
    push(trace.modules, module)
    try:
        if GLOBAL_HOOKS[0] == 0 and module.n_hooks == 0:
            return call_forward(module, args, kwargs)
        return module._call_with_hooks(args, {} if kwargs is None else kwargs)
    except Exception as error:
        SLOTS.module_error(error, trace)
        raise
    finally:
        drop_last(trace.modules)
        trace.site_code = outer_code
        trace.site_lasti = outer_lasti


def note_module_class(cls):
    """Let the members of a class of modules be found in the modules' dicts, without a detour."""
    quick_members(cls)


def mirrored(attributes, members):
    """Whether a dict has all items of another, which may be of a subclass: the same objects."""
    return mirrors(attributes, members) == 1


class PublicModule(ModuleType):
    """A module of Python's that has a `__getattr__`: present names are found without a detour.

    Python knows a quick way only to modules that have no `__getattr__`.
    """

    def __reduce__(self):
        return import_module, (self.__name__,)


quick_module(PublicModule)
GLOBAL_HOOKS = [0]  # global module hooks in force
ACTIVE_HOOKS = GLOBAL_HOOKS  # for those who count hooks


def mark_module(probe):
    """As `mark_tensor`, for modules."""
    probe.dict_slot = 0x57454E44
    install_lazy_dict(probe, 1)


if COMPILED:
    mark_module(ModuleBase.__new__(ModuleBase))
    set_module_target()
    install_module_call(ModuleBase)
    unlock_type(ModuleBase)
