/* What the compiled sorter needs of C: rows copied, and added. */
#pragma once
#include <Python.h>
#include <stdint.h>
#include <string.h>

static inline void wend_copy(long long target, long long source, Py_ssize_t n) {
    memcpy((void *)(intptr_t)target, (const void *)(intptr_t)source, (size_t)n);
}

static inline void wend_clear(long long target, Py_ssize_t n) {
    memset((void *)(intptr_t)target, 0, (size_t)n);
}

/* Copy n elements of `size` bytes that lie `step` bytes apart, one behind the other. */
static void wend_copy_line(long long target, long long source, Py_ssize_t size, Py_ssize_t n,
                           long long step) {
    char *to = (char *)(intptr_t)target;
    const char *from = (const char *)(intptr_t)source;
    if (step == size) {
        memcpy(to, from, (size_t)(n * size));
    } else if (size == 4) {
        for (; n > 0; n--, to += 4, from += step) memcpy(to, from, 4);
    } else if (size == 8) {
        for (; n > 0; n--, to += 8, from += step) memcpy(to, from, 8);
    } else {
        for (; n > 0; n--, to += size, from += step) memcpy(to, from, (size_t)size);
    }
}

/* Eight at a time: compilers take vectors for so many, also where they do not for n. */
static void wend_add32(long long target, long long source, Py_ssize_t n) {
    float *restrict t = (float *)(intptr_t)target;
    const float *restrict s = (const float *)(intptr_t)source;
    Py_ssize_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int j = 0; j < 8; j++) t[k + j] += s[k + j];
    for (; k < n; k++) t[k] += s[k];
}

static void wend_add64(long long target, long long source, Py_ssize_t n) {
    double *restrict t = (double *)(intptr_t)target;
    const double *restrict s = (const double *)(intptr_t)source;
    Py_ssize_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int j = 0; j < 8; j++) t[k + j] += s[k + j];
    for (; k < n; k++) t[k] += s[k];
}

/* Where the words of an array begin, which lie one behind the other: good as long as it lives. */
static long long *wend_table(PyObject *array) {
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_CONTIG) != 0) return NULL;
    PyBuffer_Release(&view);
    return (long long *)view.buf;
}

static inline long long *wend_behind(long long *table, Py_ssize_t n) { return table + n; }

static inline long long wend_table_address(long long *table) { return (long long)(intptr_t)table; }

static inline void wend_fill(long long *table, Py_ssize_t n, long long number) {
    for (Py_ssize_t k = 0; k < n; k++) table[k] = number;
}

/* Item i of a list, of a tuple: that there is one, and of what class it is, the caller knows. */
static inline PyObject *wend_item(PyObject *items, Py_ssize_t i) {
    return Py_NewRef(PyList_GET_ITEM(items, i));
}

static inline PyObject *wend_entry(PyObject *items, Py_ssize_t i) {
    return Py_NewRef(PyTuple_GET_ITEM(items, i));
}

/* Of a value in a list, without a reference to it: its type, and `Grouper.role` in this region. What
 * values look like is declared behind this file. */
#define WEND_VALUE_AT(values, i) \
    ((struct __pyx_obj_4wend_7_engine_4core_4_hot_Value *)PyList_GET_ITEM(values, i))
#define WEND_TYPE_OF(values, i) Py_NewRef((PyObject *)WEND_VALUE_AT(values, i)->type)
#define WEND_ROWS_AT(values, i) (WEND_VALUE_AT(values, i)->type->row[0])
/* Whether a value has the type that item k of a list is. */
#define WEND_WAS_SEEN(seen, k, values, i) \
    (PyList_GET_ITEM(seen, k) == (PyObject *)WEND_VALUE_AT(values, i)->type)
#define WEND_ROLE_AT(values, i, region)                  \
    ((WEND_VALUE_AT(values, i)->requires_grad ? 1 : 0) + \
     ((region) != -1 ? 0 : (PyObject *)WEND_VALUE_AT(values, i)->leaf != Py_None ? 6 : 2))

/* The same of the node that a region ends in, and of the one that came behind it last: whether an op
 * that reads the values of no other region, nor numbers, is that one; how many values there are; and to
 * go there. */
#define WEND_NODE_AT(nodes, i) ((struct __pyx_obj_4wend_7_engine_7runtime_8batching_8_grouper_GroupNode *)PyList_GET_ITEM(nodes, i))
#define WEND_CHILD_AT(nodes, i) (WEND_NODE_AT(nodes, i)->child)
#define WEND_READS(nodes, i, k, at, region, local) \
    ((region)[at] == (i) && (local)[at] == WEND_CHILD_AT(nodes, i)->ref##k)
#define WEND_INNER_CHILD(nodes, i, step, region, local)                                   \
    ((PyObject *)WEND_CHILD_AT(nodes, i) != Py_None && WEND_CHILD_AT(nodes, i)->inner &&  \
     WEND_CHILD_AT(nodes, i)->prim == (step)->prim &&                                     \
     WEND_CHILD_AT(nodes, i)->n_in == (step)->n_in &&                                     \
     WEND_CHILD_AT(nodes, i)->grad == (step)->requires_grad && WEND_CHILD_AT(nodes, i)->joins && \
     WEND_READS(nodes, i, 0, (step)->i0, region, local) &&                                \
     ((step)->n_in < 2 || WEND_READS(nodes, i, 1, (step)->i1, region, local)) &&          \
     ((step)->n_in < 3 || WEND_READS(nodes, i, 2, (step)->i2, region, local)))
#define WEND_VALUES_OF(nodes, i) (WEND_NODE_AT(nodes, i)->n_values)
#define WEND_TO_CHILD(nodes, i) wend_put_item(nodes, i, (PyObject *)WEND_CHILD_AT(nodes, i))

static inline int wend_put_item(PyObject *items, Py_ssize_t i, PyObject *item) {
    PyObject *before = PyList_GET_ITEM(items, i);
    PyList_SET_ITEM(items, i, Py_NewRef(item));
    Py_DECREF(before);
    return 0;
}
