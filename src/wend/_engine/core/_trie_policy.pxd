# C types of `_trie_policy.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport COUNTS, PrimitiveBase, SLOTS, TensorType, dims_of
from wend._engine.core._hot cimport (
    COLD, MOST_OFF_TRIE, ROOT, Record, State, Tensor, Trace, Value, current_code, current_lasti, flush_now, held,
    refreshed, wrap,
)

cdef Py_ssize_t SEAL_AFTER, MOST_JOINED
cdef long long LOW_44
cdef Py_ssize_t LONG_TAIL, WINDOW, LOOKED
@cython.locals(node=State, root=State, ok=bint)
cdef bint admit(State state, object prim) except -1
cpdef bint is_sealed(State state) except -1
@cython.locals(step=Record, state=State, known=State, now="long long", k=Py_ssize_t, tail=Py_ssize_t)
cdef count_pass(State root, list states)
cdef check_budget(Trace trace, bint autobatch)
cdef count_at(State state)
@cython.locals(state=Record, h="long long", prim="long long", k=Py_ssize_t, n=Py_ssize_t, step=Py_ssize_t)
cdef note_stranger(list states)
cdef bint same_type(TensorType a, TensorType b)
@cython.locals(h=Tensor, v=Value, v0=Value, arrays=list)
cdef join_held(Trace trace, PrimitiveBase prim, Tensor h0, Tensor h1, Tensor h2, list rest)
