# C types of `_slabs.py` (Cython's pure-Python mode).
cimport cython
from wend.core._hot cimport Value
from wend.runtime._launch cimport Frame, launch_at
from wend.runtime._sort cimport Node, Sorter

cdef extern from "_slabs_shim.h":
    void put "wend_slab_put" (long long address, long long word)
    long long get "wend_slab_get" (long long address)
    void clear "wend_slab_clear" (long long address, Py_ssize_t n)

cdef Py_ssize_t ALIGNMENT

cdef class Group:
    cdef readonly Node node
    cdef readonly list members
    cdef public object seeds
    cdef public long long seed
    cdef public object family
    cdef public tuple call
    cdef public Py_ssize_t first
    cdef readonly bint alone
    cdef readonly bint by_rows
    cdef readonly Py_ssize_t n
    cdef readonly Py_ssize_t lift
    cdef public object template
    cdef public list numbers
    cdef public list types
    cdef public list arrays

cdef class Room:
    cdef public list blocks
    cdef public long long at
    cdef public long long end
    cpdef long long take(self, Py_ssize_t size) except -1

cdef class Rows:
    cdef public object run
    cdef readonly Sorter sorter
    cdef readonly bint by_rows
    cdef readonly Py_ssize_t n_operands
    cdef readonly Py_ssize_t n_results
    cdef public Py_ssize_t used
    cdef public long long places
    cdef public long long table
    cdef public dict calls
    cdef public tuple order
    cdef public tuple exported
    cdef public tuple given
    cdef public tuple scattered
    cdef public tuple added
    cdef public list packable

    @cython.locals(pair=tuple, sorter=Sorter, members=list, first=Py_ssize_t, at="long long",
                   word="long long", address="long long", size=Py_ssize_t, k=Py_ssize_t,
                   frame=Frame, made=tuple, numbers=tuple, local=Py_ssize_t)
    cpdef bint forward(self, Group group) except -1
    @cython.locals(sorter=Sorter, members=list, first=Py_ssize_t, at="long long", word="long long",
                   size=Py_ssize_t, k=Py_ssize_t, pick=Py_ssize_t, wide=bint, frame=Frame,
                   made=tuple, numbers=tuple)
    cpdef backward(self, Group group)
    @cython.locals(at="long long", size=Py_ssize_t, k=Py_ssize_t)
    cpdef clear(self, Group group)

@cython.locals(v=Value, found=list)
cpdef list types_of(list values)
cpdef set_zero(long long address, Py_ssize_t n)
