/* What the compiled steps need to know of NumPy's arrays: whether they are large, and their dtype. */
#pragma once
#include "_arrays.h"

static PyObject *wend_nbytes = NULL;   /* the word "nbytes" */
static Py_ssize_t wend_worth = 0;      /* bytes of a large array */
#define WEND_WIDEST 16                 /* bytes of the widest elements */

static void wend_set_step_arrays(PyObject *cls, PyObject *nbytes, Py_ssize_t worth) {
    Py_INCREF(cls);
    Py_INCREF(nbytes);
    wend_array_type = (PyTypeObject *)cls;
    wend_nbytes = nbytes;
    wend_worth = worth;
}

/* Whether an array has as many bytes as a large array; -1 with an exception. Of an array with few
   elements, of whatever dtype, only the extents are looked at. */
static int wend_large(PyObject *array) {
    if (Py_TYPE(array) == wend_array_type) {
        wend_array *a = (wend_array *)array;
        Py_ssize_t n = 1, most = wend_worth / WEND_WIDEST;
        for (int d = 0; d < a->nd && n < most; d++) n *= a->dimensions[d];
        if (n < most) return 0;
    }
    PyObject *found = PyObject_GetAttr(array, wend_nbytes);
    if (found == NULL) return -1;
    Py_ssize_t n = PyLong_AsSsize_t(found);
    Py_DECREF(found);
    if (n == -1 && PyErr_Occurred()) return -1;
    return n >= wend_worth;
}

/* Whether this is an array of this very dtype. */
static inline int wend_is_of(PyObject *array, PyObject *dtype) {
    return Py_TYPE(array) == wend_array_type && ((wend_array *)array)->descr == dtype;
}
