/* Tracebacks of errors that tell a user of a mistake: without frames of Wend's functions.
 * Each compiled module includes this file first (setup.py). Cython adds a frame wherever an error
 * leaves a function. Here such an error (`is_short`, `base/errors.py`) first loses the frames of
 * Wend's functions that it came through (`base/tracebacks.py`), and gets a frame only if it has no
 * other: Cython's `except` takes an error without a traceback for impossible, and would crash.
 * Valid for CPython 3.11 and later. */
#ifndef WEND_TRACEBACKS_H
#define WEND_TRACEBACKS_H
#define PY_SSIZE_T_CLEAN /* as Cython has it */
#include <Python.h>
#include <frameobject.h>

/* Whether an error of a class tells a user of a mistake.  No error may be set. */
static inline int wend_is_short(PyObject *kind)
{
    static PyObject *name = NULL;
    if (name == NULL && (name = PyUnicode_InternFromString("is_short")) == NULL) {
        PyErr_Clear();
        return 0;
    }
    return kind != NULL && PyType_Check(kind) &&
           _PyType_Lookup((PyTypeObject *)kind, name) == Py_True;
}

/* Have the method `name` of the error that is set called, if the error tells a user of a mistake;
 * return whether it does.  The traceback is that of the error afterwards. */
static inline int wend_tell(const char *name, PyObject *argument)
{
    PyObject *kind, *error, *traceback, *done;
    int is_short;
    PyErr_Fetch(&kind, &error, &traceback); /* a look-up would end in an error that is set */
    is_short = wend_is_short(kind);
    if (is_short) {
        PyErr_NormalizeException(&kind, &error, &traceback);
        if (traceback != NULL)
            PyException_SetTraceback(error, traceback);
        done = PyObject_CallMethod(error, name, argument == NULL ? NULL : "(O)", argument);
        if (done == NULL && !PyErr_ExceptionMatches(PyExc_Exception)) {
            Py_XDECREF(kind); /* an interrupt came meanwhile, and goes on in place of the error */
            Py_XDECREF(error);
            Py_XDECREF(traceback);
            return 1;
        }
        Py_XDECREF(done);
        Py_XDECREF(traceback);
        traceback = PyException_GetTraceback(error);
        PyErr_Clear(); /* a failure here leaves the error as it was */
    }
    PyErr_Restore(kind, error, traceback);
    return is_short;
}

static inline int wend_traceback_here(PyFrameObject *frame)
{
    PyObject *kind, *error, *traceback;
    int is_there;
    if (wend_tell("shorten", NULL)) {
        PyErr_Fetch(&kind, &error, &traceback);
        is_there = traceback != NULL;
        PyErr_Restore(kind, error, traceback);
        if (is_there)
            return 0;
    }
    return PyTraceBack_Here(frame);
}

/* The result of a slot that Python calls: an error leaves without the slot's own frame, too. */
static inline PyObject *wend_told(PyObject *result)
{
    if (result == NULL)
        wend_tell("shorten", NULL);
    return result;
}

#define PyTraceBack_Here wend_traceback_here
#endif
