# C types of `_slabs.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._hot cimport Value, ask_ahead, untrack
from wend._engine.core._types cimport evaluate
from wend._engine.runtime.native._launch cimport ArgumentBlock, address_of, launch_at, moved, new_array
from wend._engine.runtime.batching._grouper cimport GroupNode, Sequence, Grouper

cdef extern from "_slabs_shim.h":
    void put "wend_slab_put" (long long address, long long word)
    long long get "wend_slab_get" (long long address)
    void clear "wend_slab_clear" (long long address, Py_ssize_t n)

cdef Py_ssize_t ALIGNMENT, WORDS, SEVERAL, MOST_KNOWN

cdef class Group:
    cdef readonly GroupNode node
    cdef readonly Py_ssize_t at
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t leader
    cdef public object seeds
    cdef public long long seed
    cdef public bint wide
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
    cdef stack_of_one(self)

cdef class BumpAllocator:
    cdef public list blocks
    cdef public long long at
    cdef public long long end
    cpdef long long take(self, Py_ssize_t size) except -1

cdef class Shape:
    cdef public Py_ssize_t n_slabs
    cdef public Py_ssize_t n_results
    cdef public long long at_sizes
    cdef public tuple order
    cdef public tuple exported
    cdef public tuple given
    cdef public tuple scattered
    cdef public tuple added
    cdef public bint waits
    cdef public bint in_place

cdef class Rows:
    cdef readonly object run
    cdef readonly object entry
    cdef readonly Shape layout
    cdef readonly object template
    cdef readonly object numbers
    cdef readonly GroupNode node
    cdef readonly bint waiting
    cdef readonly Grouper sorter
    cdef readonly bint by_rows
    cdef readonly bint in_place
    cdef bint free
    cdef readonly Py_ssize_t n_operands
    cdef readonly Py_ssize_t n_results
    cdef readonly Py_ssize_t used
    cdef readonly long long places
    cdef long long table
    cdef dict calls
    cdef readonly tuple order
    cdef tuple exported
    cdef tuple given
    cdef tuple scattered
    cdef readonly tuple added
    cdef readonly list packable
    cdef readonly list sources

    @cython.locals(layout=Shape, sorter=Grouper, room=BumpAllocator, values=list, first=Py_ssize_t,
                   sources=list, packable=list, n=Py_ssize_t, k=Py_ssize_t, i=Py_ssize_t, v=Value)
    cdef begin(self, object run, Group group, object entry, Py_ssize_t rows, Py_ssize_t most)
    cpdef long long address(self, Py_ssize_t place) except -1
    @cython.locals(sorter=Grouper, at="long long", size=Py_ssize_t, step=Py_ssize_t, k=Py_ssize_t,
                   i=Py_ssize_t, address="long long")
    cdef lay_out(self, BumpAllocator room, long long slabs, Py_ssize_t n, Py_ssize_t rows, Py_ssize_t most)
    @cython.locals(pair=tuple, sorter=Grouper, start=Py_ssize_t, count=Py_ssize_t,
                   first=Py_ssize_t, at="long long",
                   word="long long", address="long long", size=Py_ssize_t, k=Py_ssize_t,
                   frame=ArgumentBlock, made=tuple, numbers=tuple, words=tuple, local=Py_ssize_t)
    cpdef bint forward(self, Group group) except -1
    @cython.locals(sorter=Grouper, start=Py_ssize_t, count=Py_ssize_t, first=Py_ssize_t,
                   at="long long", word="long long",
                   size=Py_ssize_t, k=Py_ssize_t, pick=Py_ssize_t, source="long long", wide=bint,
                   frame=ArgumentBlock, made=tuple, numbers=tuple, words=tuple)
    cpdef backward(self, Group group)
    @cython.locals(at="long long", size=Py_ssize_t, n=Py_ssize_t, k=Py_ssize_t)
    cpdef clear(self, Group group)

@cython.locals(i=Py_ssize_t, at=Py_ssize_t, size=Py_ssize_t, v=Value, address="long long",
               room=BumpAllocator)
cpdef lay(Group group, Grouper sorter, object run, list values, object is_wide)
cpdef share_out(Group group, Grouper sorter, object run)

cdef class GroupKind:
    cdef Py_ssize_t rows
    cdef Py_ssize_t most
    cdef object lone
    cdef object many
    cdef int small

@cython.locals(nodes=list, values=list, kinds=list, known=dict, at=Py_ssize_t,
               first=Py_ssize_t, group=Group, kind=GroupKind, k=Py_ssize_t, rows=Rows)
cpdef run_groups(object run, Grouper sorter, list groups, Sequence order, object is_wide, object make)
@cython.locals(node=GroupNode, i=Py_ssize_t, key=list, kept=tuple, known=dict, v=Value, at=Py_ssize_t)
cdef in_place(object run, Grouper sorter, Group group, list values, object make)
@cython.locals(found=list, row=tuple)
cpdef tuple words_of(ArgumentBlock frame, object types, list numbers, bint moving)
@cython.locals(group=Group)
cpdef list are_reached(list groups, list reached)
@cython.locals(families=dict, group=Group, k=Py_ssize_t, rows=Rows)
cpdef list push_back(object run, Grouper sorter, list groups, list through)
@cython.locals(group=Group, found=list)
cpdef list told(list groups)
@cython.locals(flows=dict, group=Group, members=list)
cpdef dict uneven(Grouper sorter, list groups)
@cython.locals(doubtful=set, n=Py_ssize_t, stack="long long", seen="long long", top=Py_ssize_t,
               at=Py_ssize_t, i=Py_ssize_t, start=Py_ssize_t, k=Py_ssize_t, known=object)
cpdef set told_apart(Grouper sorter, dict flows, object seeds, set ends, object words)

@cython.locals(v=Value, found=list, i=Py_ssize_t)
cpdef list types_of(list values)
cpdef set_zero(long long address, Py_ssize_t n)

cdef class TemplateKernel:
    cdef readonly ArgumentBlock frame
    cdef readonly tuple made
    cdef readonly tuple numbers
    cdef readonly tuple fit
    cdef readonly tuple makes
    cdef readonly tuple picks
    cdef readonly object words
    cdef readonly object show

    @cython.locals(outs=list, table=list, found=list, kind=tuple, k=Py_ssize_t)
    cpdef list run(self, list operands)

@cython.locals(v=Value, start="long long", at="long long", data="long long", values=list)
cpdef int call_with(ArgumentBlock frame, tuple made, tuple numbers, tuple fit, list operands,
                    list outs, object words) except -2
@cython.locals(arrays=list, sizes=list, slab=list, k=Py_ssize_t, v=Value)
cpdef tuple gather_tail(list slabs, object grows, object keeps, object join)
