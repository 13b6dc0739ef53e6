# C types of `_cutter.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport (
    COUNTS, LeafPrimitive, Mode, PrimitiveBase, Program, RankedType, TensorType,
)
from wend._engine.core._hot cimport FlushJob, Record, State, Value
from wend._engine.core._trie_policy cimport adopt, count_pass, set_types

cdef extern from "lists.h":
    size_t address "wend_address" (object o)
cdef extern from "_grouper_shim.h":
    Record record_at "(struct __pyx_obj_4wend_7_engine_4core_4_hot_Record *)wend_item" (list items, Py_ssize_t i)
    Value value_at "(struct __pyx_obj_4wend_7_engine_4core_4_hot_Value *)wend_item" (list items, Py_ssize_t i)
    long long *table_of "wend_table" (object array) except NULL
    long long *behind "wend_behind" (long long *table, Py_ssize_t n)
    void fill "wend_fill" (long long *table, Py_ssize_t n, long long number)

cdef int PLAIN, LEAF, NODE, INFERENCE
cdef Py_ssize_t LOOKED
cdef dict ASK_, SUITED

@cython.final
cdef class Cutter:
    cdef list states
    cdef list values
    cdef list args
    cdef dict sites
    cdef readonly list ends
    cdef readonly list spent
    cdef readonly Py_ssize_t fresh
    cdef public bint whole
    cdef object words
    cdef long long *last
    cdef long long *part_of
    cdef long long *place
    cdef State root
    cdef State state
    cdef list own_states
    cdef list own_values
    cdef Py_ssize_t begin
    cdef Py_ssize_t number
    cdef object code
    cdef long long lasti

    @cython.locals(k=Py_ssize_t, step=Record, symbol="long long", before="long long", since=Py_ssize_t,
                   m=Py_ssize_t, f=Py_ssize_t, first=dict, last=dict, order=list, q=object, found=object, suited=object, head=PrimitiveBase, labelled=set, prim=PrimitiveBase, first_made=Py_ssize_t, end_made=Py_ssize_t, forced=Py_ssize_t)
    cpdef bint cut(self, Py_ssize_t least) except -1
    cdef bint reads_between(self, Record step, Py_ssize_t first, Py_ssize_t end) except -1
    cdef bint reads_any(self, Record step, set labelled) except -1
    @cython.locals(row=tuple)
    cdef find_line(self, Record step, Py_ssize_t k)
    @cython.locals(j=Py_ssize_t)
    cdef bint heads(self, list order, Py_ssize_t after, Py_ssize_t first)
    @cython.locals(n=Py_ssize_t, p=Py_ssize_t, k=Py_ssize_t, j=Py_ssize_t, start=Py_ssize_t, step=Record,
                   depth=Py_ssize_t, ops=Py_ssize_t, kinds=set)
    cpdef Py_ssize_t follow(self) except -1
    cdef Py_ssize_t reads(self, Py_ssize_t i, Py_ssize_t p, Py_ssize_t depth) except -1
    @cython.locals(n=Py_ssize_t)
    cpdef want(self, list live)
    @cython.locals(v=Value, index=Py_ssize_t, role=int, prim=LeafPrimitive, kind=RankedType, state=State)
    cdef Py_ssize_t place_of(self, Py_ssize_t i) except -1
    @cython.locals(k=Py_ssize_t, end=Py_ssize_t, step=Record, prim=PrimitiveBase, i0=Py_ssize_t, i1=Py_ssize_t,
                   i2=Py_ssize_t, rest=tuple, state=State, j=Py_ssize_t, n=Py_ssize_t, args=list, live=list,
                   sites=dict, job=FlushJob)
    cpdef tuple take(self, long long serial)
    @cython.locals(step=Record, n=Py_ssize_t, i=Py_ssize_t, job=FlushJob, sites=dict)
    cdef tuple take_path(self, Py_ssize_t end, long long serial)
    @cython.locals(child=State, t0=TensorType, t1=TensorType, t2=TensorType, more=list, outs=object, v=Value,
                   j=Py_ssize_t)
    cdef State child_of(self, Record step, PrimitiveBase prim, Py_ssize_t i0, Py_ssize_t i1, Py_ssize_t i2,
                        tuple rest, list args, Py_ssize_t n_args)

cpdef count(State root, list states)
