# C types of `_siblings.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport COUNTS, LeafPrimitive, PrimitiveBase, SLOTS
from wend._engine.core._hot cimport (
    COLD, FlushJob, MAX_STATES, OpFunction, ROOT, Record, TRACES, Tensor, Trace, Value, count_threads, current_trace,
    flush_now, forget_last, record_alone, track, wanted,
)

cdef list FORK
cdef list WRITING
@cython.locals(trace=Trace)
cdef Trace begin_trace(long long thread)
cdef share_leaf(Trace trace, Value v)
cdef record_shared(Trace trace, PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2,
                   list rest, list values, OpFunction inplace)
@cython.locals(own=Trace)
cdef tuple leave_own(Trace trace)
cpdef begin_write()
cpdef end_write()
cdef keep_journal(Trace trace)
@cython.locals(kept=Trace, values=list, settled=bint, i=Py_ssize_t, v=Value)
cdef put_back(Trace trace, FlushJob batch, list live)
cdef bint is_settled(Value v) except -1
@cython.locals(fresh=Trace)
cpdef Trace sibling_of(Trace trace, Trace kept)
cdef bint is_used(Trace trace) except -1
@cython.locals(trace=Trace, batch=FlushJob, v=Value, k=Py_ssize_t)
cpdef flush_many(list siblings)
@cython.locals(states=list, values=list, args=list, live=list, sites=dict, known=dict, batch=FlushJob,
               places=list, n_states=Py_ssize_t, at_args=Py_ssize_t, number=Py_ssize_t,
               state=Record, first=Py_ssize_t, v=Value, at=Py_ssize_t, copy=Record, i=Py_ssize_t,
               k=Py_ssize_t)
cpdef tuple merged(list batches, list lives)
