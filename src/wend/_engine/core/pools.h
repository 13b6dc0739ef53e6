/* Memory of objects that come and go by the million.
 * Valid for CPython 3.11 and later.  Where references are traced or there is no GIL, objects are
 * initialised by Python's own functions.  None has a reference count up to 3.11 only: from 3.12 on
 * the fields that are None are not counted. */
#ifndef WEND_POOLS_H
#define WEND_POOLS_H
#include "callables.h"
#include <string.h>

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

/* Fill new memory in with what a new object looks like, of which only None has references. */
WEND_INLINE void wend_pool_fill(wend_pool_t *pool, PyObject *o, size_t size)
{
    memcpy((char *)o + sizeof(PyObject), pool->image, size - sizeof(PyObject));
#if PY_VERSION_HEX < 0x030C0000 /* None is immortal since then */
    Py_SET_REFCNT(Py_None, Py_REFCNT(Py_None) + pool->nones);
#endif
}

/* `wend_pool_fresh` where little or nothing is kept for reuse. */
static PyObject *wend_pool_grow(wend_pool_t *pool, int watched, size_t size)
{
    PyObject *o;
#if !(defined(Py_TRACE_REFS) || defined(Py_REF_DEBUG) || defined(Py_GIL_DISABLED))
    if (pool->n > 0) {
        o = pool->blocks[--pool->n];
        Py_SET_REFCNT(o, 1);
        wend_pool_fill(pool, o, size);
        if (watched)
            PyObject_GC_Track(o);
        return o;
    }
#endif
    if (pool->image != NULL) {
        o = PyType_GenericAlloc(pool->type, 0);
        if (o != NULL)
            wend_pool_fill(pool, o, size);
    } else {
        PyObject *nothing = PyTuple_New(0);
        if (nothing == NULL)
            return NULL;
        o = pool->type->tp_new(pool->type, nothing, NULL);
        Py_DECREF(nothing);
    }
    if (o != NULL && !watched && PyType_IS_GC(pool->type))
        PyObject_GC_UnTrack(o);
    return o;
}

/* A new object of a pool's type, without the way through `tp_new`; unless `watched`, the cyclic
 * collector is not told of it.  The size of its struct is given: a known number of moves fills it.
 * No more than `least` blocks are left to `wend_pool_grow`: 3, or 0 for what ends at once. */
WEND_INLINE PyObject *wend_pool_fresh(wend_pool_t *pool, int watched, size_t size, int least)
{
#if !(defined(Py_TRACE_REFS) || defined(Py_REF_DEBUG) || defined(Py_GIL_DISABLED))
    if (pool->n > least) { /* what is there has come after the image */
        Py_ssize_t n = --pool->n;
        PyObject *o = pool->blocks[n];
#if defined(__GNUC__)
        char *next = (char *)pool->blocks[least == 3 || n > 3 ? n - 3 : 0];
        __builtin_prefetch(next - 16, 1);
        __builtin_prefetch(next + 48, 1);
        if (size > 112)
            __builtin_prefetch(next + 112, 1);
#endif
        Py_SET_REFCNT(o, 1);
        wend_pool_fill(pool, o, size);
        if (watched)
            PyObject_GC_Track(o);
        return o;
    }
#endif
    return wend_pool_grow(pool, watched, size);
}
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

/* Memory of pool `k` of the array `pools` as the type asks for it. */
#define WEND_POOL(pools, k)                                                                     \
    static PyObject *pools##_alloc##k(PyTypeObject *type, Py_ssize_t items)                 \
    {                                                                                    \
        return wend_pool_alloc(&pools[k], type, items);                             \
    }                                                                                    \
    static void pools##_free##k(void *memory) { wend_pool_free(&pools[k], memory); }
#endif
