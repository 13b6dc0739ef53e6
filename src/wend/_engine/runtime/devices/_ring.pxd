# C types of `_ring.py` (Cython's pure-Python mode).
cimport cython

cdef extern from "_slabs_shim.h":
    void put "wend_slab_put" (long long address, long long word)
    long long get "wend_slab_get" (long long address)

cdef extern from "_grouper_shim.h":
    void copy "wend_copy" (long long target, long long source, Py_ssize_t n)

cdef extern from "_ring_shim.h":
    int launch_opencl "wend_launch_opencl" (long long set_arg, long long enqueue, long long queue, long long launches, Py_ssize_t n)
    int launch_cuda "wend_launch_cuda" (long long function, long long stream, long long ring, long long launches, Py_ssize_t n)

cdef long long HANDLE, ITEMS, PER_GROUP, WORDS, SIZES, CALL, LAUNCH

@cython.final
cdef class Ring:
    cdef readonly long long address
    cdef readonly long long launches
    cdef readonly Py_ssize_t most
    cdef public long long most_groups
    cdef public long long size
    cdef public long long next
    cdef public long long at
    cdef public Py_ssize_t left
    cdef public Py_ssize_t count

    @cython.locals(number="long long", facts="long long", size="long long", n="long long", rows="long long", k="long long", call="long long", head="long long", place="long long", row="long long", first="long long", block="long long", groups="long long")
    cdef bint add_round(self, long long functions, long long scratch, long long guard)
    @cython.locals(end="long long")
    cpdef add_rounds(self, long long end, long long functions, long long scratch, long long guard)
    @cython.locals(head="long long", place="long long", row="long long")
    cpdef bint add(self, long long number, long long block, long long size, long long groups, long long functions, long long guard)
    cdef long long room(self, long long size)
    cdef long long begin(self, long long rows, long long guard)
    @cython.locals(at="long long")
    cdef void end(self, long long row, long long groups, long long place, long long head, long long number, long long facts)

@cython.locals(pairs="long long", j="long long", pair="long long")
cdef void use_scratch(long long call, long long scratch)
@cython.locals(turns="long long", j="long long", size="long long", unit="long long", items="long long")
cdef long long groups_of(long long block, long long facts, long long most)

cpdef int by_opencl(long long set_arg, long long enqueue, long long queue, long long launches, Py_ssize_t n)
cpdef int by_cuda(long long function, long long stream, long long ring, long long launches, Py_ssize_t n)
