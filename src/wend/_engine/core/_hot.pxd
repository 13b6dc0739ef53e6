# C types of `_hot.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport (
    COUNTS, CallPlan, LeafPrimitive, Mode, PrimitiveBase, Program, R_BOOL, R_DEFAULT, R_FLOAT, R_INT, R_INTS, R_TENSOR,
    R_TENSORS, RankedType, SLOTS, TensorType, count_known_types, dims_of,
)

cdef extern from "callables.h":
    bint COMPILED "WEND_COMPILED"
    object arg "wend_arg" (size_t args, Py_ssize_t i)
    size_t op_address "wend_op_address" ()
    size_t parts_address "wend_parts_address" ()
    int install_vectorcall "wend_install_vectorcall" (object probe, int method) except -1
    int unlock_type "wend_unlock_type" (object cls) except -1
    int tell_operators "wend_tell_operators" (object cls) except -1
    object native_call1 "wend_call1" (object f, object x)
    object native_call2 "wend_call2" (object f, object x, object y)
    int set_op_target "WEND_SET_OP_TARGET" ()
cdef extern from "dicts.h":
    object attribute "wend_attribute" (object o, object name)
    int install_lazy_dict "wend_install_lazy_dict" (object probe, int k) except -1
cdef extern from "frames.h":
    object current_code "wend_current_code" ()
    int current_lasti "wend_current_lasti" ()
    long long thread_id "wend_thread_id" ()
    size_t this_thread "wend_this_thread" ()
    long long id_of "wend_id_of" (size_t thread)
cdef extern from "lists.h":
    Py_ssize_t refcount "wend_refcount" (object o)
    Py_ssize_t count_of_item "wend_count_of_item" (list items, Py_ssize_t i)
    bint all_below "wend_all_below" (object array, long long n)
    int ask_ahead "wend_ask_ahead" (list items, Py_ssize_t i)
    int untrack "wend_untrack" (object o)
    int track "wend_track" (object o)
    list roomy "wend_roomy" (Py_ssize_t n)
    int push "wend_push" (object items, object item) except -1
    int push_all "wend_push_all" (list items, list more) except -1
    int drop_last "wend_drop_last" (object items) except -1
    size_t address "wend_address" (object o)
    object slice_start "wend_slice_start" (object key)
    object slice_stop "wend_slice_stop" (object key)
    object slice_step "wend_slice_step" (object key)
cdef extern from "objects.h":
    int keep_memory "wend_keep_memory" (object value, object tensor, object alias,
                                        object state, object record_) except -1
    int set_ends "WEND_SET_ENDS" ()
cdef extern from "Python.h":
    object bound_method "PyMethod_New" (object f, object x)
    tuple new_row "PyTuple_New" (Py_ssize_t n)

cdef class Cold
cdef Cold COLD
cdef list BOUND
cdef tuple OPERATOR_NAMES
cdef int GRAD_NONE, GRAD_LEAF, GRAD_NODE
cdef bint AUTOBATCH
cdef bint SEVERAL
cdef bint QUICK
cdef dict PLAIN_TYPES
cdef list LAST_PLAIN
cdef Py_ssize_t MAX_STATES, MOST_OFF_TRIE, MANY_JOINED, MOST_ROOM
cdef dict INTERNAL
cdef dict TRACES
cdef list SERIAL
cdef Py_ssize_t LONE_REFERENCES

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
    cdef public long long ending
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
    cdef public Py_ssize_t held_bytes
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

cdef extern from "objects.h":
    Value fresh_value "WEND_FRESH_VALUE" ()
    Value watched_value "WEND_WATCHED_VALUE" ()
    Tensor fresh_tensor "WEND_FRESH_TENSOR" ()
    Alias fresh_alias "WEND_FRESH_ALIAS" ()
    Record fresh_record "WEND_FRESH_RECORD" ()
    # Objects whose class is known: nothing is checked.
    TensorType as_type "(struct __pyx_obj_4wend_7_engine_4core_6_types_TensorType *)Py_NewRef" (object o)
    State as_state "(struct __pyx_obj_4wend_7_engine_4core_4_hot_State *)Py_NewRef" (object o)
    Tensor as_handle "(struct __pyx_obj_4wend_7_engine_4core_4_hot_Tensor *)Py_NewRef" (object o)
    Tensor handle_at "(struct __pyx_obj_4wend_7_engine_4core_4_hot_Tensor *)wend_handle_at" (list items, Py_ssize_t i)

cdef extern from "objects.h":
    int ask_value "WEND_ASK_VALUE" (Tensor handle)
    int ask_type "WEND_ASK_TYPE" (Tensor handle)
    int ask_next "WEND_ASK_NEXT" (State state)
    int ask_types "WEND_ASK_TYPES" (State state)

cdef extern from "objects.h":
    void empty_value "WEND_EMPTY_VALUE" (Value v) noexcept
    void empty_record "WEND_EMPTY_RECORD" (Record step) noexcept
    void empty_tensor "WEND_EMPTY_TENSOR" (Tensor handle) noexcept
    void empty_alias "WEND_EMPTY_ALIAS" (Alias alias) noexcept
    int call_aside "wend_call_aside" (object f, object x, long long number)
    bint is_int64 "wend_is_int64" (object number) noexcept
    void fill_record "WEND_FILL_RECORD" (Record step, Trace trace, PrimitiveBase prim) noexcept
    void fill_result "WEND_FILL_RESULT" (Record step, Tensor handle, Value v, Trace trace, object type) noexcept
    void fill_operands "WEND_FILL_OPERANDS" (Record step, Trace trace, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2,
                                             bint grad) noexcept
    bint is_ready "WEND_IS_READY" (Tensor handle, long long serial) noexcept
    bint is_at_rest "WEND_IS_AT_REST" (Tensor handle) noexcept
    bint any_grad "WEND_ANY_GRAD" (Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2) noexcept
    bint any_inference "WEND_ANY_INFERENCE" (Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2) noexcept
    bint any_laid_out "WEND_ANY_LAID_OUT" (Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2) noexcept
    bint same_line "WEND_SAME_LINE" (Record step, Trace trace, object last, object inner,
                                       size_t thread) noexcept
    int take_step "WEND_TAKE_STEP" (Trace trace, Record step, Value v) except -1
    void put_part "WEND_PUT_PART" (tuple parts, Py_ssize_t k, Tensor handle, Value v, tuple types) noexcept
    Tensor part_at "(struct __pyx_obj_4wend_7_engine_4core_4_hot_Tensor *)wend_part_at" (tuple parts, Py_ssize_t k)
    void share_alias "WEND_SHARE_ALIAS" (tuple parts, Tensor first) noexcept
    void take_parts "WEND_TAKE_PARTS" (Trace trace, tuple parts, bint grad) noexcept
    Record record_at "(struct __pyx_obj_4wend_7_engine_4core_4_hot_Record *)wend_handle_at" (list items, Py_ssize_t i)
    Value take_last "(struct __pyx_obj_4wend_7_engine_4core_4_hot_Value *)wend_take_last" (list items)

cdef extern from "objects.h":
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
@cython.locals(before=Trace)
cpdef Trace swap_trace(Trace trace)
cdef bint forget_last(Trace trace) except -1
cdef count_threads()
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
@cython.locals(step=Record, parts=tuple, known=bint)
cdef record_parts(Trace trace, PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2,
                  tuple places, list values, tuple outs, bint grad, long long serial)
@cython.locals(serial="long long", grad=bint, step=Record, v=Value, t=Tensor, places=tuple, known=bint)
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
cdef record_in_rule(Trace trace, PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1, Tensor h2,
                    list rest, list values, OpFunction inplace)
cdef finish_many(Trace trace, PrimitiveBase prim, Record step, Tensor h0, list values,
                 OpFunction inplace)
@cython.locals(v=Value)
cdef tuple indices_of(Trace trace, list others)
@cython.locals(serial="long long", v=Value, t=Tensor, old=Value, out_type=TensorType)
cdef commit(Trace trace, PrimitiveBase prim, Record child, Tensor h0, list values,
            OpFunction inplace)
cdef list operand_list(Py_ssize_t n, h0, h1, h2, list rest)
@cython.locals(i=Py_ssize_t)
cdef bint same_args(list a, list b) except -1
@cython.locals(v=Value, i=Py_ssize_t)
cdef bint same_types(list types, list values) except -1
@cython.locals(k=Py_ssize_t, a=TensorType, b=TensorType)
cdef bint same_kinds(list types, list others) except -1
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
@cython.locals(v=Value, values=list, batch=FlushJob, i=Py_ssize_t, live=list, alone=bint)
cdef flush_held(Trace trace)
cpdef bint several() noexcept
cdef compute(Value v)
@cython.locals(batch=FlushJob, values=list)
cdef Py_ssize_t alone_baseline()
@cython.locals(v=Value)
cdef let_go(list values, Trace trace, long long serial)
cpdef passed(Trace trace, list states)
cpdef ensure(Value v)
cdef bint is_number(object a, int role) noexcept
cdef bint take_ints(object items, Py_ssize_t count, list values) except -1

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
    cdef public object general
    cdef dict __dict__
    cdef object __weakref__
    @cython.locals(prim=PrimitiveBase, twin=OpFunction)
    cdef call1(self, object x)
    @cython.locals(prim=PrimitiveBase, twin=OpFunction)
    cdef quick2(self, object x, object y)
    @cython.locals(plan=CallPlan, known=CallPlan, k=Py_ssize_t)
    cdef call_planned(self, size_t args, Py_ssize_t nargs, object kwnames)
    @cython.locals(j=Py_ssize_t, n=Py_ssize_t, role=int, h0=Tensor, h1=Tensor, h2=Tensor, rest=list,
                   values=list)
    cdef record_planned(self, CallPlan plan, Py_ssize_t k, size_t args, Py_ssize_t nargs, object kwnames)
    @cython.locals(two=tuple, x=Tensor, y=Tensor, twin=OpFunction)
    cdef call(self, size_t args, Py_ssize_t nargs, object kwnames)
    cdef promote(self, Py_ssize_t k, CallPlan plan)

@cython.locals(n=Py_ssize_t)
cpdef record_list(PrimitiveBase prim, list tensors, list values)
cdef bint overrides(object a) except -1
cdef bint is_plain(object a) except -1
cdef call_with1(OpFunction function, object x)
cdef call_with2(OpFunction function, object x, object y)
@cython.locals(trace=Trace, value=Value, old=Value, out=Tensor)
cdef assign(Tensor handle, Tensor result, OpFunction function)

cdef set_probe(OpFunction probe)
cdef mark_tensor(Tensor probe)
cdef object call_op "wend_call_op" (OpFunction function, size_t args, Py_ssize_t nargs, object kwnames)

# Functions of the cold parts: see `Cold`.
cdef class Cold:
    cdef object (*getitem)(Tensor x, object key)
    cdef bint (*backward_known)(Tensor handle, bint retain_graph) except -1
    cdef object (*call_cold)(OpFunction function, size_t args, Py_ssize_t nargs, object kwnames)
    cdef object (*call_override)(OpFunction function, size_t args, Py_ssize_t nargs, object kwnames)
    cdef bint (*admit)(State state, object prim) except -1
    cdef Record (*leaf_child)(Trace trace, State state, LeafPrimitive prim, int grad)
    cdef Record (*find_child)(Trace trace, State state, PrimitiveBase prim, Py_ssize_t n, Py_ssize_t i0,
                              Py_ssize_t i1, Py_ssize_t i2, tuple rest, list values,
                              Value v0, Value v1, Value v2, list others)
    cdef State (*retype)(State child, Py_ssize_t n, Value v0, Value v1, Value v2, list others,
                         list values)
    cdef object (*count_pass)(State root, list states)
    cdef object (*check_budget)(Trace trace, bint autobatch)
    cdef object (*join_held)(Trace trace, PrimitiveBase prim, Tensor h0, Tensor h1, Tensor h2,
                             list rest)
    cdef Trace (*begin_trace)(long long thread)
    cdef object (*share_leaf)(Trace trace, Value v)
    cdef object (*record_shared)(Trace trace, PrimitiveBase prim, Py_ssize_t n, Tensor h0, Tensor h1,
                                 Tensor h2, list rest, list values, OpFunction inplace)
    cdef tuple (*leave_own)(Trace trace)
    cdef object (*keep_journal)(Trace trace)
    cdef object (*put_back)(Trace trace, FlushJob batch, list live)
