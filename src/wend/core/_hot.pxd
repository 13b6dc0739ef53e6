# C types of `_hot.py` (Cython's pure-Python mode).
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

cdef extern from "_shim.h":
    bint COMPILED "WEND_COMPILED"
    object current_code "wend_current_code" ()
    int current_lasti "wend_current_lasti" ()
    object arg "wend_arg" (size_t args, Py_ssize_t i)
    long long thread_id "wend_thread_id" ()
    size_t this_thread "wend_this_thread" ()
    long long id_of "wend_id_of" (size_t thread)
    Py_ssize_t refcount "wend_refcount" (object o)
    Py_ssize_t count_of_item "wend_count_of_item" (list items, Py_ssize_t i)
    bint all_below "wend_all_below" (object array, long long n)
    int ask_ahead "wend_ask_ahead" (list items, Py_ssize_t i)
    int untrack "wend_untrack" (object o)
    int track "wend_track" (object o)
    object attribute "wend_attribute" (object o, object name)
    size_t op_address "wend_op_address" ()
    size_t parts_address "wend_parts_address" ()
    tuple new_row "PyTuple_New" (Py_ssize_t n)
    int install_vectorcall "wend_install_vectorcall" (object probe, int method) except -1
    int install_lazy_dict "wend_install_lazy_dict" (object probe, int k) except -1
    int keep_memory "wend_keep_memory" (object value, object tensor, object alias,
                                        object state, object type_, object record_) except -1
    list roomy "wend_roomy" (Py_ssize_t n)
    int push "wend_push" (object items, object item) except -1
    int drop_last "wend_drop_last" (object items) except -1
    object call_forward "wend_call_forward" (object module, object args, object kwargs)
    int mirrors "wend_mirrors" (object attributes, object members) except -1
    int quick_members "wend_quick_members" (object cls) except -1
    int quick_module "wend_quick_module" (object cls) except -1
    int install_module_call "wend_install_module_call" (object cls) except -1
    size_t address "wend_address" (object o)
    long long type_tag "wend_type_tag" (size_t i)
    object type_at "wend_type_at" (size_t i)
    int put_type "wend_put_type" (size_t i, long long tag, object type_)
    int forget_types "wend_forget_types" ()
    Py_ssize_t count_types "wend_count_types" ()
    int watch_types "wend_watch_types" (object probe) except -1
    object slice_start "wend_slice_start" (object key)
    object slice_stop "wend_slice_stop" (object key)
    object slice_step "wend_slice_step" (object key)
    int unlock_type "wend_unlock_type" (object cls) except -1
    object native_call1 "wend_call1" (object f, object x)
    object native_call2 "wend_call2" (object f, object x, object y)
    int set_call_target "WEND_SET_CALL_TARGET" ()
cdef extern from "Python.h":
    object bound_method "PyMethod_New" (object f, object x)

cdef dict SLOTS
cdef list BOUND
cdef tuple OPERATOR_NAMES
cdef int R_TENSOR, R_FLOAT, R_INT, R_BOOL, R_TENSORS, R_INTS, R_COMPLEX, R_DEFAULT
cdef int GRAD_NONE, GRAD_LEAF, GRAD_NODE
cdef Py_ssize_t MAX_STATES, SEAL_AFTER, MOST_OFF_TRIE, MOST_LENGTHS, MANY_JOINED, MOST_JOINED
cdef Py_ssize_t LONG_TAIL, WINDOW, LOOKED
cdef bint AUTOBATCH
cdef bint SEVERAL
cdef bint QUICK
cdef dict PLAIN_TYPES
cdef list LAST_PLAIN
cdef dict KINDS
cdef Py_ssize_t N_STATES
cdef long long TYPE_MASK, TURN, MOST_SLOTS, WAYS
cdef long long N_FLUSHES
cdef dict MODES
cdef dict INTERNAL
cdef dict TRACES
cdef list SERIAL
cdef long long EPOCH
cdef Py_ssize_t LONE_REFERENCES

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

@cython.locals(k=Py_ssize_t)
cdef tuple dims_of(TensorType type_)
@cython.locals(found=TensorType, row="long long[8]", n=Py_ssize_t, k=Py_ssize_t)
cdef TensorType type_in_kind(RankedType kind, tuple shape)
@cython.locals(h="long long", i="long long", k="long long", place="long long", tag="long long",
               found=TensorType, made=TensorType)
cdef TensorType type_of_row(RankedType kind, long long *row, Py_ssize_t n)
@cython.locals(k=Py_ssize_t)
cdef bint same_row(long long *a, long long *b, Py_ssize_t n) noexcept
@cython.locals(k=Py_ssize_t)
cpdef bint same_tail(TensorType a, TensorType b) except -1
@cython.locals(k=Py_ssize_t, extent="long long", size="long long", made=TensorType)
cdef TensorType new_type(RankedType kind, long long *row, Py_ssize_t n)
cdef Py_ssize_t product(object a, object b) except? -1
@cython.locals(found=TensorType)
cpdef symbolic_type(object shape, object dtype, object device)
cdef int C_DIM, C_ARG, C_NUMBER, C_SMALL, C_EQUAL, C_GUARD, C_PUT, C_PUT_DIM, C_TYPE, C_SAME
cdef long long LARGE, LOW_32, LOW_44
cdef Py_ssize_t MAX_ROW, MOST_ROOM
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
                   n=Py_ssize_t, made=TensorType, result=list, n_made=Py_ssize_t, rank=Py_ssize_t,
                   op=int, extent="long long", a="long long", b="long long", holds=bint)
    cdef resize(self, TensorType t0, TensorType t1, TensorType t2, list more, list args)

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

cdef class Value:
    cdef public TensorType type
    cdef public long long serial
    cdef public Py_ssize_t index
    cdef public Leaf leaf
    cdef public object buffer
    cdef public Trace trace
    cdef public bint requires_grad
    cdef public bint inference
    cdef public object segment
    cdef public Py_ssize_t seg_index
    cdef public object error
    cdef public object extra
    cdef public object packed

cdef class Leaf:
    cdef public bint requires_grad
    cdef public object ref
    cdef public object hooks
    cdef public object post_hooks
    cdef public object node
    cdef object __weakref__

cdef class Alias:
    cdef public Tensor base
    cdef public bint plain
    cdef public object prim
    cdef public list args
    cdef public Alias outer
    cdef public long long version
    cdef public Storage storage
    cdef public long long storage_version
    cdef public object layout
    cdef public object writes
    cdef public object leaf

cdef class Storage:
    cdef public object data
    cdef public long long version
    cdef public object shared
    cdef object __weakref__

cdef class ModeBlock:
    cdef public Mode _before

cdef class SiteBlock:
    cdef public Trace trace
    cdef public object code
    cdef public int lasti

cdef class WholeBlock:
    cdef public Trace trace
    cdef public object outer
    cdef public Py_ssize_t start

cdef class WriteBlock:
    pass

cdef class Segment:
    cdef public long long serial
    cdef public object structure
    cdef public object inputs
    cdef public object saved
    cdef public object types
    cdef public object args
    cdef public bint freed
    cdef public object sites
    cdef public object spent
    cdef public object hooks
    cdef public Py_ssize_t depth
    cdef public long long origin
    cdef object __weakref__

cdef class Tensor:
    cdef public Value value
    cdef public Leaf leaf
    cdef Alias derived
    cdef public object _layout
    cdef public object _grad
    cdef public long long version
    cdef int part
    cdef public int _views
    cdef public bint _moved
    cdef size_t dict_slot
    cdef object __weakref__

cpdef native_new(object cls)
@cython.locals(t=Tensor)
cpdef wrap(Value value)
@cython.locals(v=Value)
cdef truth(Tensor handle)
@cython.locals(v=Value)
cdef whole(Tensor handle)
@cython.locals(v=Value)
cdef length(Tensor handle)
@cython.locals(v=Value)
cpdef held(TensorType type_, object buffer)
@cython.locals(v=Value)
cpdef Value held_in_segment(TensorType type_, object buffer, object segment, Py_ssize_t index)
@cython.locals(v=Value)
cpdef Value slim(Value value)
@cython.locals(f=OpFunction)
cdef operator1(Py_ssize_t code, Tensor x)
@cython.locals(f=OpFunction, t=type)
cdef operator2(Py_ssize_t code, Tensor x, object y, bint swap)

# Whether something is so, in one byte.
cdef extern from *:
    ctypedef bint flag "unsigned char"

# What a known step reads comes first, so that it lies in few cache lines.
cdef class Record:
    cdef public object prim
    cdef public Mode mode
    cdef public TensorType out_type
    cdef public object code
    cdef public Program program
    cdef public tuple rest
    cdef public tuple outs
    cdef public int i0
    cdef public int i1
    cdef public int i2
    cdef public int lasti
    cdef public int n_in
    cdef public int first
    cdef public int n_out
    cdef public int arg0
    cdef public flag requires_grad
    cdef public flag many
    cdef public flag is_step
    cdef public flag linked
    cdef public flag within

cdef class State(Record):
    cdef public State child
    cdef public TensorType t0
    cdef public TensorType t1
    cdef public State parent
    cdef public list last_args
    cdef public TensorType t2
    cdef public list trest
    cdef public int simple
    cdef public Py_ssize_t depth
    cdef public dict children
    cdef public object plans
    cdef public object nodes
    cdef public object leaves
    cdef public object step
    cdef public Py_ssize_t inner
    cdef public long long stamp
    cdef public long long born
    cdef public long long passed
    cdef public long long gained
    cdef object __weakref__

cdef class Trace:
    cdef public State root
    cdef public object lock
    cdef public object take
    cdef public object give
    cdef public long long serial
    cdef public Mode mode
    cdef public object symbolic
    cdef public bint eager
    cdef public bint volatile
    cdef public dict foreign
    cdef public Py_ssize_t soft_nodes
    cdef public Py_ssize_t hard_nodes
    cdef public Py_ssize_t soft_bytes
    cdef public Py_ssize_t hard_bytes
    cdef public list modules
    cdef public bint flushing
    cdef public object fiber
    cdef object ref
    cdef public list journal
    cdef public State state
    cdef public list states
    cdef public list values
    cdef public list args
    cdef public list touched
    cdef public dict sites
    cdef public list live
    cdef public Py_ssize_t n_live
    cdef public Py_ssize_t n
    cdef public Py_ssize_t nbytes
    cdef public Py_ssize_t ops
    cdef public long long ops_before
    cdef Py_ssize_t room
    cdef public object extra
    cdef public object site_code
    cdef public int site_lasti
    cdef object __weakref__

    cpdef renew_lock(self)
    cdef begin(self, State root)
    cpdef reset(self)

cdef extern from "_shim.h":
    Value fresh_value "WEND_FRESH_VALUE" ()
    Tensor fresh_tensor "WEND_FRESH_TENSOR" ()
    Alias fresh_alias "WEND_FRESH_ALIAS" ()
    TensorType fresh_tensortype "WEND_FRESH_TYPE" ()
    Record fresh_record "WEND_FRESH_RECORD" ()
    # Objects whose class is known: nothing is checked.
    TensorType as_type "(struct __pyx_obj_4wend_4core_4_hot_TensorType *)Py_NewRef" (object o)
    State as_state "(struct __pyx_obj_4wend_4core_4_hot_State *)Py_NewRef" (object o)
    Tensor as_handle "(struct __pyx_obj_4wend_4core_4_hot_Tensor *)Py_NewRef" (object o)
    Tensor handle_at "(struct __pyx_obj_4wend_4core_4_hot_Tensor *)wend_handle_at" (list items, Py_ssize_t i)

cdef extern from "_shim.h":
    int ask_value "WEND_ASK_VALUE" (Tensor handle)
    int ask_type "WEND_ASK_TYPE" (Tensor handle)
    int ask_next "WEND_ASK_NEXT" (State state)
    int ask_types "WEND_ASK_TYPES" (State state)

cdef extern from "_shim.h":
    void empty_value "WEND_EMPTY_VALUE" (Value v) noexcept
    void empty_record "WEND_EMPTY_RECORD" (Record step) noexcept
    void empty_tensor "WEND_EMPTY_TENSOR" (Tensor handle) noexcept
    void empty_alias "WEND_EMPTY_ALIAS" (Alias alias) noexcept
    int call_aside "wend_call_aside" (object slots, object name, object x, long long number)
    void fill_record "WEND_FILL_RECORD" (Record step, Trace trace, PrimitiveBase prim) noexcept
    void fill_result "WEND_FILL_RESULT" (Record step, Tensor handle, Value v, Trace trace, object type) noexcept
    bint is_ready "WEND_IS_READY" (Tensor handle, long long serial) noexcept
    bint same_line "WEND_SAME_LINE" (Record step, Trace trace, object last, object inner,
                                       size_t thread) noexcept
    int take_step "WEND_TAKE_STEP" (Trace trace, Record step, Value v) except -1
    void put_part "WEND_PUT_PART" (tuple parts, Py_ssize_t k, Tensor handle, Value v, tuple types) noexcept
    Tensor part_at "(struct __pyx_obj_4wend_4core_4_hot_Tensor *)wend_part_at" (tuple parts, Py_ssize_t k)
    void share_alias "WEND_SHARE_ALIAS" (tuple parts, Tensor first) noexcept
    void take_parts "WEND_TAKE_PARTS" (Trace trace, tuple parts, bint grad) noexcept
    Record record_at "(struct __pyx_obj_4wend_4core_4_hot_Record *)wend_handle_at" (list items, Py_ssize_t i)
    Value take_last "(struct __pyx_obj_4wend_4core_4_hot_Value *)wend_take_last" (list items)

cdef extern from "_shim.h":
    int swap_classes "wend_swap_classes" (object a, object b) except -1

cdef void end_value "wend_end_value" (Value v) noexcept
cdef void end_record "wend_end_record" (Record step) noexcept
cdef void end_tensor "wend_end_tensor" (Tensor handle) noexcept
@cython.locals(base=Tensor)
cdef void leave_base(Alias alias) noexcept
cdef void end_alias "wend_end_alias" (Alias alias) noexcept

cdef class FlushJob:
    cdef public list states
    cdef public list values
    cdef public list args
    cdef public State state
    cdef public dict sites
    cdef public long long serial
    cdef public list touched
    cdef public object extra
    cdef public object fault

cdef long long next_serial() except -1

cdef public State ROOT
cdef long long LAST_THREAD
cdef Trace LAST_TRACE
cdef Py_ssize_t BASELINE, ALONE

@cython.locals(t="long long")
cpdef Trace current_trace()
@cython.locals(fresh=Trace)
cpdef Trace sibling_of(Trace trace, Trace kept)
cdef bint is_used(Trace trace) except -1
@cython.locals(before=Trace)
cpdef Trace swap_trace(Trace trace)
cdef list CODES
cdef list FLAGS
@cython.locals(row=tuple, flag=bint, k=Py_ssize_t)
cpdef bint is_internal(object code) except -1
@cython.locals(within=bint)
cdef note_site(Trace trace, Record state, object code, int lasti)
@cython.locals(storage=Storage)
cdef bint lone(Alias alias) except -1
@cython.locals(alias=Alias, storage=Storage)
cdef Py_ssize_t lone_baseline()
@cython.locals(alias=Alias, base=Tensor, leaf=Leaf, v=Value, fresh=Value)
cpdef Value refreshed(Tensor handle)
@cython.locals(state=State, child=State, step=Record, kind=RankedType, prim=LeafPrimitive, grad=int,
               index=Py_ssize_t, serial="long long")
cpdef Py_ssize_t enter(Trace trace, Value v) except -1
@cython.locals(state=State, step=Record)
cdef Record new_leaf(State parent, LeafPrimitive prim, int grad, Py_ssize_t index)
@cython.locals(child=State, children=dict)
cdef Record leaf_child(Trace trace, State state, LeafPrimitive prim, int grad)
@cython.locals(child=State)
cdef State child_with(State state, tuple key)
@cython.locals(other=State)
cdef adopt(State state, State child)
@cython.locals(node=State, root=State, ok=bint)
cdef bint admit(State state, object prim) except -1
@cython.locals(step=Record, state=State, known=State, now="long long", k=Py_ssize_t, tail=Py_ssize_t)
cdef count_pass(State root, list states)
cdef check_budget(Trace trace)
cdef count_at(State state)
@cython.locals(state=Record, h="long long", prim="long long", k=Py_ssize_t, n=Py_ssize_t, step=Py_ssize_t)
cdef note_stranger(list states)
@cython.locals(alias=Alias, base=Tensor)
cdef bint current(Tensor handle) except -1
@cython.locals(v=Value)
cdef bint is_operand(Tensor handle, long long serial, Py_ssize_t index,
                     TensorType type_) except -1
@cython.locals(thread=size_t, trace=Trace, serial="long long", grad=bint, step=Record, v=Value,
               t=Tensor, known=bint)
cdef record(PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2, list rest,
            list values, OpFunction inplace)
cdef bint as_before(PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2) except -1
cdef put_types(PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2, object outs)
cdef record_any(Trace trace, PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2,
                list rest, list values, OpFunction inplace)
cdef bint same_type(TensorType a, TensorType b)
@cython.locals(h=Tensor, v=Value, v0=Value, arrays=list)
cdef join_held(Trace trace, PrimitiveBase prim, Tensor h0, Tensor h1, Tensor h2, list rest)
cdef bint any_known(Py_ssize_t n, Tensor h1, Tensor h2, list rest) except -1
@cython.locals(t=TensorType)
cdef bint names_rows(Tensor table, Tensor index) except -1
@cython.locals(state=State, child=State, serial="long long")
cdef record_known(Trace trace, PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2,
                  list rest, list values, OpFunction inplace)
cdef object LAST_CODE, LAST_INNER
cdef bint at_hand(Trace trace, Tensor handle) except -1
@cython.locals(k=Py_ssize_t)
cdef bint at_hand_all(Trace trace, list handles) except -1
@cython.locals(k=Py_ssize_t, h=Tensor)
cdef bint same_operands(list types, list handles) except -1
@cython.locals(k=Py_ssize_t, h=Tensor)
cdef bint any_requires_grad(list handles) except -1
@cython.locals(known=tuple, at=Py_ssize_t, k=Py_ssize_t, h=Tensor)
cdef tuple rest_indices(PrimitiveBase prim, list handles)
@cython.locals(more=list, h=Tensor)
cdef resized(PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2, list rest,
             list values)
@cython.locals(start="long long", stop="long long", whole=TensorType, inside=bint)
cdef cut_type(PrimitiveBase prim, Tensor h0, list values)
@cython.locals(serial="long long", grad=bint, step=Record, v=Value, t=Tensor, parts=tuple,
               places=tuple, known=bint)
cdef record_off(Trace trace, PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2,
                list rest, list values)
@cython.locals(step=Record)
cdef bint note_line(Trace trace) except -1
@cython.locals(v=Value)
cdef list fresh_handles(tuple types)
@cython.locals(n=Py_ssize_t, k=Py_ssize_t, parts=tuple, v=Value, t=Tensor)
cdef tuple fresh_parts(tuple types)
cdef bint all_ready(Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2, long long serial) noexcept
@cython.locals(start=Py_ssize_t, length=Py_ssize_t, first=Tensor, found=list)
cdef attach_parts(tuple parts, tuple outs, Tensor h0, PrimitiveBase prim)
@cython.locals(indices=tuple, types=list, i=Py_ssize_t, h=Tensor)
cdef bint same_rest(Trace trace, State child, list rest) except -1
@cython.locals(v0=Value, v1=Value, v2=Value, i0=Py_ssize_t, i1=Py_ssize_t, i2=Py_ssize_t,
               serial="long long", state=State, child=State, step=Record, others=list,
               indices=tuple, h=Tensor)
cdef record_alone(Trace trace, PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2,
                  list rest, list values, OpFunction inplace)
cdef record_new(Trace trace, PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2,
                list rest, list values, OpFunction inplace)
@cython.locals(v=Value)
cdef tuple indices_of(Trace trace, list others)
@cython.locals(serial="long long", v=Value, t=Tensor, old=Value, out_type=TensorType, args=list)
cdef commit(Trace trace, PrimitiveBase prim, Record child, Tensor h0, list values,
            OpFunction inplace)
@cython.locals(v=Value, serial="long long", state=State, child=State, indices=list)
cpdef record_step(Trace trace, StepPrimitive prim, list seeds, list operands, list values,
                  list outs, object build, object leaves)
cdef list operand_list(Py_ssize_t n, h0, h1, h2, list rest)
@cython.locals(i=Py_ssize_t)
cdef bint same_args(list a, list b) except -1
@cython.locals(v=Value, i=Py_ssize_t)
cdef bint same_types(list types, list values) except -1
@cython.locals(k=Py_ssize_t, a=TensorType, b=TensorType)
cdef bint same_kinds(list types, list others) except -1
@cython.locals(v=Value)
cdef list types_of(Py_ssize_t n, Value v0, Value v1, Value v2, list others)
@cython.locals(program=Program, v=Value, t0=TensorType, t1=TensorType, t2=TensorType, more=list,
               outs=object)
cdef State retype(State child, Py_ssize_t n, Value v0, Value v1, Value v2, list others,
                  list values)
cdef set_types(State child, TensorType t0, TensorType t1, TensorType t2, list more, object outs,
               list values)
cdef set_results(Record child, object outs)
@cython.locals(child=Record, node=State, grad=bint, v=Value, program=Program, outs=object,
               found=tuple, same=bint, t0=TensorType, t1=TensorType, t2=TensorType, more=list,
               types=list)
cdef Record find_child(Trace trace, State state, PrimitiveBase prim, Py_ssize_t n, Py_ssize_t i0,
                      Py_ssize_t i1, Py_ssize_t i2, tuple rest, list values,
                      Value v0, Value v1, Value v2, list others)
@cython.locals(v=Value, t=Tensor, serial="long long", fresh=list)
cdef commit_many(Trace trace, object prim, Record child, list values)
cdef put_alias(Tensor handle, Alias alias)
cpdef rebase(Alias alias, Tensor base)
cpdef own_attribute(Tensor handle, str name)
@cython.locals(alias=Alias, shared=Alias)
cdef Alias own_alias(Tensor handle)
@cython.locals(alias=Alias, parent=Alias)
cdef attach_view(Tensor t, Tensor h0, PrimitiveBase prim, list values)
@cython.locals(v=Value, values=list, i=Py_ssize_t)
cpdef list wanted(Trace trace)
cdef Py_ssize_t live_baseline()
cpdef flush(Trace trace)
cpdef flush_now(Trace trace)
@cython.locals(own=Trace)
cdef tuple leave_own(Trace trace)
@cython.locals(v=Value, values=list, batch=FlushJob, i=Py_ssize_t, live=list, alone=bint)
cdef flush_held(Trace trace)
cdef keep_journal(Trace trace)
@cython.locals(kept=Trace, values=list, settled=bint, i=Py_ssize_t, v=Value)
cdef put_back(Trace trace, FlushJob batch, list live)
cpdef begin_write()
cpdef end_write()
cpdef bint several() noexcept
cdef bint is_settled(Value v) except -1
cdef compute(Value v)
@cython.locals(batch=FlushJob, values=list)
cdef Py_ssize_t alone_baseline()
@cython.locals(v=Value)
cdef let_go(list values, Trace trace, long long serial)
@cython.locals(trace=Trace, batch=FlushJob, v=Value, k=Py_ssize_t)
cpdef flush_many(list siblings)
@cython.locals(states=list, values=list, args=list, live=list, sites=dict, known=dict, batch=FlushJob,
               places=list, n_states=Py_ssize_t, at_args=Py_ssize_t, number=Py_ssize_t,
               state=Record, first=Py_ssize_t, v=Value, at=Py_ssize_t, copy=Record, i=Py_ssize_t,
               k=Py_ssize_t)
cpdef tuple merged(list batches, list lives)
cpdef passed(Trace trace, list states)
cpdef ensure(Value v)
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

@cython.final
cdef class OpFunction:
    cdef size_t vectorcall
    cdef public object binder
    cdef public bint inplace
    cdef public list plans
    cdef public CallPlan plan0
    cdef dict lengths
    cdef PrimitiveBase one
    cdef PrimitiveBase two
    cdef PrimitiveBase three
    cdef PrimitiveBase pair
    cdef PrimitiveBase with_float
    cdef PrimitiveBase with_int
    cdef PrimitiveBase from_float
    cdef PrimitiveBase from_int
    cdef public object overloads
    cdef public object primitive
    cdef public object general
    cdef dict __dict__
    cdef object __weakref__
    cdef call1(self, object x)
    @cython.locals(prim=PrimitiveBase)
    cdef quick2(self, object x, object y)
    cdef remember(self, CallPlan plan)
    @cython.locals(plan=CallPlan, known=CallPlan, k=Py_ssize_t, j=Py_ssize_t, n=Py_ssize_t,
                   ok=bint, role=int, h0=Tensor, h1=Tensor, h2=Tensor, rest=list, values=list)
    cdef call_planned(self, size_t args, Py_ssize_t nargs, object kwnames)
    @cython.locals(prim=PrimitiveBase, two=tuple)
    cdef call(self, size_t args, Py_ssize_t nargs, object kwnames)
    cdef promote(self, Py_ssize_t k, CallPlan plan)
    cdef call_cold(self, size_t args, Py_ssize_t nargs, object kwnames)

cdef class OpProperty:
    cdef readonly OpFunction function

@cython.locals(trace=Trace, old=Value, value=Value)
cpdef bint rebind_alone(Tensor handle, Tensor result) except -1
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
@cython.locals(n=Py_ssize_t)
cpdef record_list(PrimitiveBase prim, list tensors, list values)
cdef bint overrides(object a) except -1
cdef bint is_plain(object a) except -1
cdef tuple unpack(size_t args, Py_ssize_t nargs, object kwnames)
cdef call_with1(OpFunction function, object x)
cdef call_with2(OpFunction function, object x, object y)
@cython.locals(trace=Trace, value=Value, old=Value, out=Tensor)
cdef assign(Tensor handle, Tensor result, OpFunction function)

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
cpdef Mode off_mode(Mode mode)
@cython.locals(t=Tensor)
@cython.locals(k=Py_ssize_t, n=Py_ssize_t, leaf=Leaf, t=Tensor, have=Tensor, before=dict)
cpdef give_gradients(list leaves, list grads)
cpdef restore(object holder, object value)
cpdef note_holders(dict noted, Tensor handle)
cpdef bint add_gradient(Tensor handle, object have, object g) except -1
cpdef bint renew_value(Tensor handle, Value old, Value value) except -1
@cython.locals(t=Tensor, v=Value)
cpdef bint settle_gradient(Leaf leaf, Tensor g) except -1
@cython.locals(trace=Trace, state=State, child=State, v=Value, leaf=Leaf, values=list, outs=list,
               fresh=list, k=Py_ssize_t, index=Py_ssize_t, older=list, leaves=list)
cdef bint backward_known(Tensor handle, bint retain_graph) except -1

cdef class ModuleBase:
    cdef public Py_ssize_t n_hooks
    cdef size_t dict_slot
    cdef object __weakref__

@cython.locals(trace=Trace)
cdef object call_module "wend_call_module" (ModuleBase module, object args, object kwargs)
cdef list GLOBAL_HOOKS
cdef set_probe(OpFunction probe)
cdef mark_tensor(Tensor probe)
cdef mark_type(TensorType probe)
cdef mark_module(ModuleBase probe)
cdef set_parts_probe(PartsFunction probe)
cdef object call_op "wend_call_op" (OpFunction function, size_t args, Py_ssize_t nargs, object kwnames)
cdef object call_parts "wend_call_parts" (PartsFunction function, size_t args, Py_ssize_t nargs, object kwnames)
