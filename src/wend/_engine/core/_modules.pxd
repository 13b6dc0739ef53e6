# C types of `_modules.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport Mode, SLOTS
from wend._engine.core._hot cimport (
    COMPILED, Trace, current_code, current_lasti, current_trace, drop_last, install_lazy_dict, is_internal, push,
    unlock_type,
)
from wend._engine.core._siblings cimport begin_write, end_write

cdef extern from "members.h":
    object call_forward "wend_call_forward" (object module, object args, object kwargs)
    object forward_code "wend_forward_code" (object module)
    int mirrors "wend_mirrors" (object attributes, object members) except -1
    int quick_members "wend_quick_members" (object cls) except -1
    int quick_module "wend_quick_module" (object cls) except -1
    int install_module_call "wend_install_module_call" (object cls) except -1
    int set_module_target "WEND_SET_MODULE_TARGET" ()

cdef class ModeBlock:
    cdef public Mode _before

cdef class SiteBlock:
    cdef public Trace trace
    cdef public object code
    cdef public int lasti

cdef class WholeBlock:
    cdef public Trace trace
    cdef public object outer
    cdef public Py_ssize_t start

cdef class WriteBlock:
    pass

cdef class ModuleBase:
    cdef public Py_ssize_t n_hooks
    cdef size_t dict_slot
    cdef object __weakref__

@cython.locals(trace=Trace)
cdef object call_module "wend_call_module" (ModuleBase module, object args, object kwargs)
cdef list GLOBAL_HOOKS
cdef mark_module(ModuleBase probe)
