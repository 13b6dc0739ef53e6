# C types of `_step.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport evaluate

cdef extern from "_step_shim.h":
    void set_arrays "wend_set_step_arrays" (object cls, object nbytes, Py_ssize_t worth)
    bint large "wend_large" (object array) except -1
    bint is_of "wend_is_of" (object array, object dtype)

@cython.final
cdef class RuleRunner:
    cdef readonly object rule
    cdef readonly object quick
    cdef readonly tuple casts
    cdef readonly object dtype
    cdef readonly object arrange
    cdef readonly bint single
    cdef readonly bint donates
    cdef readonly bint overwrites
    cdef readonly str extra

cdef class RuleStep:
    cdef public object node
    cdef public object runner
    cdef RuleRunner direct
    cdef public tuple inputs
    cdef public tuple outputs
    cdef public object output
    cdef public tuple args
    cdef public tuple frees
    cdef public bint donates
    cdef public bint overwrites
    cdef public bint turned
    cdef public tuple spent

    @cython.locals(inputs=tuple, outputs=tuple, known=RuleRunner)
    cpdef take(self, object node, tuple frees, object runner)
    @cython.locals(inputs=tuple, n=Py_ssize_t, i=Py_ssize_t, k=Py_ssize_t, row=list, direct=RuleRunner, which=tuple)
    cpdef call(self, object env, list types, list args)
    @cython.locals(row=list)
    cdef list numbers(self, list types, list args)
    @cython.locals(row=list, i=Py_ssize_t)
    cdef list operands(self, object env)

@cython.locals(k=Py_ssize_t, steps=list, spent=list, outputs=tuple, inputs=tuple)
cpdef list steps_of(list nodes, set needed, object make)
