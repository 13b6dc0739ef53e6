# C types of `_step.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport evaluate

cdef extern from "_step_shim.h":
    void set_arrays "wend_set_step_arrays" (object cls, object nbytes, Py_ssize_t worth)
    bint large "wend_large" (object array) except -1
    bint is_of "wend_is_of" (object array, object dtype)

cdef class RuleStep:
    cdef public object rule
    cdef public tuple inputs
    cdef public tuple args
    cdef public object output
    cdef public object arrange
    cdef public tuple casts
    cdef public object dtype
    cdef public tuple frees
    cdef public bint donates
    cdef public bint overwrites
    cdef public bint turned
    cdef public object node
    cdef public object runner
    cdef public tuple outputs
    cdef public tuple spent

    @cython.locals(inputs=tuple, n=Py_ssize_t, i=Py_ssize_t, k=Py_ssize_t, row=list)
    cpdef call(self, object env, list types, list args)
    cdef list numbers(self, list types, list args)
    cdef list operands(self, object env)
