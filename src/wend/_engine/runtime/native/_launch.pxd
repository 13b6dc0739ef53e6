# C types of `_launch.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._types cimport evaluate, off_mode
from wend._engine.core._hot cimport (
    FlushJob, Leaf, Record, Segment, State, Tensor, Trace, Value, ensure, flush, held, passed, refreshed, slim, wrap,
)
from wend._engine.core._backward cimport give_gradients

cdef extern from "_launch_shim.h":
    bint COMPILED "WEND_LAUNCH_COMPILED"
    void set_arrays "wend_set_arrays" (object cls, object api, object empty)
    long long array_data "wend_array_data" (object array)
    bint array_owned "wend_array_owned" (object array)
    Py_ssize_t references "wend_references" (object x)
    object identity "PyLong_FromVoidPtr" (object x)
    void put "wend_put" (long long address, long long word)
    void put_double "wend_put_double" (long long address, double number)
    long long get "wend_get" (long long address)
    void philox "wend_philox" (long long out, long long n, unsigned long long first, unsigned long long seed, unsigned int kind, unsigned int retry)
    void patch "wend_patch" (long long patches, Py_ssize_t n, long long table)
    int run_kernels "wend_run_kernels" (long long code, Py_ssize_t n, bint release, long long scratch, Py_ssize_t room, bint stoppable) except -1
    void set_threads "wend_set_threads" (int n)
    void set_look "wend_set_look" (long long nanoseconds)
    object make_array "wend_make_array" (object make, object shape, object dtype)
    object make_large "wend_make_large" (object shape, object dtype)
    object part_of "wend_part_of" (object array, object shape, object dtype, long long offset, object strides)
    object row_of "wend_row_of" (object array, Py_ssize_t r)
    object enter_lots "wend_enter_lots" ()
    int leave_lots "wend_leave_lots" (object before) except -1
    void give_lots_back "wend_trim_lots" ()

cpdef run_call(long long words, Py_ssize_t n)

cdef extern from "_grouper_shim.h":
    void copy "wend_copy" (long long target, long long source, Py_ssize_t n)
    void copy_line "wend_copy_line" (long long target, long long source, Py_ssize_t size, Py_ssize_t n, long long step)
    void add32 "wend_add32" (long long target, long long source, Py_ssize_t n)
    void add64 "wend_add64" (long long target, long long source, Py_ssize_t n)

cdef dict SLOTS
cdef list ARENAS
cdef long long RUNS
cdef int MADE, LEAF, FOUND, SHOWN

cdef class ArgumentBlock:
    cdef public object memory
    cdef public long long table
    cdef public long long patches
    cdef public Py_ssize_t n_patches
    cdef public long long fault
    cdef public tuple leaves
    cdef public tuple types
    cdef public tuple places
    cdef public tuple sizes
    cdef public tuple outs
    cdef public tuple shows
    cdef public tuple gives
    cdef public tuple saves
    cdef public tuple numbers
    cdef public tuple moves
    cdef public tuple weights
    cdef public tuple steps
    cdef public Py_ssize_t arena_bytes
    cdef public long long scratch
    cdef public Py_ssize_t room
    cdef public bint release
    cdef public bint busy
    cdef public tuple fitted
    cdef public bint needs_types
    cdef public object owner
    cdef public object arena
    cdef public object found
    cdef public object device
    cdef public list linked
    cdef public tuple entering
    cdef public Py_ssize_t first_out

cdef int FRAME, SUM, COPY

cdef class LinkedPart:
    cdef public int kind
    cdef public ArgumentBlock frame
    cdef public object fills
    cdef public long long at
    cdef public Py_ssize_t n_fills
    cdef public tuple values
    cdef public list types
    cdef public tuple args
    cdef public tuple exprs
    cdef public list before
    cdef public tuple donations
    cdef public tuple finds
    cdef public object hosted
    cdef public object sites
    cdef public bint checked
    cdef public Py_ssize_t size
    cdef public bint wide
    cdef public object dtype
    cdef public object words
    cdef public long long words_at

@cython.locals(row="long long", made=list, kept=list, part=LinkedPart, stoppable=bint)
cdef list launch_link(ArgumentBlock frame, list values, list args, long long arena, list touched)
@cython.locals(source="long long")
cdef long long slot_at(long long words, long long row, long long arena)
@cython.locals(target="long long", source="long long", n=Py_ssize_t)
cdef combine(ArgumentBlock link, LinkedPart part, long long row, long long arena)
@cython.locals(frame=ArgumentBlock, words="long long", _=Py_ssize_t)
cdef fill_table(LinkedPart part, long long row, long long arena)
@cython.locals(frame=ArgumentBlock, row="long long", own=list, at=Py_ssize_t, start="long long",
               numbers=list, k=Py_ssize_t, step=tuple, code="long long", i=object, place="long long")
cdef bint run_part(ArgumentBlock link, LinkedPart part, list values, list args, list made,
                   list kept, list touched, long long arena, bint stoppable) except -1
@cython.locals(v=Value, k=Py_ssize_t, i=Py_ssize_t)
cdef donate_all(ArgumentBlock frame, rows, list values, list made, list touched)
cdef give_back(rows, list values, list made)
cdef list rebindings(rows, list values, list touched)
@cython.locals(part=LinkedPart, frame=ArgumentBlock)
cdef bint claim(list parts, list args) except -1
@cython.locals(numbers=list, k=Py_ssize_t)
cdef list args_of(LinkedPart part, list args)
@cython.locals(part=LinkedPart)
cdef free_frames(list parts)

cdef leave(ArgumentBlock frame)

@cython.locals(frame=ArgumentBlock, arena=tuple)
cpdef ArgumentBlock frame_like(ArgumentBlock model, object memory, long long fault, tuple types, tuple sizes,
                       object owner, tuple rest)
cpdef object owner_of(ArgumentBlock frame)

cdef class NativePlan:
    cdef public object path
    cdef public tuple roots
    cdef public tuple grad_leaves
    cdef public ArgumentBlock frame
    cdef public dict frames
    cdef public Py_ssize_t left

@cython.locals(v=Value, data="long long", packs=dict, start="long long", table="long long",
               i=Py_ssize_t, place="long long", home="long long", offset="long long",
               private="long long", words=tuple, patience="long long", word="long long",
               kept_word="long long", else_word="long long")
cdef weigh(ArgumentBlock frame, list values, long long arena)

cpdef long long address_of(object array) except? -2
cpdef object new_array(object make, object shape, object dtype)
cpdef object part_at(object array, object shape, object dtype, long long offset, object strides)
cpdef object row_at(object array, Py_ssize_t r)
@cython.locals(at="long long", start="long long", arena="long long", step=tuple, i=Py_ssize_t,
               word="long long", category=int, code="long long", scratch="long long")
cpdef int launch_at(ArgumentBlock frame, tuple made, long long table, list values, tuple numbers,
                    tuple words) except -2

cdef fit(ArgumentBlock frame, tuple words)

@cython.locals(v=Value, at="long long", i=Py_ssize_t, data="long long")
cdef long long enter_leaves(ArgumentBlock frame, tuple leaves, list values, list kept) except -1
@cython.locals(made=list)
cdef list make_outs(ArgumentBlock frame, long long at)
@cython.locals(start="long long", row=tuple, word="long long", category=int)
cdef fill_numbers(ArgumentBlock frame, list types, list args)

@cython.locals(at="long long", start="long long", made=list, kept=list, step=tuple,
               code="long long", stoppable=bint)
cpdef list launch(ArgumentBlock frame, list values, list types, list args, long long arena, list touched)

@cython.locals(v=Value, k=Py_ssize_t, i=Py_ssize_t, place="long long")
cdef donate(ArgumentBlock frame, rows, list values, list made, list touched)

@cython.locals(v=Value)
cdef object donated(list values, Py_ssize_t i, device)
cdef Py_ssize_t ALONE

cdef class Cell:
    cdef public ArgumentBlock forward
    cdef public tuple made
    cdef public tuple numbers
    cdef public long long plain
    cdef public long long n_places
    cdef public long long places
    cdef public long long views
    cdef public Py_ssize_t space
    cdef public Py_ssize_t pick
    cdef public long long n_picks
    cdef public long long picks
    cdef public Py_ssize_t seed_bytes
    cdef public ArgumentBlock backward
    cdef public tuple made_back
    cdef public tuple numbers_back
    cdef public long long plain_back
    cdef public long long n_places_back
    cdef public long long places_back
    cdef public long long views_back
    cdef public Py_ssize_t space_back
    cdef public long long n_targets
    cdef public long long targets
    cdef public Py_ssize_t arena_bytes
    cdef public bint weighted
    cdef public Py_ssize_t entries
    cdef public object memory

@cython.locals(n="long long", fault="long long", arena="long long", _="long long")
cdef bint run_plain(long long words, long long table) except -1

cdef list NO_WEIGHTS

cdef class Singles:
    cdef public list cells
    cdef public long long firsts
    cdef public long long seeds
    cdef public list values
    cdef public long long made
    cdef public long long reads_at
    cdef public long long n_reads
    cdef public long long made_at
    cdef public long long pool
    cdef public long long region
    cdef public long long root
    cdef public long long offset
    cdef public long long data
    cdef public long long gradient
    cdef public long long table
    cdef public Py_ssize_t arena_bytes

    @cython.locals(n="long long")
    cdef find_tables(self, long long words, Py_ssize_t n_states, long long pool)
    @cython.locals(at="long long", base="long long", n=Py_ssize_t, i=Py_ssize_t, k=Py_ssize_t)
    cdef Py_ssize_t fill_operands(self, Py_ssize_t g) except -1
    cdef Py_ssize_t operand(self, Py_ssize_t g, Py_ssize_t k) except -1
    @cython.locals(found=list, k=Py_ssize_t, at="long long")
    cdef list weights(self, Py_ssize_t g, Cell cell)
    @cython.locals(weights=list)
    cdef int launch_cell(self, Py_ssize_t g, Cell cell, ArgumentBlock frame, tuple made, tuple numbers,
                         long long plain) except -2
    cdef object lend_arena(self)
    @cython.locals(cells=list, at="long long", space=Py_ssize_t, gradients=Py_ssize_t, cell=Cell)
    cpdef tuple lay_out(self, list nodes, dict known)
    @cython.locals(at="long long", g=Py_ssize_t)
    cpdef begin(self, long long address, long long space, long long table)
    cpdef give(self, Py_ssize_t g, Cell cell, long long first, long long seed)
    @cython.locals(most=Py_ssize_t, cell=Cell)
    cpdef Py_ssize_t most_back(self) except -1
    cpdef Py_ssize_t forward(self, Py_ssize_t g, list needed) except -3
    @cython.locals(n=Py_ssize_t, cells=list, cell=Cell, table="long long", k=Py_ssize_t,
                   at="long long", n_in=Py_ssize_t, first="long long", i=Py_ssize_t)
    cdef Py_ssize_t run_forward(self, Py_ssize_t g, list needed) except -3
    cpdef Py_ssize_t backward(self, Py_ssize_t g, list reached, long long scratch,
                              object ask) except -3
    @cython.locals(cell=Cell, table="long long", at="long long", n_in=Py_ssize_t,
                   first="long long", place="long long", k=Py_ssize_t)
    cdef Py_ssize_t run_backward(self, Py_ssize_t g, list reached, long long scratch,
                                 object ask) except -3
    @cython.locals(i=Py_ssize_t, base="long long", target="long long", source="long long",
                   size=Py_ssize_t)
    cdef add_target(self, Py_ssize_t g, long long words, object ask)

@cython.locals(n="long long", n_dims="long long", source="long long", _="long long")
cdef copy_views(long long words, long long table)

@cython.locals(n="long long", step="long long", _="long long")
cdef long long copy_view(long long target, long long source, Py_ssize_t size, long long n_dims,
                         long long words) except -1

@cython.locals(state=State, plans=dict, native_plan=NativePlan, pending=dict)
cpdef execute(FlushJob batch, list live)

@cython.locals(frame=ArgumentBlock, values=list, args=list)
cpdef int run(NativePlan native_plan, FlushJob batch) except -2

@cython.locals(v=Value)
cdef tuple sizes_of(ArgumentBlock frame, list values, list args)

@cython.locals(v=Value, shown=list, i=Py_ssize_t, source=int, k=Py_ssize_t)
cdef hand_over(NativePlan native_plan, ArgumentBlock frame, FlushJob batch, list values, list made)

@cython.locals(made=list, types=list, arena="long long")
cpdef int run_bound(NativePlan native_plan, ArgumentBlock frame, FlushJob batch, list values, list args) except -2

cpdef long long take_arena(ArgumentBlock frame) except -1

cdef object arena_of(Py_ssize_t size)

@cython.locals(v=Value, shown=list, source=int, k=Py_ssize_t, offset="long long")
cpdef list show(ArgumentBlock frame, list values, list made)

@cython.locals(v=Value)
cdef source_of(ArgumentBlock frame, list values, list made, list shown, int source, Py_ssize_t k)

@cython.locals(v=Value, segment=Segment, older=Segment, inputs=dict, saved=dict,
               types=list, deep=bint, source=int, k=Py_ssize_t, at=Py_ssize_t)
cpdef keep_segment(NativePlan native_plan, ArgumentBlock frame, FlushJob batch, list values, list made, list shown)

@cython.locals(k=Py_ssize_t, n=Py_ssize_t)
cpdef moved(tuple row, list args)

@cython.locals(sizes=list, k=Py_ssize_t, n=Py_ssize_t, at=Py_ssize_t)
cpdef tuple sizes_among(tuple places, list args)

@cython.locals(v=Value, k=Py_ssize_t, n=Py_ssize_t, at=Py_ssize_t)
cpdef bint same_sizes(tuple leaves, tuple types, list values, tuple places, tuple sizes, list args) except -1

@cython.locals(heap=list, segments=dict, pending=dict, totals=dict, k=Py_ssize_t, at=Py_ssize_t)
cpdef backward_on(Trace trace, bint retain, list leaves, list older, list fresh)

@cython.locals(segment=Segment, table=dict)
cdef contribute(list heap, dict segments, dict pending, Value value, object g)

@cython.locals(segment=Segment, row=tuple, values=list, fresh=list, targets=tuple, inputs=dict,
               k=Py_ssize_t, v=Value, leaf=Leaf, have=list)
cpdef bint pass_segments(Trace trace, bint retain, list heap, dict segments, dict pending,
                         dict totals) except -1

@cython.locals(rows=list, row=tuple, inputs=dict, fits=bint, v=Value, leaf=Leaf)
cdef tuple known_step(Segment segment, dict seeds, dict totals, bint retain)

@cython.locals(v=Value, leaf=Leaf)
cdef bint pass_lookups(Segment segment, dict seeds, dict totals) except -1

@cython.locals(states=list, inputs=dict, values=list, saved=dict, pair=tuple, total=list, v=Value)
cdef list operands_of(tuple row, Segment segment, dict seeds, dict totals)

@cython.locals(state=Record, other=Value)
cdef bint append_operand(list values, list states, Value v) except -1

@cython.locals(types=list, args=list, saved=dict, fresh=list, v=Value, t=Tensor, states=list,
               batch=FlushJob)
cdef list take_known(Trace trace, tuple row, Segment segment, list values)
