# C types of `_calls.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport CallPlan, PrimitiveBase, R_FLOAT, R_INT, R_TENSOR, R_TENSORS, SLOTS
from wend._engine.core._hot cimport COLD, OpFunction, arg, assign

cdef Py_ssize_t MOST_LENGTHS
cdef tuple unpack(size_t args, Py_ssize_t nargs, object kwnames)
cdef call_override(OpFunction function, size_t args, Py_ssize_t nargs, object kwnames)
cdef call_cold(OpFunction function, size_t args, Py_ssize_t nargs, object kwnames)
cdef remember(OpFunction function, CallPlan plan)
