/* NumPy's arrays: where their elements are; making them without taking arguments apart. */
#pragma once
#include <Python.h>
#include <stdint.h>

/* The head of NumPy's array object, which is the same in all versions of its binary interface;
   `wend_array_data` is checked against the array's own words before it is used. */
typedef struct {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dimensions;
    Py_ssize_t *strides;
    PyObject *base;
    PyObject *descr;
    int flags;
} wend_array;

#define WEND_WRITEABLE 0x400
#define WEND_MOST_DIMS 32

static PyTypeObject *wend_array_type = NULL;
static PyTypeObject *wend_dtype_type = NULL; /* null: NumPy's C functions are not known */
static PyObject *wend_empty = NULL;
static PyObject *(*wend_new_array)(PyTypeObject *, PyObject *, int, const Py_ssize_t *,
                                   const Py_ssize_t *, void *, int, PyObject *) = NULL;
static int (*wend_set_base)(PyObject *, PyObject *) = NULL;

/* functions: NumPy's table of C functions, or null */
static void wend_use_arrays(PyObject *cls, PyObject *empty, void **functions) {
    Py_INCREF(cls);
    Py_INCREF(empty);
    wend_array_type = (PyTypeObject *)cls;
    wend_empty = empty;
    if (functions == NULL) return;
    *(void **)&wend_new_array = functions[94]; /* PyArray_NewFromDescr */
    *(void **)&wend_set_base = functions[282]; /* PyArray_SetBaseObject */
    wend_dtype_type = (PyTypeObject *)functions[3]; /* PyArrayDescr_Type */
}

/* The same, given NumPy's capsule of its C functions; returns these, or null. */
static void **wend_arrays_of(PyObject *cls, PyObject *capsule, PyObject *empty) {
    void **functions = (void **)PyCapsule_GetPointer(capsule, NULL);
    if (functions == NULL) PyErr_Clear();
    wend_use_arrays(cls, empty, functions);
    return functions;
}

/* Address of the elements of a C-contiguous, aligned array; -1 for anything else. */
static inline long long wend_array_data(PyObject *array) {
    if (Py_TYPE(array) != wend_array_type) return -1;
    wend_array *a = (wend_array *)array;
    if ((a->flags & 0x101) != 0x101) return -1;
    return (long long)(intptr_t)a->data;
}

/* Whether an array has its elements to itself: it owns them, and they may be written. */
static inline int wend_array_owned(PyObject *array) {
    return wend_array_data(array) != -1 && (((wend_array *)array)->flags & 0x404) == 0x404;
}

/* The ints of a tuple; their number, or -1 if it is none, or of too many. */
static int wend_ints(PyObject *tuple, Py_ssize_t *ints) {
    if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) > WEND_MOST_DIMS) return -1;
    int n = (int)PyTuple_GET_SIZE(tuple);
    for (int k = 0; k < n; k++) {
        ints[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, k));
        if (ints[k] == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return -1;
        }
    }
    return n;
}

/* make(shape, dtype); `numpy.empty` takes a third of its time to take its arguments apart. */
static PyObject *wend_make_array(PyObject *make, PyObject *shape, PyObject *dtype) {
    Py_ssize_t dims[WEND_MOST_DIMS];
    int n = -1;
    if (make == wend_empty && wend_dtype_type && PyObject_TypeCheck(dtype, wend_dtype_type))
        n = wend_ints(shape, dims);
    if (n < 0) return PyObject_CallFunctionObjArgs(make, shape, dtype, NULL);
    Py_INCREF(dtype); /* which is taken over */
    return wend_new_array(wend_array_type, dtype, n, dims, NULL, NULL, 0, NULL);
}

/* numpy.ndarray(shape, dtype, array, offset, strides): an array that lies in another, a dense one;
   it is not checked whether it does. */
static PyObject *wend_part_of(PyObject *array, PyObject *shape, PyObject *dtype, long long offset,
                              PyObject *strides) {
    Py_ssize_t dims[WEND_MOST_DIMS], steps[WEND_MOST_DIMS];
    int n = -1;
    if (wend_dtype_type && PyObject_TypeCheck(dtype, wend_dtype_type)) n = wend_ints(shape, dims);
    if (n < 0 || wend_ints(strides, steps) != n)
        return PyObject_CallFunction((PyObject *)wend_array_type, "OOOLO", shape, dtype, array,
                                     offset, strides);
    wend_array *whole = (wend_array *)array;
    Py_INCREF(dtype);
    PyObject *part = wend_new_array(wend_array_type, dtype, n, dims, steps, whole->data + offset,
                                    whole->flags & WEND_WRITEABLE, NULL);
    if (part == NULL) return NULL;
    Py_INCREF(array); /* which is taken over, even if this fails */
    if (wend_set_base(part, array) < 0) Py_CLEAR(part);
    return part;
}

/* array[r, ...] of a row that there is. */
static PyObject *wend_row_of(PyObject *array, Py_ssize_t r) {
    wend_array *whole = (wend_array *)array;
    if (wend_dtype_type == NULL || Py_TYPE(array) != wend_array_type || whole->nd < 1) {
        PyObject *key = Py_BuildValue("nO", r, Py_Ellipsis);
        PyObject *row = key ? PyObject_GetItem(array, key) : NULL;
        Py_XDECREF(key);
        return row;
    }
    Py_INCREF(whole->descr); /* which is taken over */
    PyObject *row = wend_new_array(wend_array_type, whole->descr, whole->nd - 1,
                                   whole->dimensions + 1, whole->strides + 1,
                                   whole->data + r * whole->strides[0],
                                   whole->flags & WEND_WRITEABLE, NULL);
    if (row == NULL) return NULL;
    Py_INCREF(array); /* which is taken over, even if this fails */
    if (wend_set_base(row, array) < 0) Py_CLEAR(row);
    return row;
}
