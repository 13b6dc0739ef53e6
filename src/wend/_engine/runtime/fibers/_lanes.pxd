# C types of `_lanes.py` (Cython's pure-Python mode).
cimport cython
from wend._engine.core._hot cimport (
    FlushJob, Leaf, Segment, State, Tensor, Trace, Value, ensure, refreshed, slim,
)
from wend._engine.runtime.native._launch cimport address_of, launch_at, new_array, part_at, row_at
from wend._engine.runtime.batching._grouper cimport add_bytes, copy_bytes
from wend._engine.runtime.batching._slabs cimport TemplateKernel, types_of

cdef extern from "_slabs_shim.h":
    void put "wend_slab_put" (long long address, long long word)
    void clear "wend_slab_clear" (long long address, Py_ssize_t n)

cdef Py_ssize_t MOST_RECENT

cdef class SavedLanes

cdef class OperandFields:
    cdef readonly Py_ssize_t index
    cdef readonly tuple leaves
    cdef readonly Py_ssize_t leaf
    cdef readonly int role
    cdef readonly object prim
    cdef readonly Py_ssize_t arg0
    cdef readonly Py_ssize_t n_args
    cdef bint picks

cdef class PatternFields:
    cdef public Py_ssize_t stride
    cdef public tuple indices
    cdef public list args
    cdef public tuple single
    cdef public list entries
    cdef public list made
    cdef public dict locals
    cdef public list number_at
    cdef public tuple leaves
    cdef public tuple loose
    cdef public list reads
    cdef public dict shows
    cdef public dict views
    cdef public dict places
    cdef public dict opens

@cython.locals(batch=FlushJob, state=State, plans=dict, known=dict, groups=dict, rest=list,
               live=list, members=list, parts=dict, wanted=tuple, name=tuple, k=Py_ssize_t,
               recent=list, row=tuple)
cpdef tuple sort_lanes(list batches, list lives, long long least, object key, object new)
@cython.locals(v=Value, w=Value, values=list, others=list, i=Py_ssize_t, k=Py_ssize_t)
cdef bint is_like(FlushJob batch, FlushJob other, tuple indices, list places) except -1
@cython.locals(v=Value, i=Py_ssize_t, k=Py_ssize_t, values=list, found=list, numbers=list,
               whole=bint)
cdef tuple signature_of(FlushJob batch, tuple indices, list places)
@cython.locals(batch=FlushJob, v=Value, pattern=PatternFields, part=tuple, begun=tuple, members=list, first=list, on=bint,
               i=Py_ssize_t, n=Py_ssize_t, found=list)
cpdef tuple shared_by(list parts)
cdef class LaneKernel(TemplateKernel):
    cdef readonly tuple inner
    cdef tuple room

    cpdef use_block(self, tuple inner, tuple room)
    @cython.locals(start="long long", at="long long", data="long long", inside="long long",
                   offset="long long", v=Value, values=list, kind=tuple, outs=list, found=list,
                   place=tuple, first="long long", given=Py_ssize_t, k=Py_ssize_t)
    cpdef tuple run_in_block(self, list operands, list rows, object gathered)
    @cython.locals(start="long long", at="long long", data="long long", inside="long long",
                   gathered="long long", kind=tuple, v=Value, values=list, n=Py_ssize_t, outs=list,
                   found=list, slot=tuple, given=Py_ssize_t, k=Py_ssize_t, i=Py_ssize_t,
                   place="long long")
    cpdef list run_back(self, SavedLanes lanes, list seeds)

@cython.locals(batch=FlushJob, v=Value, pattern=PatternFields, entry=OperandFields, members=list, part=tuple, row=tuple, size=Py_ssize_t,
               i=Py_ssize_t, k=Py_ssize_t, start="long long", offset="long long",
               target="long long", rows=list, operands=list, sources=list, places=list, found=list,
               offsets=list)
cdef tuple gather_operands(list parts, object at, object dense)
@cython.locals(row=tuple, offset=Py_ssize_t)
cdef object own_operand(list rows, Py_ssize_t k, object block)
@cython.locals(k=Py_ssize_t, found=list)
cdef list as_arrays(list operands, list rows, object block)
@cython.locals(batch=FlushJob, v=Value, i=Py_ssize_t, size=Py_ssize_t, source="long long")
cdef gather_rows(list members, tuple leaves, long long target, object dense, list found)
@cython.locals(batch=FlushJob, v=Value, source="long long", place=Py_ssize_t)
cdef gather_parts(list members, Py_ssize_t i, OperandFields entry, Py_ssize_t size,
                  long long target, object dense, list found, list offsets)
@cython.locals(arg0=Py_ssize_t, n=Py_ssize_t, at=Py_ssize_t)
cdef Py_ssize_t place_in(OperandFields entry, Value v, list args) except? -1
@cython.locals(members=list, part=tuple, pattern=PatternFields, i=Py_ssize_t, k=Py_ssize_t, first=Py_ssize_t)
cdef hand_out(list parts, list results)
@cython.locals(batch=FlushJob, v=Value, r=Py_ssize_t)
cdef hand_rows(list members, Py_ssize_t i, object array, Py_ssize_t first)
@cython.locals(operands=list, code=LaneKernel, results=list, row=tuple, pattern=PatternFields, members=list,
               rows=list, first=Py_ssize_t, batch=FlushJob, v=Value, i=Py_ssize_t)
cpdef tuple run_lanes(object lane_batch, list parts, Py_ssize_t n, object dense)
@cython.locals(saved=SavedLanes, segment=Segment, given=tuple, row=tuple, pattern=PatternFields,
               members=list, first=Py_ssize_t, found=tuple, batch=FlushJob)
cpdef save_lanes(object lane_batch, list parts, Py_ssize_t n, tuple done, object kind, object lazy)
@cython.locals(batch=FlushJob, v=Value, values=list, i=Py_ssize_t, at=Py_ssize_t)
cdef set_segment(list members, Segment segment, tuple given, Py_ssize_t stride, Py_ssize_t first)
cpdef bint park(Trace trace) except -1

cdef class Inputs:
    cdef SavedLanes lanes
    cdef readonly Py_ssize_t stride
    cdef readonly list parts
    cdef list columns

    @cython.locals(lanes=SavedLanes, k=Py_ssize_t, each=Py_ssize_t, at=Py_ssize_t, first=Py_ssize_t,
                   end=Py_ssize_t, start=Py_ssize_t, pattern=PatternFields)
    cdef object column(self, tuple row, tuple part)
    @cython.locals(found=list, columns=dict, part=tuple, pattern=PatternFields, row=tuple)
    cdef list all_columns(self)
    @cython.locals(r=Py_ssize_t, first=Py_ssize_t, k=Py_ssize_t, known=list, columns=dict,
                   part=tuple)
    cpdef object find(self, Py_ssize_t number)
    @cython.locals(found=list, known=list, columns=dict, first=Py_ssize_t, end=Py_ssize_t,
                   r=Py_ssize_t, k=Py_ssize_t, part=tuple)
    cpdef list items(self)
    @cython.locals(kept=dict, known=list, found=list, values=list, k=Py_ssize_t, pattern=PatternFields,
                   part=tuple, row=tuple, last=Value, thin=Value)
    cpdef slim_down(self)

cdef class SavedLanes:
    cdef readonly Py_ssize_t stride
    cdef readonly Py_ssize_t n
    cdef readonly object lane_batch
    cdef readonly list operands
    cdef readonly list results
    cdef readonly object saved
    cdef readonly tuple inner
    cdef readonly list sources
    cdef readonly list places
    cdef readonly list rows
    cdef readonly object gathered
    cdef readonly list slots
    cdef readonly tuple room
    cdef readonly list parts
    cdef readonly list args
    cdef readonly list leaves
    cdef readonly dict loose
    cdef public dict marks
    cdef list marked
    cdef public object spent
    cdef public dict spent_in
    cdef object block
    cdef object owner
    cdef dict waiting
    cdef long long start

    @cython.locals(batch=FlushJob, v=Value, part=tuple, pattern=PatternFields, first=Py_ssize_t,
                   end=Py_ssize_t, entered=list, values=list, types=list, shown=list, i=Py_ssize_t,
                   members=list)
    cdef take(self, list parts)
    @cython.locals(part=tuple, end=Py_ssize_t)
    cdef tuple part_of(self, Py_ssize_t r)
    @cython.locals(part=tuple, pattern=PatternFields)
    cdef Py_ssize_t number_of(self, Py_ssize_t r, Py_ssize_t i) except? -1
    @cython.locals(v=Value, k=Py_ssize_t, segment=Segment, last=Segment)
    cdef bint goes_on_from_spent(self) except -1
    @cython.locals(v=Value, k=Py_ssize_t, at=Py_ssize_t, first=Py_ssize_t, part=tuple,
                   pattern=PatternFields, shown=tuple)
    cpdef tuple shown(self, Py_ssize_t i, Py_ssize_t r)
    cdef bytearray marks_of(self, Py_ssize_t i)
    @cython.locals(known=tuple)
    cpdef turn_to(self, object owner)
    @cython.locals(slot=tuple)
    cpdef object seed(self, Py_ssize_t i)
    @cython.locals(row=Py_ssize_t, source="long long", marks=bytearray, place=Py_ssize_t,
                   wide=bint)
    cdef bint add_row(self, tuple slot, Py_ssize_t i, Py_ssize_t r, object g) except -1
    @cython.locals(r=Py_ssize_t, i=Py_ssize_t, found=Py_ssize_t, slot=tuple)
    cpdef accept(self, object owner, Py_ssize_t number, object g)
    @cython.locals(found=list, rows=list, r=Py_ssize_t, marks=bytearray)
    cpdef list reached(self)
    cpdef forget(self)
    @cython.locals(handle=Tensor, given=list)
    cpdef bint pass_on(self, object owner, Segment segment, dict seeds) except -1
    @cython.locals(uneven=bint, marks=bytearray)
    cdef bint goes_on_alike(self, dict smooth) except -1
    @cython.locals(n=Py_ssize_t, slot=tuple)
    cpdef object read(self, Py_ssize_t k, list seeds)
    @cython.locals(n=Py_ssize_t, row=tuple)
    cdef long long place_of(self, Py_ssize_t k) except -1
    @cython.locals(n=Py_ssize_t, k=Py_ssize_t, i=Py_ssize_t, made=Py_ssize_t, seeds=list,
                   call=list, read=list, found=list, targets=tuple, rest=list,
                   kept=list, whole=list, values=list, key=list, name=tuple, slabs=list)
    cpdef push(self, object owner, object known, object rows, object reached)
    @cython.locals(rest=list, target=tuple, number=Py_ssize_t, k=Py_ssize_t, data="long long", rows=list)
    cdef list hand_back(self, object owner, tuple targets, list found, list sizes)

@cython.locals(v=Value, start="long long", n=Py_ssize_t, at=Py_ssize_t, k=Py_ssize_t,
               r=Py_ssize_t, i=Py_ssize_t, row=Py_ssize_t, rest=list, place=Py_ssize_t,
               segment=Segment, last=Segment, saved=SavedLanes, marks=bytearray, slot=tuple,
               number=Py_ssize_t)
cpdef list scatter_rows(list values, list offsets, Py_ssize_t size, long long source, bint wide,
                        object owner)
@cython.locals(given=Inputs)
cdef SavedLanes saved_lanes_of(Segment segment)
@cython.locals(value=Value, leaf=Leaf, k=Py_ssize_t)
cdef bint is_hooked(list sources, list leafy) except -1
