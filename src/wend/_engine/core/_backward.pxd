# C types of `_backward.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport COUNTS, Mode, SLOTS, off_mode
from wend._engine.core._hot cimport (
    COLD, Leaf, State, Storage, Tensor, Trace, Value, commit_many, current_trace, enter, flush, refreshed, wrap,
)
from wend._engine.core._trie_policy cimport adopt

@cython.locals(child=State)
cdef State child_with(State state, tuple key)
@cython.locals(v=Value, serial="long long", state=State, child=State, indices=list)
cpdef record_step(Trace trace, StepPrimitive prim, list seeds, list operands, list values,
                  list outs, object build, object leaves)
cdef class StepPrimitive:
    cdef readonly object name
    cdef readonly object key
    cdef public bint is_view
    cdef public bint is_composite
    cdef public bint is_differentiable
    cdef public bint sized
    cdef dict __dict__
    cdef object __weakref__

cdef list RETAINED
cdef long long DIVERGING, RARE, ENDINGS
@cython.locals(k=Py_ssize_t, n=Py_ssize_t, leaf=Leaf, t=Tensor, have=Tensor, before=dict)
cpdef give_gradients(list leaves, list grads)
cpdef restore(object holder, object value)
cpdef note_holders(dict noted, Tensor handle)
cpdef bint add_gradient(Tensor handle, object have, object g) except -1
cpdef bint renew_value(Tensor handle, Value old, Value value) except -1
@cython.locals(t=Tensor, v=Value)
cpdef bint settle_gradient(Leaf leaf, Tensor g) except -1
@cython.locals(trace=Trace, v=Value)
cdef bint backward_known(Tensor handle, bint retain_graph) except -1
@cython.locals(state=State, child=State, leaf=Leaf, values=list, outs=list, fresh=list, k=Py_ssize_t,
               index=Py_ssize_t, older=list, leaves=list)
cdef bint backward_step(Trace trace, Value v, bint retain_graph) except -1
@cython.locals(trace=Trace, old=Value, value=Value)
cpdef bint rebind_alone(Tensor handle, Tensor result) except -1
