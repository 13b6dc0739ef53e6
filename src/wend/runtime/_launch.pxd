# C types of `_launch.py` (Cython's pure-Python mode).
cimport cython
from wend.core._hot cimport Segment, Value, held

cdef extern from "_launch_shim.h":
    bint COMPILED "WEND_LAUNCH_COMPILED"
    void set_array_type "wend_set_array_type" (object cls)
    long long array_data "wend_array_data" (object array)
    bint array_owned "wend_array_owned" (object array)
    Py_ssize_t references "wend_references" (object x)
    void put "wend_put" (long long address, long long word)
    void put_double "wend_put_double" (long long address, double number)
    long long get "wend_get" (long long address)
    void patch "wend_patch" (long long patches, Py_ssize_t n, long long table)
    void run_kernels "wend_run_kernels" (long long code, Py_ssize_t n, bint release)

cdef list NOTE

cdef class Frame:
    cdef public object memory
    cdef public long long table
    cdef public long long patches
    cdef public Py_ssize_t n_patches
    cdef public long long fault
    cdef public tuple leaves
    cdef public tuple types
    cdef public tuple places
    cdef public tuple sizes
    cdef public tuple outs
    cdef public tuple results
    cdef public tuple numbers
    cdef public tuple weights
    cdef public tuple steps
    cdef public Py_ssize_t arena_bytes
    cdef public bint release
    cdef public bint busy
    cdef public bint plain
    cdef public bint needs_types
    cdef public object owner
    cdef public object arena
    cdef public object found

cdef class Track:
    cdef public object path
    cdef public tuple roots
    cdef public tuple grad_leaves
    cdef public tuple saved
    cdef public object type_of
    cdef public Frame frame

@cython.locals(v=Value, at="long long", data="long long", made=list, kept=list, step=tuple, k=Py_ssize_t, packs=dict)
cpdef list launch(Frame frame, list values, list types, list args, long long arena, list touched)

@cython.locals(v=Value)
cdef object donated(list values, Py_ssize_t i)
cdef Py_ssize_t ALONE

@cython.locals(frame=Frame, values=list, args=list)
cpdef int run(Track track, object batch) except -2

@cython.locals(v=Value, k=Py_ssize_t, made=list, types=list, arena="long long")
cpdef int run_bound(Track track, Frame frame, object batch, list values, list args) except -2

@cython.locals(v=Value, slim=Value, segment=Segment, inputs=dict, nested=bint)
cpdef keep_segment(Track track, object batch, list values, dict env)

@cython.locals(v=Value, saved=dict)
cdef dict env_of_saved(Track track, list values, dict env)

@cython.locals(v=Value, k=Py_ssize_t, n=Py_ssize_t)
cpdef bint same_sizes(tuple leaves, tuple types, list values, tuple places, tuple sizes, list args) except -1
