# C types of `_types.py` (Cython's pure-Python mode).
cimport cython

# The opcodes of `symbolic.py`, as numbers in the code that is generated.
cdef extern from *:
    int DIM "0"
    int ARG "1"
    int ADD "2"
    int SUB "3"
    int MUL "4"
    int FLOORDIV "5"
    int MOD "6"
    int NEG "7"
    int MIN "8"
    int MAX "9"
    int DIV "10"
    int POW "11"
    int EQ "20"
    int NE "21"
    int LT "22"
    int LE "23"
    int GT "24"
    int GE "25"

# Roles of raw arguments in a CallPlan (the order is that of signature.py).
cdef extern from *:
    int R_TENSOR "0"
    int R_FLOAT "1"
    int R_INT "2"
    int R_BOOL "3"
    int R_TENSORS "4"
    int R_INTS "5"
    int R_COMPLEX "6"
    int R_DEFAULT "7"

cdef extern from "callables.h":
    object arg "wend_arg" (size_t args, Py_ssize_t i)

cdef extern from "type_table.h":
    bint COMPILED "WEND_COMPILED"
    long long type_tag "wend_type_tag" (size_t i)
    object type_at "wend_type_at" (size_t i)
    int put_type "wend_put_type" (size_t i, long long tag, object type_)
    int forget_types "wend_forget_types" ()
    Py_ssize_t count_types "wend_count_types" ()
    int watch_types "wend_watch_types" (object probe) except -1
    int keep_type_memory "wend_keep_type_memory" (object probe) except -1
    int unlock_type "wend_unlock_type" (object cls) except -1

cdef class Counts:
    cdef public long long states
    cdef public long long flushes
    cdef public long long epoch

cdef class CoreSlots:
    cdef public object default_device
    cdef public object default_eager
    cdef public object default_mode
    cdef public object bool
    cdef public object complex
    cdef public object contains
    cdef public object float
    cdef public object getitem
    cdef public object index
    cdef public object int
    cdef public object iter
    cdef public object len
    cdef public object operator
    cdef public object repr
    cdef public object setitem
    cdef public object size
    cdef public object tensor_init
    cdef public object accumulate
    cdef public object backward
    cdef public object backward_at_once
    cdef public object backward_in_parts
    cdef public object backward_on
    cdef public object check_saved
    cdef public object go_on
    cdef public object node_of
    cdef public object nonleaf_grad
    cdef public object pass_segments
    cdef public object requires_grad_
    cdef public object set_grad
    cdef public object whole
    cdef public object assign
    cdef public object attach_detached
    cdef public object attach_reshape
    cdef public object become_view
    cdef public object check_view
    cdef public object lay_out
    cdef public object note_holders
    cdef public object rederive
    cdef public object relabel
    cdef public object view_ended
    cdef public object write_back
    cdef public object writes
    cdef public object call_out
    cdef public object even_parts
    cdef public object is_plain
    cdef public object op_by_name
    cdef public object override_enabled
    cdef public object signature
    cdef public object strip_device
    cdef public object torch_function
    cdef public object check_held
    cdef public object check_numbers
    cdef public object evict
    cdef public object execute
    cdef public object execute_many
    cdef public object module_error
    cdef public object on_beat
    cdef public object park
    cdef public object surface
    cdef public object take_back
    cdef public object unavailable
    cdef public object user_site

cdef Counts COUNTS
cdef CoreSlots SLOTS

cdef long long LARGE, LOW_32
cdef Py_ssize_t MAX_ROW
cdef dict KINDS
cdef long long TYPE_MASK, TURN, MOST_SLOTS, WAYS
cdef dict MODES
cdef class RankedType:
    cdef readonly object dtype
    cdef readonly Py_ssize_t rank
    cdef readonly object device
    cdef dict wide
    cdef long long salt
    cdef readonly list leaves
    cdef LeafPrimitive plain_leaf
    cdef Py_ssize_t itemsize

cdef class TensorType:
    cdef object size
    cdef tuple extents
    cdef readonly object dtype
    cdef readonly object device
    cdef readonly RankedType kind
    cdef readonly Py_ssize_t nbytes
    cdef readonly Py_ssize_t rank
    cdef size_t slot
    cdef long long row[8]

cdef extern from "type_table.h":
    TensorType fresh_tensortype "WEND_FRESH_TYPE" ()

@cython.locals(k=Py_ssize_t)
cdef tuple dims_of(TensorType type_)
@cython.locals(found=TensorType, row="long long[8]", n=Py_ssize_t, k=Py_ssize_t)
cdef TensorType type_in_kind(RankedType kind, tuple shape)
@cython.locals(h="long long", i="long long", k="long long", place="long long", tag="long long",
               found=TensorType, made=TensorType)
cdef TensorType type_of_row(RankedType kind, long long *row, Py_ssize_t n)
@cython.locals(k=Py_ssize_t)
cdef bint same_row(long long *a, long long *b, Py_ssize_t n) noexcept
cpdef bint same_type(TensorType a, TensorType b) except -1
@cython.locals(k=Py_ssize_t)
cpdef bint same_tail(TensorType a, TensorType b) except -1
@cython.locals(k=Py_ssize_t, extent="long long", size="long long", made=TensorType)
cdef TensorType new_type(RankedType kind, long long *row, Py_ssize_t n)
cdef Py_ssize_t product(object a, object b) except? -1
@cython.locals(found=TensorType)
cpdef symbolic_type(object shape, object dtype, object device)
cdef int C_DIM, C_ARG, C_NUMBER, C_SMALL, C_EQUAL, C_GUARD, C_PUT, C_PUT_DIM, C_TYPE, C_SAME
@cython.locals(e=tuple, t=TensorType, op=int)
cpdef evaluate(object expr, list types, list args)
cdef binary(int op, object a, object b)
cdef class Program:
    cdef readonly object prim
    cdef public tuple guards
    cdef public tuple outs
    cdef public tuple kinds
    cdef public bytes code
    cdef public tuple numbers
    cdef public Py_ssize_t n_guards
    cdef public int as_operand
    cdef public bint uniform
    cdef public object graph
    cdef public dict templates
    cdef public object runner
    cdef public object sample_types
    cdef public object sample_args
    cdef public bint many
    cdef public object wrap
    cdef public bint real
    cdef public bint all_real
    cdef public bint differentiable
    @cython.locals(guard=tuple)
    cpdef bint matches(self, list types, list args) except -1
    @cython.locals(i=Py_ssize_t, result=list, row=tuple, shape=list)
    cpdef tuple out_types(self, list types, list args)
    @cython.locals(code=bytes, stack="long long[16]", row="long long[8]", top=int, i=Py_ssize_t,
                   made=TensorType, result=list, n_made=Py_ssize_t, rank=Py_ssize_t,
                   op=int, extent="long long")
    cdef resize(self, TensorType t0, TensorType t1, TensorType t2, list more, list args)

cdef bint holds(int op, long long a, long long b) noexcept
cdef bint is_native(int op, long long a, long long b) noexcept
cdef long long combined(int op, long long a, long long b) except? -1
@cython.locals(t=TensorType)
cdef long long *row_of(int k, TensorType t0, TensorType t1, TensorType t2, list more) noexcept
@cython.locals(unlike="long long", k=Py_ssize_t)
cdef bint alike(long long *a, long long *b) noexcept
cdef TensorType operand_type(int k, TensorType t0, TensorType t1, TensorType t2, list more)
cdef class PrimitiveBase:
    cdef public tuple form
    cdef public bint is_view
    cdef public bint is_composite
    cdef public bint is_differentiable
    cdef public bint plain_form
    cdef public bint sized
    cdef public bint all_sizes
    cdef public bint check_strides
    cdef public bint check_held
    cdef public bint check_numbers
    cdef public bint pick_rows
    cdef public bint joins_held
    cdef public PrimitiveBase piece
    cdef public int piece_dim
    cdef tuple piece_outs
    cdef list piece_args
    cdef public int cuts_dim
    cdef TensorType cut_from
    cdef TensorType cut
    cdef Program cut_program
    cdef public int region_code
    cdef public dict programs
    cdef public dict memo
    cdef public long long epoch
    cdef Py_ssize_t last_n
    cdef Py_ssize_t quick_n
    cdef bint flows
    cdef TensorType last_t0
    cdef TensorType last_t1
    cdef TensorType last_t2
    cdef list last_more
    cdef tuple last_rest
    cdef Program last_program
    cdef object last_outs
    cdef TensorType other_t0
    cdef TensorType other_t1
    cdef TensorType other_t2
    cdef object other_outs
    cdef public tuple size_mask
    cdef public tuple categories
    cdef dict __dict__
    cdef object __weakref__
    @cython.locals(found=tuple)
    cpdef tuple typed(self, list types, list args)

cdef class LeafPrimitive:
    cdef readonly RankedType kind
    cdef readonly int grad
    cdef readonly bint is_view
    cdef readonly bint is_composite
    cdef readonly str name
    cdef object __weakref__

cdef class Mode:
    cdef readonly bint grad
    cdef readonly bint inference
    cdef readonly int recompute
    cdef readonly tuple key
    cdef public Mode off

cpdef Mode off_mode(Mode mode)

@cython.locals(t=type, i=Py_ssize_t)
cdef bint same_constant(object a, object b) except -1

cdef class CallPlan:
    cdef readonly PrimitiveBase prim
    cdef readonly Py_ssize_t nargs
    cdef public tuple kwnames
    cdef readonly Py_ssize_t n_slots
    cdef readonly bytes raws
    cdef readonly bytes roles
    cdef readonly tuple extras
    cdef readonly Py_ssize_t n_const
    cdef readonly bytes const_at
    cdef readonly tuple const_values
    cdef public object same_dtype
    cdef readonly bint has_args
    cdef bint is_quick(self) except -1
    @cython.locals(j=Py_ssize_t)
    cdef bint fits(self, size_t args, Py_ssize_t nargs, object kwnames) except -1

cpdef Py_ssize_t count_known_types()
cdef mark_type(TensorType probe)
