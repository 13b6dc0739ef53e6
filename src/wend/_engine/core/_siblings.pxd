# C types of `_siblings.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport COUNTS, LeafPrimitive, SLOTS
from wend._engine.core._hot cimport COLD, FlushJob, MAX_STATES, ROOT, Record, Trace, Value, keep_journal, put_back, wanted

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
