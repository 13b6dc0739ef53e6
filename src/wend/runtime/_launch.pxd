# C types of `_launch.py` (Cython's pure-Python mode).
cimport cython
from wend.core._hot cimport (
    Batch, Leaf, Record, Segment, State, Tensor, Trace, Value, ensure, evaluate, flush, give_gradient, held,
    off_mode, passed, refreshed, wrap,
)

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
    void run_kernels "wend_run_kernels" (long long code, Py_ssize_t n, bint release, long long scratch, Py_ssize_t room)
    void set_threads "wend_set_threads" (int n)
    void set_array_api "wend_set_array_api" (object capsule)
    object make_large "wend_make_large" (object empty, object shape, object dtype)

cdef dict SLOTS
cdef list ARENAS
cdef long long RUNS
cdef int MADE, LEAF, FOUND, SHOWN

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
    cdef public tuple shows
    cdef public tuple gives
    cdef public tuple saves
    cdef public tuple numbers
    cdef public tuple moves
    cdef public tuple weights
    cdef public tuple steps
    cdef public Py_ssize_t arena_bytes
    cdef public long long scratch
    cdef public Py_ssize_t room
    cdef public bint release
    cdef public bint busy
    cdef public bint needs_types
    cdef public object owner
    cdef public object arena
    cdef public object found

cdef class Track:
    cdef public object path
    cdef public tuple roots
    cdef public tuple grad_leaves
    cdef public Frame frame
    cdef public dict frames

@cython.locals(v=Value, data="long long", packs=dict, start="long long", table="long long")
cdef weigh(Frame frame, list values, long long arena)

@cython.locals(at="long long", start="long long", arena="long long", step=tuple, i=Py_ssize_t)
cpdef int launch_at(Frame frame, tuple made, long long table, list values, tuple numbers) except -2

@cython.locals(v=Value, at="long long", start="long long", data="long long", made=list, kept=list,
               step=tuple, row=tuple, k=Py_ssize_t)
cpdef list launch(Frame frame, list values, list types, list args, long long arena, list touched)

@cython.locals(v=Value)
cdef object donated(list values, Py_ssize_t i)
cdef Py_ssize_t ALONE

@cython.locals(state=State, plans=dict, track=Track)
cpdef execute(Batch batch, list live)

@cython.locals(frame=Frame, values=list, args=list)
cpdef int run(Track track, Batch batch) except -2

@cython.locals(v=Value)
cdef tuple sizes_of(Frame frame, list values, list args)

@cython.locals(v=Value, give=tuple, made=list, shown=list, types=list, arena="long long")
cpdef int run_bound(Track track, Frame frame, Batch batch, list values, list args) except -2

cpdef long long take_arena(Frame frame) except -1

@cython.locals(v=Value, shown=list, source=int, k=Py_ssize_t)
cpdef list show(Frame frame, list values, list made)

@cython.locals(v=Value)
cdef source_of(Frame frame, list values, list made, list shown, int source, Py_ssize_t k)

@cython.locals(v=Value, slim=Value, segment=Segment, older=Segment, inputs=dict, saved=dict,
               types=list, deep=bint, source=int, k=Py_ssize_t)
cpdef keep_segment(Track track, Frame frame, Batch batch, list values, list made, list shown)

@cython.locals(k=Py_ssize_t, n=Py_ssize_t)
cpdef moved(tuple row, list args)

@cython.locals(sizes=list, k=Py_ssize_t, n=Py_ssize_t, at=Py_ssize_t)
cpdef tuple sizes_among(tuple places, list args)

@cython.locals(v=Value, k=Py_ssize_t, n=Py_ssize_t, at=Py_ssize_t)
cpdef bint same_sizes(tuple leaves, tuple types, list values, tuple places, tuple sizes, list args) except -1

@cython.locals(heap=list, segments=dict, pending=dict, totals=dict, k=Py_ssize_t, at=Py_ssize_t)
cpdef backward_on(Trace trace, bint retain, list leaves, list older, list fresh)

@cython.locals(segment=Segment, table=dict)
cdef contribute(list heap, dict segments, dict pending, Value value, object g)

@cython.locals(segment=Segment, row=tuple, values=list, fresh=list, targets=tuple, inputs=dict,
               k=Py_ssize_t, v=Value, leaf=Leaf, have=list)
cpdef bint pass_segments(Trace trace, bint retain, list heap, dict segments, dict pending,
                         dict totals) except -1

@cython.locals(rows=list, row=tuple, inputs=dict, fits=bint, v=Value, leaf=Leaf)
cdef tuple known_step(Segment segment, dict seeds, dict totals, bint retain)

@cython.locals(states=list, inputs=dict, values=list, saved=dict, pair=tuple, total=list, v=Value)
cdef list operands_of(tuple row, Segment segment, dict seeds, dict totals)

@cython.locals(state=Record, other=Value)
cdef bint append_operand(list values, list states, Value v) except -1

@cython.locals(types=list, args=list, saved=dict, fresh=list, v=Value, t=Tensor, states=list,
               batch=Batch)
cdef list take_known(Trace trace, tuple row, Segment segment, list values)
