# C types of `_bind.py` (Cython's pure-Python mode).
cimport cython

cdef extern from "_slabs_shim.h":
    void put "wend_slab_put" (long long address, long long word)
    long long get "wend_slab_get" (long long address)

cdef extern from "_arrays.h":
    void *set_arrays "wend_arrays_of" (object cls, object api, object empty)
    long long array_data "wend_array_data" (object array)
    object make_array "wend_make_array" (object make, object shape, object dtype)

cdef long long ALIGNMENT

cdef long long NONE, LARGEST
cdef double LIMIT
cdef int DIM, ARG, SUM, FLOORDIV, MOD, MIN, MAX, EQ, NE, LT, LE, GT, GE

@cython.locals(end="long long", op=int, target="long long", count=Py_ssize_t, total="long long",
               size=double, term="long long", factor=double, left=Py_ssize_t, x="long long",
               a="long long", b="long long", k=Py_ssize_t, shape=tuple)
cpdef evaluate(long long code, Py_ssize_t n, object types, list args, long long row,
               long long atoms)

@cython.cdivision(False)
cdef long long apply(int op, long long a, long long b) except? -1

@cython.locals(numbers=list, places="long long", work=double, least=double, k=Py_ssize_t, key=tuple,
               packs=bint, more=list, left="long long", right="long long", number="long long",
               leading=Py_ssize_t,
               count=Py_ssize_t, c=Py_ssize_t, n="long long", step="long long")
cpdef cut_kernels(list cutters, long long words, long long row, long long most_rows, object value,
                  dict forms, list edges, list packable)

@cython.locals(x="long long", y="long long")
cdef long long product_of(long long row, long long places, Py_ssize_t i, Py_ssize_t j,
                          Py_ssize_t k) except? -1

@cython.locals(least="long long", number="long long", k=Py_ssize_t)
cpdef long long least_of(long long row, long long places, Py_ssize_t n) except? -1

@cython.locals(tuples=list, numbers=list, count=Py_ssize_t, number="long long", k=Py_ssize_t)
cpdef list gather(long long row, long long places, tuple counts)

@cython.locals(total="long long", k="long long", count="long long", place="long long",
               end="long long")
cpdef long long lay_in_order(long long order, Py_ssize_t n, long long places, long long sizes,
                             long long ends) except -1

@cython.locals(most="long long", total="long long", order="long long", share=double,
               k=Py_ssize_t)
cpdef long long lay(list orders, Py_ssize_t n, long long places, long long sizes,
                    long long ends) except? -1

@cython.locals(total="long long", k=Py_ssize_t, block="long long", size="long long",
               first="long long", last="long long", place="long long", above="long long",
               end_of_taken="long long", word="long long")
cpdef long long fill_gaps(Py_ssize_t n, long long blocks, long long taken) except -1

@cython.locals(outs=list, row=tuple, size="long long", shape=tuple, most="long long")
cpdef tuple outs_of(list layouts, tuple results)

cdef class Tables:
    cdef object kept
    cdef public object model
    cdef Py_ssize_t n_all, n_names, size
    cdef public long long polys, spans, moves, wanted, scratch, memory, relative, terms, placed
    cdef public long long writes, decides, private
    cdef public Py_ssize_t n_polys, n_spans, n_moves, n_wanted, n_scratch, n_memory, n_relative
    cdef public Py_ssize_t n_terms, n_placed, n_writes, n_decides, n_private

    @cython.locals(k=Py_ssize_t, at="long long", number="long long")
    cpdef bint evaluate(self, long long row, Py_ssize_t n, list edges, long long terms) except -1
    @cython.locals(total="long long", k=Py_ssize_t)
    cpdef long long total(self, long long terms) except? -1
    @cython.locals(first="long long", at="long long", edge="long long", factor="long long",
                   move="long long", k=Py_ssize_t)
    cpdef derive(self, list edges, long long terms)
    @cython.locals(k=Py_ssize_t, size="long long", room="long long", at="long long",
                   inside="long long")
    cpdef long long measure(self, long long terms, long long places, long long sizes) except -1
    @cython.locals(n=Py_ssize_t, places="long long", sizes="long long", room="long long",
                   total="long long")
    cpdef tuple place(self, long long terms, list orders)
    @cython.locals(k=Py_ssize_t)
    cpdef bint decided(self, long long numbers, long long terms, long long places) except -1
    @cython.locals(k=Py_ssize_t, at="long long", row="long long")
    cpdef fill(self, long long memory, long long terms, long long places)

cdef class NativeBinder:
    cdef public tuple program
    cdef public Py_ssize_t n_atoms, n
    cdef Py_ssize_t n_code, n_nonempty, n_small, n_asked
    cdef long long code, at_nonempty, at_small, at_asked, at_gathered
    cdef public long long most, most_rows
    cdef public list ways, known
    cdef public object nonempty, small, asked, empty, word, gathered, frame_like
    cdef public tuple counts, results
    @cython.locals(n=Py_ssize_t, numbers="long long", at="long long", number="long long",
                   words="long long", k=Py_ssize_t, forms=dict, edges=list, packable=list,
                   cutters=list, tables=Tables, its_forms=dict, its_packable=list,
                   many="long long", size=Py_ssize_t)
    cpdef find(self, object types, list args, bint whole)
    @cython.locals(found=tuple, layouts=list, tables=Tables, at="long long", places=tuple,
                   memory="long long", asked=tuple)
    cpdef tuple bind(self, object plan, object types, list args, object key, object sizes)

cdef class Fit:
    cdef NativeBinder sizer
    cdef long long at_places
    cdef list limits, fixed
    cdef object skeleton, places, weights, weigh, fill
    @cython.locals(sizer=NativeBinder, found=tuple, at="long long", k=Py_ssize_t, most="long long",
                   number="long long")
    cpdef find(self, object types, list args)
