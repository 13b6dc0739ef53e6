/* Beginnings and ends of values, tensors, aliases and records.
 * Valid for CPython 3.11 and later.  Fields that are None are counted up to 3.11; from 3.12 on None
 * is immortal, and the counting falls away.  The lists of the cyclic collector are written directly
 * up to 3.11 (`wend_forget`); later versions call PyObject_GC_UnTrack. */
#ifndef WEND_OBJECTS_H
#define WEND_OBJECTS_H
#include "dicts.h"
#include "frames.h"
#include "lists.h"
#include "pools.h"

enum { WEND_VALUES, WEND_TENSORS, WEND_ALIASES, WEND_STATES, WEND_RECORDS, WEND_POOLS };
static wend_pool_t wend_pools[WEND_POOLS];
WEND_POOL(wend_pools, 0)
WEND_POOL(wend_pools, 1)
WEND_POOL(wend_pools, 2)
WEND_POOL(wend_pools, 3)
WEND_POOL(wend_pools, 4)

/* Macros, as the structs are not known yet. */
#define WEND_FRESH(k, watched, T)                                                        \
    ((struct __pyx_obj_4wend_7_engine_4core_4_hot_##T *)wend_pool_fresh(                          \
        &wend_pools[k], watched, sizeof(struct __pyx_obj_4wend_7_engine_4core_4_hot_##T),         \
        (k) == WEND_TENSORS ? 0 : 3))
#define WEND_FRESH_VALUE() WEND_FRESH(WEND_VALUES, 0, Value)
#define WEND_WATCHED_VALUE() WEND_FRESH(WEND_VALUES, 1, Value)
#define WEND_FRESH_TENSOR() WEND_FRESH(WEND_TENSORS, 1, Tensor)
#define WEND_FRESH_ALIAS() WEND_FRESH(WEND_ALIASES, 1, Alias)
#define WEND_FRESH_RECORD() WEND_FRESH(WEND_RECORDS, 0, Record)

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
    wend_pool_free(&wend_pools[WEND_VALUES], self);
}

static void wend_dealloc_record(PyObject *self)
{
    wend_record_end(self); /* the collector does not know of records: see `wend_keep_memory` */
    wend_pool_free(&wend_pools[WEND_RECORDS], self);
}

/* A view of a view of a view ...: the last one's end must not recurse to the first. */
static void wend_dealloc_alias(PyObject *self)
{
    wend_forget(self);
    Py_TRASHCAN_BEGIN(self, wend_dealloc_alias);
    wend_alias_end(self);
    wend_pool_free(&wend_pools[WEND_ALIASES], self);
    Py_TRASHCAN_END;
}

/* Call `f(x, number)` at the end of an object, which may come while an exception passes. */
static inline int wend_call_aside(PyObject *f, PyObject *x, long long number)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *result = PyObject_CallFunction(f, "OL", x, number);
    if (result == NULL)
        PyErr_WriteUnraisable(f);
    Py_XDECREF(result);
    PyErr_Restore(type, value, traceback);
    return 0;
}

/* Whether a Python int is one of 64 bits with a sign. */
static inline int wend_is_int64(PyObject *number)
{
    int beyond = 0;
    PyLong_AsLongLongAndOverflow(number, &beyond);
    return beyond == 0;
}

/* The end of a tensor that has only what ops give it; the others take the long way. */
static void wend_dealloc_tensor(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (type != wend_pools[WEND_TENSORS].type || type->tp_finalize != NULL || WEND_DICT(self) != NULL ||
        *(PyObject **)((char *)self + type->tp_weaklistoffset) != NULL) {
        wend_dealloc0(self);
        return;
    }
    wend_forget(self);
    wend_tensor_end(self);
    wend_pool_free(&wend_pools[WEND_TENSORS], self);
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
/* The first operands of a new record, and where its results and its run-time args begin. */
#define WEND_FILL_OPERANDS(r, t, count, a, b, c, flows)                                  \
    do {                                                                                 \
        (r)->n_in = (int)(count);                                                        \
        (r)->i0 = (int)(a)->value->index;                                                \
        (r)->i1 = (count) > 1 ? (int)(b)->value->index : -1;                             \
        (r)->i2 = (count) > 2 ? (int)(c)->value->index : -1;                             \
        (r)->first = (int)(t)->n;                                                        \
        (r)->arg0 = (int)PyList_GET_SIZE((t)->args);                                     \
        (r)->requires_grad = (flows);                                                    \
    } while (0)
/* Whether any of an op's first operands has a field that is true. */
#define WEND_ANY(field, count, a, b, c)                                                  \
    ((a)->value->field || ((count) > 1 && (b)->value->field) ||                          \
     ((count) > 2 && (c)->value->field))
#define WEND_ANY_GRAD(count, a, b, c) WEND_ANY(requires_grad, count, a, b, c)
#define WEND_ANY_INFERENCE(count, a, b, c) WEND_ANY(inference, count, a, b, c)
/* Whether the elements of a handle, or of its base, do not lie in row-major order. */
#define WEND_LAID_OUT(handle)                                                            \
    ((PyObject *)(handle)->_layout != Py_None ||                                         \
     ((PyObject *)(handle)->derived != Py_None &&                                        \
      (PyObject *)(handle)->derived->base != Py_None &&                                  \
      (PyObject *)(handle)->derived->base->_layout != Py_None))
#define WEND_ANY_LAID_OUT(count, a, b, c)                                                \
    (WEND_LAID_OUT(a) || ((count) > 1 && WEND_LAID_OUT(b)) ||                            \
     ((count) > 2 && WEND_LAID_OUT(c)))
/* Whether a handle's own value is its operand, and the handle derives from nothing. */
#define WEND_IS_AT_REST(handle)                                                          \
    ((PyObject *)(handle)->derived == Py_None && (handle)->leaf == (handle)->value->leaf)
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
#define WEND_PART(parts, k) ((struct __pyx_obj_4wend_7_engine_4core_4_hot_Tensor *)PyTuple_GET_ITEM(parts, k))
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
            struct __pyx_obj_4wend_7_engine_4core_4_hot_Value *v = WEND_PART(parts, k)->value;    \
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
            struct __pyx_obj_4wend_7_engine_4core_4_hot_Tensor *h = WEND_PART(parts, k);          \
            WEND_FILL(h->derived, (first)->derived);                                     \
            h->value->inference = (first)->value->inference;                             \
            h->part = (int)k + 1;                                                        \
        }                                                                                \
        WEND_NO_LONGER_NONE(n - 1);                                                      \
    } while (0)
/* States refer to each other in circles, which `dismantle` cuts: the collector would walk the whole
 * trie.  (A `cython.no_gc` in a .pxd has no effect.) */
static int wend_keep_memory(PyObject *value, PyObject *tensor, PyObject *alias, PyObject *state,
                            PyObject *record)
{
    static const allocfunc allocs[WEND_POOLS] = {wend_pools_alloc0, wend_pools_alloc1,
                                                 wend_pools_alloc2, wend_pools_alloc3,
                                                 wend_pools_alloc4};
    static const freefunc frees[WEND_POOLS] = {wend_pools_free0, wend_pools_free1, wend_pools_free2,
                                               wend_pools_free3, wend_pools_free4};
    PyObject *probes[WEND_POOLS] = {value, tensor, alias, state, record};
    for (int k = 0; k < WEND_POOLS; k++) {
        PyTypeObject *type = Py_TYPE(probes[k]);
        if (k == WEND_RECORDS) { /* the collector is not told of records, nor has each room for its notes */
            PyObject_GC_UnTrack(Py_NewRef(record)); /* the one that has stays */
            type->tp_flags &= ~Py_TPFLAGS_HAVE_GC;
        }
        wend_pools[k].type = type;
        wend_pools[k].tracked = PyType_IS_GC(type) && k < WEND_STATES;
        wend_pools[k].n = 0;
        type->tp_alloc = allocs[k];
        type->tp_free = frees[k];
        if (k != WEND_STATES && wend_take_image(&wend_pools[k], probes[k]) < 0)
            return -1;
    }
    /* as many as the macros name */
    if (wend_pools[WEND_VALUES].nones != 8 || wend_pools[WEND_TENSORS].nones != 5 ||
        wend_pools[WEND_ALIASES].nones != 8 || wend_pools[WEND_RECORDS].nones != 7) {
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

#define WEND_STATE(s) ((struct __pyx_obj_4wend_7_engine_4core_4_hot_State *)(s))
#define WEND_ASK_VALUE(handle) wend_ask((handle)->value, 2)
#define WEND_ASK_TYPE(handle) wend_ask((handle)->value->type, 2)
#define WEND_ASK_NEXT(state) wend_ask(WEND_STATE(state)->child, 3)
#define WEND_ASK_TYPES(state)                                                            \
    (wend_ask(WEND_STATE(state)->t0, 1), wend_ask(WEND_STATE(state)->__pyx_base.out_type, 1))


/* Macros, as Cython defines these functions further down. */
#define WEND_SET_ENDS()                                                                  \
    ((wend_value_end = (wend_end_t)wend_end_value),                                      \
     (wend_record_end = (wend_end_t)wend_end_record),                                    \
     (wend_tensor_end = (wend_end_t)wend_end_tensor),                                    \
     (wend_alias_end = (wend_end_t)wend_end_alias), 0)
#endif
