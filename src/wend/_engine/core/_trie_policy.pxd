# C types of `_trie_policy.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport COUNTS, LeafPrimitive, PrimitiveBase, Program, SLOTS, TensorType, dims_of
from wend._engine.core._hot cimport (
    COLD, MOST_OFF_TRIE, ROOT, Record, State, Tensor, Trace, Value, current_code, current_lasti, flush_now, held,
    new_leaf, refreshed, same_kinds, same_types, wrap,
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
@cython.locals(child=State, children=dict)
cdef Record leaf_child(Trace trace, State state, LeafPrimitive prim, int grad)
@cython.locals(other=State)
cdef adopt(State state, State child)
@cython.locals(child=Record, node=State, v=Value, program=Program, outs=object,
               found=tuple, same=bint, t0=TensorType, t1=TensorType, t2=TensorType, more=list,
               types=list)
cdef Record find_child(Trace trace, State state, PrimitiveBase prim, Py_ssize_t n, Py_ssize_t i0,
                      Py_ssize_t i1, Py_ssize_t i2, tuple rest, list values,
                      Value v0, Value v1, Value v2, list others)
cdef note_program(PrimitiveBase prim, Py_ssize_t n, Program program, object outs)
@cython.locals(v=Value)
cdef bint needs_grad(Py_ssize_t n, Value v0, Value v1, Value v2, list others) except -1
@cython.locals(v=Value)
cdef list types_of(Py_ssize_t n, Value v0, Value v1, Value v2, list others)
@cython.locals(program=Program, v=Value, t0=TensorType, t1=TensorType, t2=TensorType, more=list,
               outs=object)
cdef State retype(State child, Py_ssize_t n, Value v0, Value v1, Value v2, list others,
                  list values)
cdef set_types(State child, TensorType t0, TensorType t1, TensorType t2, list more, object outs,
               list values)
cdef set_results(Record child, object outs)
