# C types of `_grouper.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport LeafPrimitive, Mode, PrimitiveBase, TensorType, same_tail
from wend._engine.core._hot cimport Record, Value, ask_ahead

cdef extern from "_grouper_shim.h":
    void copy "wend_copy" (long long target, long long source, Py_ssize_t n)
    void clear "wend_clear" (long long target, Py_ssize_t n)
    void add32 "wend_add32" (long long target, long long source, Py_ssize_t n)
    void add64 "wend_add64" (long long target, long long source, Py_ssize_t n)
    # Items of lists and tuples of one class: nothing is checked.
    Record record_at "(struct __pyx_obj_4wend_7_engine_4core_4_hot_Record *)wend_item" (list items, Py_ssize_t i)
    Value value_at "(struct __pyx_obj_4wend_7_engine_4core_4_hot_Value *)wend_item" (list items, Py_ssize_t i)
    PrimitiveBase prim_of "(struct __pyx_obj_4wend_7_engine_4core_6_types_PrimitiveBase *)Py_NewRef" (object prim)
    # Of values in a list, without a reference to the value.
    TensorType type_of "(struct __pyx_obj_4wend_7_engine_4core_6_types_TensorType *)WEND_TYPE_OF" (list values, Py_ssize_t i)
    bint was_seen "WEND_WAS_SEEN" (list seen, Py_ssize_t k, list values, Py_ssize_t i)
    long long rows_at "WEND_ROWS_AT" (list values, Py_ssize_t i)
    int role_at "WEND_ROLE_AT" (list values, Py_ssize_t i, long long region)
    TensorType type_at "(struct __pyx_obj_4wend_7_engine_4core_6_types_TensorType *)wend_entry" (tuple items, Py_ssize_t i)
    int put "wend_put_item" (list items, Py_ssize_t i, object item)
    # Words of an array as a table: where it begins, what lies n words behind, its address.
    long long *table_of "wend_table" (object array) except NULL
    long long *behind "wend_behind" (long long *table, Py_ssize_t n)
    long long address "wend_table_address" (long long *table)
    void fill "wend_fill" (long long *table, Py_ssize_t n, long long number)

cdef int ROW_, PLAIN_, UNSUITED_, LEADING_, STARTER_, JOIN_
cdef int MOVE_CLEAR, MOVE_COPY, MOVE_ADD
cdef int GRAD_, ANYWHERE_, HOW_, ROLE_SHIFT_, NEW_
cdef Py_ssize_t MOST_OPS, MOST_VALUES, MOST_OPERANDS, RANKS, TRIALS, SLICE, MOST_RANKED

cdef dict OFFSETS_
cdef dict PLACES_
cdef dict REPEATED_
cdef dict ASK_

@cython.final
cdef class GroupNode:
    cdef readonly GroupNode parent
    cdef readonly object prim
    cdef readonly tuple refs
    cdef readonly tuple kinds
    cdef readonly tuple types
    cdef readonly tuple args
    cdef readonly object program
    cdef readonly tuple free
    cdef object words
    cdef long long *table
    cdef list seen
    cdef readonly bint grad
    cdef readonly bint flows
    cdef readonly bint inner
    cdef readonly Py_ssize_t n_in
    cdef Py_ssize_t ref0
    cdef Py_ssize_t ref1
    cdef Py_ssize_t ref2
    cdef readonly Py_ssize_t n_out
    cdef public dict children
    cdef public GroupNode child
    cdef public bint joins
    cdef public bint rows
    cdef public bint heavy
    cdef public bint smooth
    cdef public bint single
    cdef public bint joined
    cdef public Py_ssize_t n_ops
    cdef public Py_ssize_t n_values
    cdef public Py_ssize_t n_operands
    cdef public long long mask
    cdef public long long recent
    cdef public Py_ssize_t term
    cdef public frozenset severed
    cdef public tuple shared
    cdef public object template
    cdef public dict in_place
    cdef public Py_ssize_t hint
    cdef public long long rank
    cdef public Py_ssize_t trials

cdef extern from "_grouper_shim.h":
    bint inner_child "WEND_INNER_CHILD" (list nodes, Py_ssize_t i, Record step, long long *region, long long *local)
    Py_ssize_t values_of "WEND_VALUES_OF" (list nodes, Py_ssize_t i)
    int to_child "WEND_TO_CHILD" (list nodes, Py_ssize_t i)
    GroupNode node_at "(struct __pyx_obj_4wend_7_engine_7runtime_8batching_8_grouper_GroupNode *)wend_item" (list items, Py_ssize_t i)

cdef class Grouper:
    cdef long long *ins
    cdef long long *region
    cdef long long *local
    cdef long long *root
    cdef long long *offset
    cdef long long *data
    cdef long long *gradient
    cdef long long *used
    cdef long long *made
    cdef long long *depths
    cdef long long *rows
    cdef long long *reads_at
    cdef long long *n_reads
    cdef long long *room
    cdef long long *made_at
    cdef long long *fixed
    cdef long long *arg0
    cdef list args
    cdef long long *pool
    cdef Py_ssize_t pooled
    cdef Py_ssize_t pool_room
    cdef object words
    cdef object pool_words
    cdef public list nodes
    cdef public list needed
    cdef public list reached
    cdef public list leaves
    cdef public dict joins
    cdef dict twins
    cdef readonly set merged
    cdef long long *members
    cdef readonly Sequence sequence
    cdef TensorType viewed
    cdef PrimitiveBase viewing
    cdef dict places
    cdef public bint away
    cdef long long *moves
    cdef object moves_words
    cdef readonly Py_ssize_t n_moves
    cdef Py_ssize_t moves_room

    cdef int lay_tables(self, long long *table, Py_ssize_t n, Py_ssize_t m) except -1
    @cython.locals(state=Record, first=Py_ssize_t, n_in=Py_ssize_t, code=int, nodes=list,
                   region="long long *", root="long long *", local="long long *", at=Py_ssize_t,
                   k=Py_ssize_t, number=Py_ssize_t, n_args=Py_ssize_t, arg0=Py_ssize_t, target=Py_ssize_t,
                   newest=Py_ssize_t, node=GroupNode, parent=GroupNode, prim=PrimitiveBase, known=int)
    cpdef bint scan(self, GroupNode root_node, list states, list values, list args, bint merges) except -1
    @cython.locals(ins="long long *", region="long long *", fixed="long long *",
                   newest=Py_ssize_t, at=Py_ssize_t, rest=tuple, k=Py_ssize_t)
    cdef Py_ssize_t read_operands(self, Record state, Py_ssize_t n_in) except -2
    cdef Py_ssize_t value_itself(self, Py_ssize_t at) noexcept
    @cython.locals(k=Py_ssize_t, base=Py_ssize_t, g=Py_ssize_t)
    cdef bint is_fixed(self, Record state, PrimitiveBase prim, Py_ssize_t n_in, list values) except -1
    @cython.locals(arg0=Py_ssize_t, first=Py_ssize_t, k=Py_ssize_t, key=tuple, twin=Py_ssize_t, numbers=tuple, kind=tuple)
    cdef int find_twin(self, Record state, PrimitiveBase prim, Py_ssize_t n_in, list values, list args) except -1
    @cython.locals(at=Py_ssize_t, v=Value, arg0=Py_ssize_t, n_args=Py_ssize_t, found=object,
                   key=tuple, first=Py_ssize_t)
    cdef bint place_view(self, Record state, PrimitiveBase prim, list values, list args) except -1
    @cython.locals(at=Py_ssize_t, k=Py_ssize_t, node=GroupNode, i=Py_ssize_t, made="long long *",
                   made_at="long long *", region="long long *", local="long long *")
    cdef bint number_values(self, Py_ssize_t n) except -1
    @cython.locals(n=Py_ssize_t, start=Py_ssize_t, old=Py_ssize_t, k=Py_ssize_t)
    cdef bint add_read(self, Py_ssize_t target, Py_ssize_t at, Py_ssize_t room) except -1
    @cython.locals(words=object, pool="long long *", k=Py_ssize_t)
    cdef bint enlarge_pool(self, Py_ssize_t n) except -1
    cpdef long long pool_at(self)
    cpdef Py_ssize_t local_of(self, Py_ssize_t at, Py_ssize_t i)
    @cython.locals(at=Py_ssize_t, k=Py_ssize_t)
    cpdef list operands_of(self, Py_ssize_t i)
    @cython.locals(k=Py_ssize_t)
    cpdef list made_of(self, Py_ssize_t i)
    cpdef long long address_of(self, Py_ssize_t at)
    @cython.locals(at=Py_ssize_t)
    cpdef list numbers_of(self, Py_ssize_t i)
    @cython.locals(target=Py_ssize_t, depth=Py_ssize_t, k=Py_ssize_t, g=Py_ssize_t)
    cdef Py_ssize_t begin(self, GroupNode node, Py_ssize_t n_in) except -1
    @cython.locals(v=Value, k=Py_ssize_t, node=GroupNode, target=Py_ssize_t, first=Py_ssize_t,
                   n_in=Py_ssize_t, key=tuple)
    cdef bint join_all(self, GroupNode root_node, Record state, list values) except -1
    @cython.locals(n=Py_ssize_t, k=Py_ssize_t, at=Py_ssize_t, table="long long *", v=Value,
                   first=Py_ssize_t)
    cdef join(self, GroupNode node, Record state, Py_ssize_t n_in, Py_ssize_t target, list values)
    @cython.locals(n=Py_ssize_t, k=Py_ssize_t, g=Py_ssize_t, start=Py_ssize_t, j=Py_ssize_t,
                   known=bint, table="long long *", region="long long *", root="long long *",
                   pool="long long *")
    cdef bint allowed(self, GroupNode node, Py_ssize_t n_in, Py_ssize_t target) except -1
    @cython.locals(child=GroupNode, found=list, operands=list, k=Py_ssize_t)
    cdef GroupNode find(self, GroupNode parent, Record state, PrimitiveBase prim, Py_ssize_t n_in, Py_ssize_t target,
                   list values, list args, Py_ssize_t arg0, Py_ssize_t n_args)
    @cython.locals(region="long long *", ins="long long *", pool="long long *", table="long long *",
                   like=TensorType, n_known=Py_ssize_t, n_new=Py_ssize_t, k=Py_ssize_t,
                   n_rows="long long", rows="long long", j=Py_ssize_t, at=Py_ssize_t,
                   ref=Py_ssize_t, start=Py_ssize_t, kind=int, role=int, type_=TensorType, wanted=tuple, free=tuple)
    cdef bint fits(self, GroupNode child, Record state, PrimitiveBase prim, Py_ssize_t n, Py_ssize_t target,
                   list values, list args, Py_ssize_t arg0) except -1
    cpdef int role(self, Py_ssize_t at, Value v) except -1
    @cython.locals(g=Py_ssize_t, h=Py_ssize_t, at=Py_ssize_t, n=Py_ssize_t, k=Py_ssize_t,
                   j=Py_ssize_t, marks=list, through_gradients=bint, nodes=list,
                   start=Py_ssize_t, severed=frozenset,
                   region="long long *", root="long long *", pool="long long *")
    cpdef mark(self, wanted, roots)
    @cython.locals(g=Py_ssize_t, h=Py_ssize_t, at=Py_ssize_t, k=Py_ssize_t, stack=list,
                   start=Py_ssize_t, severed=frozenset, marks=list, ends=set)
    cpdef tuple flow(self, list seeds)
    @cython.locals(region="long long *", root="long long *", nodes=list, n=Py_ssize_t,
                   schedule=Schedule, kinds="long long *", missing="long long *",
                   heads="long long *", following="long long *", users="long long *",
                   table=dict, depth_of="long long *", count_of="long long *", firsts=list,
                   entry=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t, k=Py_ssize_t, g=Py_ssize_t,
                   node=GroupNode, mask="long long", kind=Py_ssize_t, shared=list, smooth=bint,
                   key=tuple)
    cpdef Sequence order(self, Py_ssize_t term)
    @cython.locals(n=Py_ssize_t, i=Py_ssize_t)
    cpdef take_each(self)
    @cython.locals(k=Py_ssize_t)
    cpdef list members_of(self, Py_ssize_t at, Py_ssize_t n)
    @cython.locals(one="long long", mask="long long", start=Py_ssize_t, k=Py_ssize_t)
    cpdef long long mask_of(self, Py_ssize_t i) except -1
    @cython.locals(node=GroupNode, of_a=Py_ssize_t, of_b=Py_ssize_t, k=Py_ssize_t)
    cdef bint alike(self, Py_ssize_t a, Py_ssize_t b, long long mask) except -1
    cpdef Py_ssize_t rows_of(self, Py_ssize_t i) except -2
    @cython.locals(n=Py_ssize_t, j=Py_ssize_t)
    cpdef Py_ssize_t total(self, Py_ssize_t start, Py_ssize_t count) except -1
    @cython.locals(i=Py_ssize_t, j=Py_ssize_t, at=Py_ssize_t, n=Py_ssize_t)
    cpdef gather(self, Py_ssize_t start, Py_ssize_t count, Py_ssize_t k, Py_ssize_t size,
                 long long target, bint by_rows)
    @cython.locals(i=Py_ssize_t, j=Py_ssize_t, table="long long *")
    cpdef place(self, Py_ssize_t start, Py_ssize_t count, Py_ssize_t k, Py_ssize_t size,
                long long address, bint by_rows, bint gradients)
    @cython.locals(at=Py_ssize_t, k=Py_ssize_t, v=Value, source="long long")
    cpdef lay(self, Py_ssize_t i, list values, long long target)
    @cython.locals(at=Py_ssize_t, k=Py_ssize_t, v=Value, n=Py_ssize_t, values=list)
    cpdef share_out(self, Py_ssize_t i, object run, long long source, bint wide)
    @cython.locals(i=Py_ssize_t, j=Py_ssize_t, at=Py_ssize_t, n=Py_ssize_t, values=list)
    cpdef scatter(self, Py_ssize_t start, Py_ssize_t count, Py_ssize_t k, Py_ssize_t size,
                  object run, long long source, bint by_rows, bint wide)
    @cython.locals(base=Py_ssize_t, target="long long")
    cdef bint add_gradient(self, Py_ssize_t at, object run, list values, long long source,
                           Py_ssize_t n, bint wide) except -1
    @cython.locals(base=Py_ssize_t, target="long long", v=Value)
    cdef bint put_first(self, Py_ssize_t at, list values, long long source, Py_ssize_t n) except -1
    @cython.locals(i=Py_ssize_t, j=Py_ssize_t, at=Py_ssize_t, target="long long")
    cpdef settle(self, Py_ssize_t start, Py_ssize_t count, Py_ssize_t k, Py_ssize_t size,
                 bint by_rows)
    @cython.locals(k=Py_ssize_t)
    cpdef move(self, int kind, long long target, long long source, Py_ssize_t n)
    cpdef erase(self, long long target, Py_ssize_t n)
    @cython.locals(room=Py_ssize_t, words=object, table="long long *", k=Py_ssize_t)
    cdef bint enlarge_moves(self) except -1
    @cython.locals(n=Py_ssize_t)
    cpdef object take_moves(self)


cdef class Sequence:
    cdef readonly object words
    cdef readonly Py_ssize_t n
    cdef long long *kinds
    cdef long long *ends
    cdef long long *members


@cython.final
cdef class Schedule:
    cdef long long *kinds
    cdef long long *missing
    cdef long long *heads
    cdef long long *keys
    cdef long long *counts
    cdef long long *left
    cdef long long *longest
    cdef long long *following
    cdef long long *users
    cdef long long *ready
    cdef long long *latest
    cdef long long *next
    cdef object words
    cdef Py_ssize_t n
    cdef list firsts

    @cython.locals(n_kinds=Py_ssize_t, kind=Py_ssize_t, keys="long long *", top="long long",
                   known=Py_ssize_t, open_=bint, settled=bint, node=GroupNode, ranked=list,
                   groups=Sequence, found=Sequence)
    cdef Sequence shortest(self, list nodes)
    @cython.locals(node=GroupNode, other=GroupNode, before="long long", groups=Sequence)
    cdef Sequence improve(self, list nodes, list ranked, Sequence found)
    @cython.locals(kind=Py_ssize_t)
    cdef bint put(self, GroupNode node, list nodes) except -1
    @cython.locals(kinds="long long *", heads="long long *", following="long long *",
                   users="long long *", left="long long *", ready="long long *",
                   after="long long *", members="long long *", found=Sequence, n=Py_ssize_t,
                   heap=list, i=Py_ssize_t, j=Py_ssize_t, k=Py_ssize_t, at=Py_ssize_t,
                   start=Py_ssize_t, kind=Py_ssize_t, entry=Py_ssize_t)
    cdef Sequence groups(self)
    cdef bint let_run(self, Py_ssize_t kind, Py_ssize_t i, list heap) except -1
    @cython.locals(kinds="long long *", heads="long long *", following="long long *",
                   users="long long *", longest="long long *", n=Py_ssize_t,
                   kind=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t, entry=Py_ssize_t,
                   length="long long", most="long long", found=Py_ssize_t)
    cdef Py_ssize_t fewest(self) except -1


cpdef copy_bytes(long long target, long long source, Py_ssize_t n)
cpdef add_bytes(long long target, long long source, Py_ssize_t n, bint wide)
