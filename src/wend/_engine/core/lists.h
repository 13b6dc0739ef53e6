/* Lists, tuples, slices and arrays without checks, and what will be needed soon.
 * Valid for CPython 3.11 and later: `ob_item` and `allocated` of lists are written directly.
 * Prefetching is left out where the compiler is not GCC or Clang. */
#ifndef WEND_LISTS_H
#define WEND_LISTS_H
#include "callables.h"
#include <string.h>

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

/* `wend_push` of all items of a list, or of none where that is None. */
WEND_INLINE int wend_push_all(PyObject *items, PyObject *more)
{
    if (more == Py_None)
        return 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(more); i++)
        if (wend_push(items, PyList_GET_ITEM(more, i)) < 0)
            return -1;
    return 0;
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
#endif
