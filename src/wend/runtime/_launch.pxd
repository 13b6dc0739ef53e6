# C types of `_launch.py` (Cython's pure-Python mode).
cimport cython
from wend.core._hot cimport Value

cdef extern from "_launch_shim.h":
    bint COMPILED "WEND_LAUNCH_COMPILED"
    void set_array_type "wend_set_array_type" (object cls)
    long long array_data "wend_array_data" (object array)
    void put "wend_put" (long long address, long long word)
    void put_double "wend_put_double" (long long address, double number)
    long long get "wend_get" (long long address)
    void patch "wend_patch" (long long patches, Py_ssize_t n, long long table)
    void run_kernels "wend_run_kernels" (long long code, Py_ssize_t n, bint release)

cdef class Frame:
    cdef public object memory
    cdef public long long table
    cdef public long long patches
    cdef public Py_ssize_t n_patches
    cdef public long long fault
    cdef public tuple leaves
    cdef public tuple outs
    cdef public tuple numbers
    cdef public tuple steps
    cdef public Py_ssize_t arena_bytes
    cdef public bint release
    cdef public object owner
    cdef public object arena
    cdef public object found

@cython.locals(v=Value, k=Py_ssize_t, at="long long", data="long long", made=list, kept=list)
cpdef list launch(Frame frame, list values, list types, list args, object arena)

@cython.locals(v=Value, k=Py_ssize_t, n=Py_ssize_t)
cpdef bint same_sizes(tuple leaves, tuple types, list values, tuple places, tuple sizes, list args) except -1
