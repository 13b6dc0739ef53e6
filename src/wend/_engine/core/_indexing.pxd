# C types of `_indexing.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport MAX_ROW, PrimitiveBase, SLOTS, TensorType
from wend._engine.core._hot cimport (
    COLD, COMPILED, OpFunction, Tensor, arg, bound_method, call_with1, current_trace, install_vectorcall, overrides,
    parts_address, record, slice_start, slice_step, slice_stop, unlock_type,
)
from wend._engine.core._calls cimport unpack

cdef extern from "callables.h":
    int set_parts_target "WEND_SET_PARTS_TARGET" ()

cdef class OpProperty:
    cdef readonly OpFunction function

cdef list SELECTS
cdef list UNBOUND
cdef list NARROWS
cdef list UNEVENLY
cdef dict SLICES
cdef list EVEN
cdef Py_ssize_t MOST_PARTS
cdef int P_CHUNK, P_SPLIT, P_UNBIND
@cython.locals(prim=PrimitiveBase, length=Py_ssize_t)
cdef even_parts(Tensor x, Py_ssize_t dim, Py_ssize_t count)
@cython.locals(total=Py_ssize_t, start=Py_ssize_t, made=list)
cdef uneven_parts(Tensor x, Py_ssize_t dim, object lengths)
@cython.final
cdef class PartsFunction:
    cdef size_t vectorcall
    cdef readonly object plain
    cdef int kind
    cdef dict __dict__
    cdef object __weakref__
    @cython.locals(n=Py_ssize_t, before=Py_ssize_t)
    cdef call(self, size_t args, Py_ssize_t nargs, object kwnames)
    @cython.locals(type_=TensorType, rank=Py_ssize_t, n=Py_ssize_t, count=Py_ssize_t, prim=PrimitiveBase,
                   k=Py_ssize_t)
    cdef parts(self, Tensor x, Py_ssize_t dim, object by)

cdef object FULL
cdef getitem(Tensor x, object key)
@cython.locals(dim=Py_ssize_t, out=Tensor)
cdef getitem_tuple(Tensor x, tuple key)
cdef bint is_full(object key) except -1
cdef getitem_slice(Tensor x, Py_ssize_t dim, object key)
cdef set_parts_probe(PartsFunction probe)
cdef object call_parts "wend_call_parts" (PartsFunction function, size_t args, Py_ssize_t nargs, object kwnames)
