/* What Cython cannot express for the hot core: call slots, type flags, the running frame.
 * `_select.py` holds the Python stand-ins with the same names for the uncompiled core. */
#ifndef WEND_SHIM_H
#define WEND_SHIM_H
#include <Python.h>
#include <stddef.h>
#include <string.h>

/* For what is a few instructions, used in many places by what is called for each op. */
#if defined(__GNUC__)
#define WEND_INLINE static inline __attribute__((always_inline))
#else
#define WEND_INLINE static inline
#endif

typedef PyObject *(*wend_call_t)(PyObject *, size_t, Py_ssize_t, PyObject *);

static wend_call_t wend_op_target = NULL, wend_parts_target = NULL;

/* Vectorcall entries of the callables of the core: they forward to typed cdef functions. */
static PyObject *wend_vectorcall_op(PyObject *self, PyObject *const *args, size_t nargsf,
                                    PyObject *kwnames)
{
    return wend_op_target(self, (size_t)args, PyVectorcall_NARGS(nargsf),
                          kwnames ? kwnames : Py_None);
}

static PyObject *wend_vectorcall_parts(PyObject *self, PyObject *const *args, size_t nargsf,
                                       PyObject *kwnames)
{
    return wend_parts_target(self, (size_t)args, PyVectorcall_NARGS(nargsf),
                             kwnames ? kwnames : Py_None);
}

#define WEND_MAGIC ((size_t)0x57454e44u)

/* Where an object's own C field lies that holds WEND_MAGIC; -1 if there is none. */
static Py_ssize_t wend_find_magic(PyObject *probe)
{
    for (Py_ssize_t offset = sizeof(PyObject); offset < Py_TYPE(probe)->tp_basicsize;
         offset += sizeof(void *)) {
        if (*(size_t *)((char *)probe + offset) == WEND_MAGIC)
            return offset;
    }
    PyErr_SetString(PyExc_SystemError, "wend: field not found");
    return -1;
}

/* Give the type of `probe` call slots.  Its first own C field must hold WEND_MAGIC. */
static int wend_install_vectorcall(PyObject *probe, int method_descriptor)
{
    PyTypeObject *type = Py_TYPE(probe);
    Py_ssize_t offset = wend_find_magic(probe);
    if (offset < 0)
        return -1;
    type->tp_vectorcall_offset = offset;
    type->tp_call = PyVectorcall_Call;
    type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    if (method_descriptor)
        type->tp_flags |= Py_TPFLAGS_METHOD_DESCRIPTOR;
    PyType_Modified(type);
    return 0;
}

/* Tensors may have attributes of the user's, but few do: the dict is made when it is needed.
 * Modules have a dict that may outlive them (Cython's own would be emptied with its owner).
 * The C field holding it is a plain pointer to Cython, so that the slots below keep it alive. */
#define WEND_DICT(o) (*(PyObject **)((char *)(o) + Py_TYPE(o)->tp_dictoffset))

/* What an object has been given under a name, or None; no dict is made. */
static inline PyObject *wend_attribute(PyObject *o, PyObject *name)
{
    PyObject *dict = WEND_DICT(o);
    PyObject *found = dict == NULL ? NULL : PyDict_GetItemWithError(dict, name);
    if (found == NULL && PyErr_Occurred())
        return NULL;
    return Py_NewRef(found == NULL ? Py_None : found);
}

typedef struct {
    traverseproc traverse;
    inquiry clear;
    destructor dealloc;
} wend_slots_t;
static wend_slots_t wend_base_slots[2];

#define WEND_LAZY_DICT(k)                                                                \
    static int wend_traverse##k(PyObject *self, visitproc visit, void *arg)              \
    {                                                                                    \
        Py_VISIT(WEND_DICT(self));                                                       \
        return wend_base_slots[k].traverse ? wend_base_slots[k].traverse(self, visit, arg) \
                                           : 0;                                          \
    }                                                                                    \
    static int wend_clear##k(PyObject *self)                                             \
    {                                                                                    \
        Py_CLEAR(WEND_DICT(self));                                                       \
        return wend_base_slots[k].clear ? wend_base_slots[k].clear(self) : 0;            \
    }
WEND_LAZY_DICT(0)
WEND_LAZY_DICT(1)

/* The dict goes first when its owner goes; most owners have none. */
#define WEND_DROP_DICT(k)                                                                \
    static void wend_dealloc##k(PyObject *self)                                          \
    {                                                                                    \
        if (WEND_DICT(self) != NULL) {                                                   \
            PyObject_GC_UnTrack(self);                                                   \
            PyObject_ClearWeakRefs(self); /* nobody finds the owner any more */          \
            Py_CLEAR(WEND_DICT(self));                                                   \
            PyObject_GC_Track(self);                                                     \
        }                                                                                \
        wend_base_slots[k].dealloc(self);                                                \
    }
WEND_DROP_DICT(0)
WEND_DROP_DICT(1)

static PyGetSetDef wend_dict_getset = {"__dict__", PyObject_GenericGetDict,
                                       PyObject_GenericSetDict, NULL, NULL};

/* Give the type of `probe` (number k of two) a dict.  Its C field must hold WEND_MAGIC. */
static int wend_install_lazy_dict(PyObject *probe, int k)
{
    PyTypeObject *type = Py_TYPE(probe);
    Py_ssize_t offset = wend_find_magic(probe);
    if (offset < 0)
        return -1;
    *(size_t *)((char *)probe + offset) = 0; /* the collector may look at it from here on */
    type->tp_dictoffset = offset;
    wend_base_slots[k].traverse = type->tp_traverse;
    wend_base_slots[k].clear = type->tp_clear;
    wend_base_slots[k].dealloc = type->tp_dealloc;
    type->tp_dealloc = k ? wend_dealloc1 : wend_dealloc0;
    type->tp_traverse = k ? wend_traverse1 : wend_traverse0;
    type->tp_clear = k ? wend_clear1 : wend_clear0;
    PyObject *descr = PyDescr_NewGetSet(type, &wend_dict_getset);
    if (descr == NULL)
        return -1;
    int failed = PyDict_SetItemString(type->tp_dict, "__dict__", descr);
    Py_DECREF(descr);
    PyType_Modified(type);
    return failed;
}

/* Values and handles come and go by the million: their memory is kept and handed out again.
 * (Cython's own free lists cannot be asked for from a .pxd.) */
#define WEND_KEPT 32768
typedef struct {
    PyTypeObject *type;
    int tracked; /* whether the cyclic collector is told of these objects */
    int n;
    char *image; /* a new object, byte by byte, */
    Py_ssize_t nones; /* in which so many fields are None */
    PyObject *blocks[WEND_KEPT];
} wend_pool_t;
#define WEND_POOLS 6
static wend_pool_t wend_pools[WEND_POOLS];

/* The blocks of a large trace are more than the nearest caches hold: those that are needed soon are
 * fetched while others are filled in. */
static inline void wend_expect(wend_pool_t *pool)
{
#if defined(__GNUC__)
    if (pool->n > 3) {
        char *next = (char *)pool->blocks[pool->n - 4];
        for (Py_ssize_t at = -16; at < pool->type->tp_basicsize; at += 64)
            __builtin_prefetch(next + at, 1);
    }
#endif
}

static inline PyObject *wend_pool_alloc(wend_pool_t *pool, PyTypeObject *type, Py_ssize_t items)
{
    if (type == pool->type && pool->n > 0) {
        PyObject *o = pool->blocks[--pool->n];
        wend_expect(pool);
        memset((char *)o + sizeof(PyObject), 0, (size_t)type->tp_basicsize - sizeof(PyObject));
#if defined(Py_TRACE_REFS) || defined(Py_REF_DEBUG) || defined(Py_GIL_DISABLED)
        (void)PyObject_Init(o, type);
#else
        Py_SET_REFCNT(o, 1); /* its type, a static one, is still there */
#endif
        if (pool->tracked)
            PyObject_GC_Track(o);
        return o;
    }
    PyObject *o = PyType_GenericAlloc(type, items);
    if (o != NULL && type == pool->type && !pool->tracked && PyType_IS_GC(type))
        PyObject_GC_UnTrack(o);
    return o;
}

static inline void wend_pool_free(wend_pool_t *pool, void *memory)
{
    PyObject *o = (PyObject *)memory;
    PyTypeObject *type = Py_TYPE(o);
    if (type == pool->type && pool->n < WEND_KEPT) {
        pool->blocks[pool->n++] = o; /* the collector has been told at the start of tp_dealloc */
        return;
    }
    if (PyType_IS_GC(type))
        PyObject_GC_Del(o);
    else
        PyObject_Free(o);
}

/* A new object of a pool's type, without the way through `tp_new`; unless `watched`, the cyclic
 * collector is not told of it.  The size of its struct is given: a known number of moves fills it. */
WEND_INLINE PyObject *wend_pool_fresh(wend_pool_t *pool, int watched, size_t size)
{
#if !(defined(Py_TRACE_REFS) || defined(Py_REF_DEBUG) || defined(Py_GIL_DISABLED))
    if (pool->n > 3) { /* what is there has come after the image */
        Py_ssize_t n = --pool->n;
        PyObject *o = pool->blocks[n];
#if defined(__GNUC__)
        char *next = (char *)pool->blocks[n - 3];
        __builtin_prefetch(next - 16, 1);
        __builtin_prefetch(next + 48, 1);
        if (size > 112)
            __builtin_prefetch(next + 112, 1);
#endif
        memcpy((char *)o + sizeof(PyObject), pool->image, size - sizeof(PyObject));
        Py_SET_REFCNT(o, 1);
#if PY_VERSION_HEX < 0x030C0000 /* None is immortal since then */
        Py_SET_REFCNT(Py_None, Py_REFCNT(Py_None) + pool->nones);
#endif
        if (watched)
            PyObject_GC_Track(o);
        return o;
    }
#endif
    PyObject *nothing = PyTuple_New(0);
    if (nothing == NULL)
        return NULL;
    PyObject *o = pool->type->tp_new(pool->type, nothing, NULL);
    Py_DECREF(nothing);
    if (o != NULL && !watched && PyType_IS_GC(pool->type))
        PyObject_GC_UnTrack(o);
    return o;
}
/* Macros, as the structs are not known yet. */
#define WEND_FRESH(k, watched, T)                                                        \
    ((struct __pyx_obj_4wend_4core_4_hot_##T *)wend_pool_fresh(                          \
        &wend_pools[k], watched, sizeof(struct __pyx_obj_4wend_4core_4_hot_##T)))
#define WEND_FRESH_VALUE() WEND_FRESH(0, 0, Value)
#define WEND_FRESH_TENSOR() WEND_FRESH(1, 1, Tensor)
#define WEND_FRESH_ALIAS() WEND_FRESH(2, 1, Alias)
#define WEND_FRESH_TYPE() WEND_FRESH(4, 0, TensorType)
#define WEND_FRESH_RECORD() WEND_FRESH(5, 0, Record)

/* Note what a new object of a pool's type looks like. */
static int wend_take_image(wend_pool_t *pool, PyObject *probe)
{
    size_t size = (size_t)pool->type->tp_basicsize - sizeof(PyObject);
    pool->image = PyMem_Malloc(size);
    if (pool->image == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(pool->image, (char *)probe + sizeof(PyObject), size);
    pool->nones = 0;
    for (size_t at = 0; at + sizeof(void *) <= size; at += sizeof(void *))
        pool->nones += *(PyObject **)(pool->image + at) == Py_None;
    return 0;
}

#define WEND_POOL(k)                                                                     \
    static PyObject *wend_alloc##k(PyTypeObject *type, Py_ssize_t items)                 \
    {                                                                                    \
        return wend_pool_alloc(&wend_pools[k], type, items);                             \
    }                                                                                    \
    static void wend_free##k(void *memory) { wend_pool_free(&wend_pools[k], memory); }
WEND_POOL(0)
WEND_POOL(1)
WEND_POOL(2)
WEND_POOL(3)
WEND_POOL(4)
WEND_POOL(5)

/* Most fields of a value and of a record are None: these are counted, not let go of one by one.
 * (Macros, as the structs are not known yet; the functions are Cython's `end_value` and `end_record`.) */
typedef void (*wend_end_t)(PyObject *);
static wend_end_t wend_value_end = NULL, wend_record_end = NULL, wend_tensor_end = NULL,
                  wend_alias_end = NULL;

/* PyObject_GC_UnTrack, without a call. */
static inline void wend_forget(PyObject *o)
{
#if PY_VERSION_HEX < 0x030C0000
    uintptr_t *own = (uintptr_t *)o - 2; /* where the list goes on that it is in, and where it comes from */
    if (own[0] == 0)
        return; /* the collector has never been told of it */
    uintptr_t *next = (uintptr_t *)own[0], *before = (uintptr_t *)(own[1] & ~(uintptr_t)3);
    before[0] = (uintptr_t)next;
    next[1] = (next[1] & 3) | (uintptr_t)before;
    own[0] = 0;
    own[1] &= 1; /* whether it has been finalized */
#else
    PyObject_GC_UnTrack(o);
#endif
}

static void wend_dealloc_value(PyObject *self)
{
    wend_forget(self);
    wend_value_end(self);
    wend_pool_free(&wend_pools[0], self);
}

static void wend_dealloc_record(PyObject *self)
{
    wend_record_end(self); /* the collector does not know of records: see `wend_keep_memory` */
    wend_pool_free(&wend_pools[5], self);
}

/* A view of a view of a view ...: the last one's end must not recurse to the first. */
static void wend_dealloc_alias(PyObject *self)
{
    wend_forget(self);
    Py_TRASHCAN_BEGIN(self, wend_dealloc_alias);
    wend_alias_end(self);
    wend_pool_free(&wend_pools[2], self);
    Py_TRASHCAN_END;
}

/* Call `slots[name](x, number)` at the end of an object, which may come while an exception passes. */
static inline int wend_call_aside(PyObject *slots, PyObject *name, PyObject *x, long long number)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *f = PyDict_GetItemWithError(slots, name);
    PyObject *result = f == NULL ? NULL : PyObject_CallFunction(f, "OL", x, number);
    if (result == NULL)
        PyErr_WriteUnraisable(f);
    Py_XDECREF(result);
    PyErr_Restore(type, value, traceback);
    return 0;
}

/* The end of a tensor that has only what ops give it; the others take the long way. */
static void wend_dealloc_tensor(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (type != wend_pools[1].type || type->tp_finalize != NULL || WEND_DICT(self) != NULL ||
        *(PyObject **)((char *)self + type->tp_weaklistoffset) != NULL) {
        wend_dealloc0(self);
        return;
    }
    wend_forget(self);
    wend_tensor_end(self);
    wend_pool_free(&wend_pools[1], self);
}

#define WEND_LET_GO(field)                                                               \
    if ((PyObject *)(field) == Py_None)                                                  \
        nones++;                                                                         \
    else                                                                                 \
        Py_DECREF(field);
#if PY_VERSION_HEX < 0x030C0000 /* None is immortal since then */
#define WEND_LET_GO_NONES() Py_SET_REFCNT(Py_None, Py_REFCNT(Py_None) - nones)
#else
#define WEND_LET_GO_NONES() (void)nones
#endif
#define WEND_EMPTY_VALUE(v)                                                              \
    do {                                                                                 \
        Py_ssize_t nones = 0;                                                            \
        WEND_LET_GO((v)->type)                                                           \
        WEND_LET_GO((v)->leaf)                                                           \
        WEND_LET_GO((v)->buffer)                                                         \
        WEND_LET_GO((v)->trace)                                                          \
        WEND_LET_GO((v)->segment)                                                        \
        WEND_LET_GO((v)->error)                                                          \
        WEND_LET_GO((v)->extra)                                                          \
        WEND_LET_GO((v)->packed)                                                         \
        WEND_LET_GO_NONES();                                                             \
    } while (0)
#define WEND_EMPTY_RECORD(r)                                                             \
    do {                                                                                 \
        Py_ssize_t nones = 0;                                                            \
        WEND_LET_GO((r)->prim)                                                           \
        WEND_LET_GO((r)->mode)                                                           \
        WEND_LET_GO((r)->out_type)                                                       \
        WEND_LET_GO((r)->code)                                                           \
        WEND_LET_GO((r)->program)                                                        \
        WEND_LET_GO((r)->rest)                                                           \
        WEND_LET_GO((r)->outs)                                                           \
        WEND_LET_GO_NONES();                                                             \
    } while (0)
#define WEND_EMPTY_TENSOR(t)                                                             \
    do {                                                                                 \
        Py_ssize_t nones = 0;                                                            \
        WEND_LET_GO((t)->value)                                                          \
        WEND_LET_GO((t)->leaf)                                                           \
        WEND_LET_GO((t)->derived)                                                        \
        WEND_LET_GO((t)->_layout)                                                        \
        WEND_LET_GO((t)->_grad)                                                          \
        WEND_LET_GO_NONES();                                                             \
    } while (0)
#define WEND_EMPTY_ALIAS(a)                                                              \
    do {                                                                                 \
        Py_ssize_t nones = 0;                                                            \
        WEND_LET_GO((a)->prim)                                                           \
        WEND_LET_GO((a)->args)                                                           \
        WEND_LET_GO((a)->storage)                                                        \
        WEND_LET_GO((a)->layout)                                                         \
        WEND_LET_GO((a)->writes)                                                         \
        WEND_LET_GO((a)->leaf)                                                           \
        WEND_LET_GO((a)->outer)                                                          \
        WEND_LET_GO((a)->base)                                                           \
        WEND_LET_GO_NONES();                                                             \
    } while (0)

/* Fields of new objects, which are None: those are counted too. */
#if PY_VERSION_HEX < 0x030C0000
#define WEND_NO_LONGER_NONE(n) Py_SET_REFCNT(Py_None, Py_REFCNT(Py_None) - (n))
#else
#define WEND_NO_LONGER_NONE(n) (void)(n)
#endif
#define WEND_FILL(field, o) *(PyObject **)&(field) = Py_NewRef((PyObject *)(o))
/* What a new record says of an op, as it was called last; and of its only result, the last value
 * pending, of this type, with a handle on it. */
#define WEND_FILL_RECORD(r, trace, p)                                                    \
    do {                                                                                 \
        WEND_FILL((r)->prim, p);                                                         \
        WEND_FILL((r)->mode, (trace)->mode);                                             \
        WEND_FILL((r)->program, (p)->last_program);                                      \
        WEND_NO_LONGER_NONE(3);                                                          \
    } while (0)
#define WEND_FILL_RESULT(r, h, v, t, what)                                               \
    do {                                                                                 \
        WEND_FILL((r)->out_type, what);                                                  \
        (r)->n_out = 1;                                                                  \
        WEND_FILL((h)->value, v);                                                        \
        WEND_FILL((v)->type, what);                                                      \
        WEND_FILL((v)->trace, t);                                                        \
        (v)->serial = (t)->serial;                                                       \
        (v)->index = (t)->n;                                                             \
        WEND_NO_LONGER_NONE(4);                                                          \
    } while (0)
/* Whether a handle's own value is its operand, and is pending: it may be a view that is up to date. */
#define WEND_IS_READY(handle, number)                                                    \
    ((handle)->leaf == (handle)->value->leaf && (handle)->value->serial == (number) &&   \
     ((PyObject *)(handle)->derived == Py_None ||                                        \
      ((PyObject *)(handle)->derived->base != Py_None &&                                 \
       (PyObject *)(handle)->derived->base->derived == Py_None &&                        \
       (handle)->derived->version == (handle)->derived->base->version)))
/* Whether the line that runs is one of `last`, or one of `inner`, which is no user's: a new record then
 * says it, or that of the user's which leads there. */
#define WEND_SAY_LINE(r, what, where)                                                    \
    (WEND_FILL((r)->code, what), (r)->lasti = (where), WEND_NO_LONGER_NONE(1))
#define WEND_SAME_LINE(r, t, last, inner, thread)                                        \
    ((wend_line = wend_code_of(thread)) == Py_None                                       \
         ? 0                                                                             \
         : wend_line == (last)                                                           \
               ? (WEND_SAY_LINE(r, last, wend_lasti), 1)                                 \
               : wend_line == (inner) && (t)->site_code != Py_None                       \
                     ? (WEND_SAY_LINE(r, (t)->site_code, (t)->site_lasti), (r)->within = 1, 1) \
                     : 0)
/* A step and its only result become the last ones pending, and no longer the caller's. */
#define WEND_TAKE_STEP(t, r, v)                                                          \
    (wend_push_own((t)->states, (PyObject *)(r)) < 0 ||                                  \
             ((r) = NULL, wend_push_own((t)->values, (PyObject *)(v)) < 0)               \
         ? -1                                                                            \
         : ((v) = NULL, (t)->n++, (t)->ops++, 0))
/* The parts that an op has cut: a new handle on a new value becomes part k; all of them become the last
 * values pending; they share the note that the first one has of how it derives from others. */
#define WEND_PART(parts, k) ((struct __pyx_obj_4wend_4core_4_hot_Tensor *)PyTuple_GET_ITEM(parts, k))
#define WEND_PUT_PART(parts, k, h, v, types)                                             \
    do {                                                                                 \
        WEND_FILL((v)->type, PyTuple_GET_ITEM(types, k));                                \
        *(PyObject **)&(h)->value = (PyObject *)(v);                                     \
        PyTuple_SET_ITEM(parts, k, (PyObject *)(h));                                     \
        WEND_NO_LONGER_NONE(2);                                                          \
        (h) = NULL;                                                                      \
        (v) = NULL;                                                                      \
    } while (0)
#define WEND_TAKE_PARTS(t, parts, flows)                                                 \
    do {                                                                                 \
        Py_ssize_t n = PyTuple_GET_SIZE(parts);                                          \
        for (Py_ssize_t k = 0; k < n; k++) {                                             \
            struct __pyx_obj_4wend_4core_4_hot_Value *v = WEND_PART(parts, k)->value;    \
            WEND_FILL(v->trace, t);                                                      \
            v->serial = (t)->serial;                                                     \
            v->index = (t)->n++;                                                         \
            v->requires_grad = (flows);                                                  \
            v->inference = (t)->mode->inference;                                         \
            (t)->nbytes += v->type->nbytes;                                              \
            (void)wend_push((t)->values, (PyObject *)v);                                 \
        }                                                                                \
        WEND_NO_LONGER_NONE(n);                                                          \
    } while (0)
#define WEND_SHARE_ALIAS(parts, first)                                                   \
    do {                                                                                 \
        Py_ssize_t n = PyTuple_GET_SIZE(parts);                                          \
        for (Py_ssize_t k = 1; k < n; k++) {                                             \
            struct __pyx_obj_4wend_4core_4_hot_Tensor *h = WEND_PART(parts, k);          \
            WEND_FILL(h->derived, (first)->derived);                                     \
            h->value->inference = (first)->value->inference;                             \
            h->part = (int)k + 1;                                                        \
        }                                                                                \
        WEND_NO_LONGER_NONE(n - 1);                                                      \
    } while (0)
/* States refer to each other in circles, which `dismantle` cuts: the collector would walk the whole
 * trie.  (A `cython.no_gc` in a .pxd has no effect.) */
static int wend_keep_memory(PyObject *value, PyObject *tensor, PyObject *alias, PyObject *state,
                            PyObject *type_, PyObject *record)
{
    static const allocfunc allocs[WEND_POOLS] = {wend_alloc0, wend_alloc1, wend_alloc2,
                                                 wend_alloc3, wend_alloc4, wend_alloc5};
    static const freefunc frees[WEND_POOLS] = {wend_free0, wend_free1, wend_free2, wend_free3,
                                               wend_free4, wend_free5};
    PyObject *probes[WEND_POOLS] = {value, tensor, alias, state, type_, record};
    for (int k = 0; k < WEND_POOLS; k++) {
        PyTypeObject *type = Py_TYPE(probes[k]);
        if (k == 5) { /* the collector is not told of records, nor has each room for its notes */
            PyObject_GC_UnTrack(Py_NewRef(record)); /* the one that has stays */
            type->tp_flags &= ~Py_TPFLAGS_HAVE_GC;
        }
        wend_pools[k].type = type;
        wend_pools[k].tracked = PyType_IS_GC(type) && k < 3;
        wend_pools[k].n = 0;
        type->tp_alloc = allocs[k];
        type->tp_free = frees[k];
        if (k != 3 && wend_take_image(&wend_pools[k], probes[k]) < 0)
            return -1;
    }
    /* as many as the macros name */
    if (wend_pools[0].nones != 8 || wend_pools[1].nones != 5 || wend_pools[2].nones != 8 ||
        wend_pools[5].nones != 7) {
        PyErr_SetString(PyExc_SystemError,
                        "wend: fields of values, tensors, aliases or records not known");
        return -1;
    }
    Py_TYPE(value)->tp_dealloc = wend_dealloc_value;
    Py_TYPE(tensor)->tp_dealloc = wend_dealloc_tensor;
    Py_TYPE(alias)->tp_dealloc = wend_dealloc_alias;
    Py_TYPE(record)->tp_dealloc = wend_dealloc_record;
    return 0;
}

static inline size_t wend_op_address(void) { return (size_t)&wend_vectorcall_op; }
static inline size_t wend_parts_address(void) { return (size_t)&wend_vectorcall_parts; }

/* Let two tensors exchange their classes, which Python refuses where these are freed in unlike ways:
 * each block is as large, and has come from the same place, as those of the other class. */
static inline int wend_swap_classes(PyObject *a, PyObject *b)
{
    PyTypeObject *first = Py_TYPE(a), *second = Py_TYPE(b);
    if (first->tp_basicsize != second->tp_basicsize ||
        first->tp_dictoffset != second->tp_dictoffset ||
        first->tp_weaklistoffset != second->tp_weaklistoffset) {
        PyErr_SetString(PyExc_TypeError, "the instances of the two classes have unlike layouts");
        return -1;
    }
    Py_SET_TYPE(a, second);
    Py_SET_TYPE(b, first);
    return 0;
}

/* Let Python code add public methods to an extension type, as it can to a Python class. */
static inline int wend_unlock_type(PyObject *type)
{
    ((PyTypeObject *)type)->tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;
    PyType_Modified((PyTypeObject *)type);
    return 0;
}

static inline PyObject *wend_arg(size_t args, Py_ssize_t i)
{
    PyObject *value = ((PyObject **)args)[i];
    Py_INCREF(value);
    return value;
}

static int wend_lasti = 0;

/* Code object of the running Python frame; its instruction offset goes to wend_lasti. */
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000 && !defined(WEND_PUBLIC_FRAMES)
/* What 3.11 keeps of a running function, up to what is read here.  The public functions below
 * would make a frame object for each call of a user's function. */
typedef struct wend_frame {
    PyFunctionObject *function;
    PyObject *globals, *builtins, *locals;
    PyCodeObject *code;
    PyFrameObject *frame_object;
    struct wend_frame *previous;
    _Py_CODEUNIT *last;
    int stacktop;
    char is_entry, owner;
} wend_frame_t;

static inline PyObject *wend_code_of(size_t thread) /* borrowed */
{
    wend_frame_t *frame = (wend_frame_t *)((PyThreadState *)thread)->cframe->current_frame;
    while (frame != NULL) {
        _Py_CODEUNIT *first = (_Py_CODEUNIT *)frame->code->co_code_adaptive;
        if (frame->owner == 1 || frame->last >= first + frame->code->_co_firsttraceable) {
            wend_lasti = (int)((frame->last - first) * sizeof(_Py_CODEUNIT));
            return (PyObject *)frame->code;
        }
        frame = frame->previous; /* not begun yet, unless it is a generator's (1) */
    }
    wend_lasti = 0;
    return Py_None;
}

static inline PyObject *wend_current_code(void)
{
    return Py_NewRef(wend_code_of((size_t)PyThreadState_Get()));
}
#else
static inline PyObject *wend_current_code(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    if (frame == NULL) {
        wend_lasti = 0;
        Py_RETURN_NONE;
    }
    wend_lasti = PyFrame_GetLasti(frame);
    return (PyObject *)PyFrame_GetCode(frame);
}

static inline PyObject *wend_code_of(size_t thread) /* borrowed: its frame keeps it */
{
    (void)thread; /* the one that runs */
    PyObject *code = wend_current_code();
    Py_DECREF(code);
    return code;
}
#endif

static inline int wend_current_lasti(void) { return wend_lasti; }
static PyObject *wend_line; /* borrowed: the code object that was found last */

/* The thread that runs, and what it is known by: other threads may get its address after its end. */
static inline size_t wend_this_thread(void) { return (size_t)PyThreadState_Get(); }

static inline long long wend_id_of(size_t thread)
{
    return (long long)((PyThreadState *)thread)->id;
}

static inline long long wend_thread_id(void) { return wend_id_of(wend_this_thread()); }

/* Interned types, and their hashes side by side: to look for a type is to read one cache line. The
 * table does not own them: one that dies leaves it, and its memory is that of the next. */
#define WEND_MOST_TYPES (1 << 14)
static unsigned int wend_type_tags[WEND_MOST_TYPES];
static PyObject *wend_types[WEND_MOST_TYPES];

static Py_ssize_t wend_type_slot; /* where in a type its slot is noted */
static destructor wend_end_type;

static inline long long wend_type_tag(size_t i) { return wend_type_tags[i]; }

/* The type in slot i, or None. */
static inline PyObject *wend_type_at(size_t i)
{
    return Py_NewRef(wend_types[i] != NULL ? wend_types[i] : Py_None);
}

/* Put a type into slot i, which it is told. */
static inline int wend_put_type(size_t i, long long tag, PyObject *type_)
{
    wend_types[i] = type_;
    wend_type_tags[i] = (unsigned int)tag;
    *(size_t *)((char *)type_ + wend_type_slot) = i;
    return 0;
}

static int wend_forget_types(void)
{
    memset(wend_types, 0, sizeof wend_types);
    memset(wend_type_tags, 0, sizeof wend_type_tags);
    return 0;
}

static Py_ssize_t wend_count_types(void)
{
    Py_ssize_t n = 0;
    for (size_t i = 0; i < WEND_MOST_TYPES; i++)
        n += wend_types[i] != NULL;
    return n;
}

static void wend_dealloc_type(PyObject *self)
{
    size_t i = *(size_t *)((char *)self + wend_type_slot);
    if (wend_types[i] == self) { /* slot 0 is also that of types that were never put anywhere */
        wend_types[i] = NULL;
        wend_type_tags[i] = 0;
    }
    wend_end_type(self);
}

/* Have types leave the table when they die. `probe` is the type whose slot holds WEND_MAGIC. */
static int wend_watch_types(PyObject *probe)
{
    wend_type_slot = wend_find_magic(probe);
    if (wend_type_slot < 0)
        return -1;
    *(size_t *)((char *)probe + wend_type_slot) = 0;
    wend_end_type = Py_TYPE(probe)->tp_dealloc;
    Py_TYPE(probe)->tp_dealloc = wend_dealloc_type;
    return 0;
}

static inline size_t wend_address(PyObject *o) { return (size_t)o; }

static inline PyObject *wend_slice_start(PyObject *key)
{
    return Py_NewRef(((PySliceObject *)key)->start);
}

static inline PyObject *wend_slice_stop(PyObject *key)
{
    return Py_NewRef(((PySliceObject *)key)->stop);
}

static inline PyObject *wend_slice_step(PyObject *key)
{
    return Py_NewRef(((PySliceObject *)key)->step);
}

static inline Py_ssize_t wend_refcount(PyObject *o) { return Py_REFCNT(o); }

/* Whether an array holds integers from 0 to n - 1 only, each of 4 or 8 bytes, one behind the other. */
static int wend_all_below(PyObject *array, long long n)
{
    Py_buffer memory;
    int found = 0;

    if (!PyObject_CheckBuffer(array) ||
        PyObject_GetBuffer(array, &memory, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
        PyErr_Clear();
        return 0;
    }
    if (memory.format != NULL && memory.format[0] != 0 && memory.format[1] == 0 &&
        strchr("ilq", memory.format[0]) != NULL && n > 0 &&
        (size_t)memory.buf % (size_t)memory.itemsize == 0) {
        const unsigned long long limit = (unsigned long long)n; /* what is negative is large */
        int beyond = 0;

        if (memory.itemsize == 8) {
            const long long *x = memory.buf;
            for (Py_ssize_t i = memory.len / 8; i-- > 0;)
                beyond |= (unsigned long long)x[i] >= limit;
            found = !beyond;
        } else if (memory.itemsize == 4) {
            const int *x = memory.buf;
            for (Py_ssize_t i = memory.len / 4; i-- > 0;)
                beyond |= (unsigned long long)x[i] >= limit;
            found = !beyond;
        }
    }
    PyBuffer_Release(&memory);
    return found;
}

/* The same of item i of a list, without one of one's own. */
static inline Py_ssize_t wend_count_of_item(PyObject *items, Py_ssize_t i)
{
    return Py_REFCNT(PyList_GET_ITEM(items, i));
}

/* Operands that enter, and states on a path not gone lately, are in no near cache. What will be needed
 * is asked for as soon as it is known where it lies: its parts then come at the same time. (Macros, as
 * no reference is to be taken, and the fields are not known yet.) */
static inline int wend_ask(const void *o, int lines)
{
#if defined(__GNUC__)
    for (int k = 0; k < lines; k++)
        __builtin_prefetch((const char *)o + 64 * k, 1);
#endif
    return 0;
}
/* What a walk over a long list comes to some items after item i. */
#define WEND_AHEAD 12
static inline int wend_ask_ahead(PyObject *items, Py_ssize_t i)
{
    i += WEND_AHEAD;
    return i < PyList_GET_SIZE(items) ? wend_ask(PyList_GET_ITEM(items, i), 2) : 0;
}
/* The last item of a list, which it is no longer; the room for it stays. */
static inline PyObject *wend_take_last(PyObject *items)
{
    Py_ssize_t i = PyList_GET_SIZE(items) - 1;
    if (i >= WEND_AHEAD)
        wend_ask(PyList_GET_ITEM(items, i - WEND_AHEAD), 2);
    Py_SET_SIZE(items, i);
    return PyList_GET_ITEM(items, i);
}
#define WEND_STATE(s) ((struct __pyx_obj_4wend_4core_4_hot_State *)(s))
#define WEND_ASK_VALUE(handle) wend_ask((handle)->value, 2)
#define WEND_ASK_TYPE(handle) wend_ask((handle)->value->type, 2)
#define WEND_ASK_NEXT(state) wend_ask(WEND_STATE(state)->child, 3)
#define WEND_ASK_TYPES(state)                                                            \
    (wend_ask(WEND_STATE(state)->t0, 1), wend_ask(WEND_STATE(state)->__pyx_base.out_type, 1))

/* Keep an object from the cyclic collector: it is part of no cycle that lasts. */
static inline int wend_untrack(PyObject *o)
{
    PyObject_GC_UnTrack(o);
    return 0;
}

/* Tell the cyclic collector of an object that it was kept from. */
static inline int wend_track(PyObject *o)
{
    if (!PyObject_GC_IsTracked(o))
        PyObject_GC_Track(o);
    return 0;
}

/* An empty list with room for n items. `wend_push` appends to it, and doubles the room where there is
 * none: lists that grow by an eighth are moved again and again. The cyclic collector is not told of it:
 * it would look at each item twice, all of what is pending, and what it is told of leads to no cycle. */
static inline PyObject *wend_roomy(Py_ssize_t n)
{
    PyObject *items = PyList_New(0);
    if (items == NULL)
        return NULL;
    PyListObject *list = (PyListObject *)items;
    list->ob_item = PyMem_Malloc((size_t)n * sizeof(PyObject *));
    if (list->ob_item == NULL) {
        Py_DECREF(items);
        return PyErr_NoMemory();
    }
    list->allocated = n;
    PyObject_GC_UnTrack(items);
    return items;
}

/* `wend_push` of what is the caller's until then. */
WEND_INLINE int wend_push_own(PyObject *items, PyObject *item)
{
    PyListObject *list = (PyListObject *)items;
    Py_ssize_t n = Py_SIZE(list);
    if (n >= list->allocated) {
        size_t room = 2 * (size_t)n + 8;
        void *moved = PyMem_Realloc(list->ob_item, room * sizeof(PyObject *));
        if (moved == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        list->ob_item = (PyObject **)moved;
        list->allocated = (Py_ssize_t)room;
    }
    list->ob_item[n] = item;
    Py_SET_SIZE(list, n + 1);
    return 0;
}

WEND_INLINE int wend_push(PyObject *items, PyObject *item)
{
    int failed = wend_push_own(items, Py_NewRef(item));
    if (failed)
        Py_DECREF(item);
    return failed;
}

static inline PyObject *wend_part_at(PyObject *parts, Py_ssize_t k)
{
    return Py_NewRef(PyTuple_GET_ITEM(parts, k));
}

static inline PyObject *wend_handle_at(PyObject *items, Py_ssize_t i)
{
    return Py_NewRef(PyList_GET_ITEM(items, i));
}

/* The counterpart of `wend_push`: the room stays. */
static inline int wend_drop_last(PyObject *items)
{
    Py_ssize_t n = PyList_GET_SIZE(items) - 1;
    if (n < 0) {
        PyErr_SetString(PyExc_IndexError, "wend: nothing to drop");
        return -1;
    }
    PyObject *item = PyList_GET_ITEM(items, n);
    Py_SET_SIZE(items, n);
    Py_DECREF(item);
    return 0;
}

/* What a dict holds under a name, borrowed; NULL if there is nothing, or with an error.  Each state of
 * each dict has a number of its own: what was found in it is known until it changes. */
#if PY_VERSION_HEX < 0x030C0000
#define WEND_MEMBERS 512
static struct {
    uint64_t version;
    PyObject *name, *found;
    unsigned int type; /* version of the type that leaves the name to the dict; 0: not asked */
} wend_members[WEND_MEMBERS];

static inline PyObject *wend_member(PyObject *attributes, PyObject *name)
{
    uint64_t version = ((PyDictObject *)attributes)->ma_version_tag;
    size_t k = (((size_t)name >> 4) ^ (size_t)version) & (WEND_MEMBERS - 1);
    if (wend_members[k].version == version && wend_members[k].name == name)
        return wend_members[k].found;
    PyObject *found = PyDict_GetItemWithError(attributes, name);
    if ((found == NULL && PyErr_Occurred()) ||
        ((PyDictObject *)attributes)->ma_version_tag != version)
        return found;
    PyObject *before = wend_members[k].name;
    wend_members[k].version = version;
    wend_members[k].name = Py_NewRef(name); /* no other name comes to lie there */
    wend_members[k].found = found;
    wend_members[k].type = 0;
    Py_XDECREF(before);
    return found;
}

/* What was found in the dict of an instance of a type by `wend_member`, and noted below; or NULL. */
static inline PyObject *wend_own_member(PyTypeObject *type, PyObject *attributes, PyObject *name)
{
    uint64_t version = ((PyDictObject *)attributes)->ma_version_tag;
    size_t k = (((size_t)name >> 4) ^ (size_t)version) & (WEND_MEMBERS - 1);
    return wend_members[k].version == version && wend_members[k].name == name &&
                   wend_members[k].type != 0 && wend_members[k].type == type->tp_version_tag &&
                   PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)
               ? wend_members[k].found
               : NULL;
}

/* Note that a type leaves this name to the dicts of its instances. */
static inline void wend_note_own(PyTypeObject *type, PyObject *attributes, PyObject *name)
{
    uint64_t version = ((PyDictObject *)attributes)->ma_version_tag;
    size_t k = (((size_t)name >> 4) ^ (size_t)version) & (WEND_MEMBERS - 1);
    if (wend_members[k].version == version && wend_members[k].name == name &&
        PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG))
        wend_members[k].type = type->tp_version_tag;
}
#else
#define wend_member PyDict_GetItemWithError
#define wend_own_member(type, attributes, name) NULL
#define wend_note_own(type, attributes, name) (void)(type)
#endif

/* Whether a dict has all items of another one, the very same objects. */
static int wend_mirrors(PyObject *attributes, PyObject *members)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(members, &at, &name, &value)) {
        PyObject *found = PyDict_GetItemWithError(attributes, name);
        if (found == NULL && PyErr_Occurred())
            return -1;
        if (found != value)
            return 0;
    }
    return 1;
}

/* Attributes of a module that has a `__getattr__` of its own: Python would ask its type and its dict
 * each time. */
static PyObject *wend_public_getattr(PyObject *self, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject *attributes = WEND_DICT(self);
    PyObject *found = attributes == NULL ? NULL : wend_own_member(type, attributes, name);
    if (found != NULL)
        return Py_NewRef(found);
    if (attributes != NULL && _PyType_Lookup(type, name) == NULL) {
        found = wend_member(attributes, name);
        if (found != NULL) {
            wend_note_own(type, attributes, name);
            return Py_NewRef(found);
        }
        if (PyErr_Occurred())
            return NULL;
    }
    return PyModule_Type.tp_getattro(self, name);
}

/* Let a class of Python modules take that way. */
static int wend_quick_module(PyObject *cls)
{
    ((PyTypeObject *)cls)->tp_getattro = wend_public_getattr;
    return 0;
}

/* module.forward(*args, **kwargs).  Where `forward` is a plain function of the class, as it nearly
 * always is, no method object is made, and Module.__getattr__ does not slow the look-up down. */
static inline PyObject *wend_call_forward(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static PyObject *name = NULL, *getter_name = NULL, *getter = NULL;
    if (name == NULL) {
        getter_name = PyUnicode_InternFromString("__getattribute__");
        name = PyUnicode_InternFromString("forward");
        getter = _PyType_Lookup(&PyBaseObject_Type, getter_name); /* borrowed: it stays */
        if (name == NULL || getter == NULL)
            return NULL;
    }
    PyObject *keywords = kwargs == Py_None ? NULL : kwargs;
    PyTypeObject *type = Py_TYPE(module);
    PyObject *function = _PyType_Lookup(type, name);
    PyObject *attributes = type->tp_dictoffset > 0 ? WEND_DICT(module) : NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (function != NULL && PyFunction_Check(function) && n < 8 &&
        (attributes == NULL || wend_member(attributes, name) == NULL) &&
        !PyErr_Occurred() && _PyType_Lookup(type, getter_name) == getter) {
        PyObject *row[10]; /* the first is room that the callee may use */
        row[1] = module;
        for (Py_ssize_t i = 0; i < n; i++)
            row[i + 2] = PyTuple_GET_ITEM(args, i);
        Py_INCREF(function);
        PyObject *result = PyObject_VectorcallDict(
            function, row + 1, (size_t)(n + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, keywords);
        Py_DECREF(function);
        return result;
    }
    if (PyErr_Occurred())
        return NULL;
    function = PyObject_GetAttr(module, name);
    if (function == NULL)
        return NULL;
    PyObject *result = PyObject_Call(function, args, keywords);
    Py_DECREF(function);
    return result;
}

/* Members of modules lie in their dicts.  Python's way there leads past `__getattribute__` and
 * `__getattr__` each time; it is left to what is not found at once. */
static getattrofunc wend_slow_getattr = NULL;

static PyObject *wend_module_getattr(PyObject *self, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject *attributes = WEND_DICT(self);
    PyObject *found = attributes == NULL ? NULL : wend_own_member(type, attributes, name);
    if (found != NULL)
        return Py_NewRef(found);
    PyObject *of_type = _PyType_Lookup(type, name); /* borrowed, as is `found` */
    if (of_type == NULL || PyFunction_Check(of_type)) {
        if (attributes != NULL) /* comparing names runs no code: the type keeps its function */
            found = wend_member(attributes, name);
        if (found != NULL) {
            wend_note_own(type, attributes, name);
            return Py_NewRef(found);
        }
        if (PyErr_Occurred())
            return NULL;
        if (of_type != NULL)
            return PyMethod_New(of_type, self);
    }
    return wend_slow_getattr(self, name);
}

/* Let a class of modules take that way, if its attributes are got as those of `Module` are. */
static int wend_quick_members(PyObject *cls)
{
    static PyObject *name = NULL;
    if (name == NULL && (name = PyUnicode_InternFromString("__getattribute__")) == NULL)
        return -1;
    PyTypeObject *type = (PyTypeObject *)cls;
    if (_PyType_Lookup(type, name) != _PyType_Lookup(&PyBaseObject_Type, name) ||
        type->tp_dictoffset <= 0)
        return 0;
    if (wend_slow_getattr == NULL && type->tp_getattro != PyObject_GenericGetAttr)
        wend_slow_getattr = type->tp_getattro; /* the first such class has a `__getattr__` */
    if (type->tp_getattro == wend_slow_getattr && wend_slow_getattr != NULL)
        type->tp_getattro = wend_module_getattr; /* until Python finds another `__getattr__` */
    return 0;
}

static ternaryfunc wend_module_target = NULL;

static PyObject *wend_module_slot(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return wend_module_target(self, args, kwargs ? kwargs : Py_None);
}

/* Let `cls(...)` of an instance go to `call_module` without a dict for keywords that are not there. */
static int wend_install_module_call(PyObject *cls)
{
    PyTypeObject *type = (PyTypeObject *)cls;
    PyObject *wrapper = PyDict_GetItemString(type->tp_dict, "__call__");
    if (wrapper == NULL || !Py_IS_TYPE(wrapper, &PyWrapperDescr_Type)) {
        PyErr_SetString(PyExc_SystemError, "wend: call slot of modules not found");
        return -1;
    }
    ((PyWrapperDescrObject *)wrapper)->d_wrapped = (void *)wend_module_slot; /* for subclasses */
    type->tp_call = wend_module_slot;
    PyType_Modified(type);
    return 0;
}

static inline PyObject *wend_call1(PyObject *f, PyObject *x)
{
    PyObject *args[1] = {x};
    return wend_op_target(f, (size_t)args, 1, Py_None);
}

static inline PyObject *wend_call2(PyObject *f, PyObject *x, PyObject *y)
{
    PyObject *args[2] = {x, y};
    return wend_op_target(f, (size_t)args, 2, Py_None);
}

#define WEND_COMPILED 1
#define WEND_SET_CALL_TARGET()                                                           \
    ((wend_op_target = (wend_call_t)wend_call_op),                                       \
     (wend_parts_target = (wend_call_t)wend_call_parts),                                 \
     (wend_module_target = (ternaryfunc)wend_call_module),                               \
     (wend_value_end = (wend_end_t)wend_end_value),                                      \
     (wend_record_end = (wend_end_t)wend_end_record),                                    \
     (wend_tensor_end = (wend_end_t)wend_end_tensor),                                    \
     (wend_alias_end = (wend_end_t)wend_end_alias), 0)
#endif
