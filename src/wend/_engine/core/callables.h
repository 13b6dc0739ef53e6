/* Call slots of the core's callables, and open extension types.
 * Valid for CPython 3.11 and later: `tp_vectorcall_offset` and type flags are set after the type is
 * ready.  There is no fallback.  `_select.py` has the Python stand-ins of all these headers. */
#ifndef WEND_CALLABLES_H
#define WEND_CALLABLES_H
#include <Python.h>
#include <stddef.h>

#define WEND_COMPILED 1

/* For what is a few instructions, used in many places by what is called for each op. */
#if defined(__GNUC__)
#define WEND_INLINE static inline __attribute__((always_inline))
#else
#define WEND_INLINE static inline
#endif

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

static inline size_t wend_op_address(void) { return (size_t)&wend_vectorcall_op; }
static inline size_t wend_parts_address(void) { return (size_t)&wend_vectorcall_parts; }

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

/* Macros, as Cython defines these functions further down. */
#define WEND_SET_OP_TARGET() ((wend_op_target = (wend_call_t)wend_call_op), 0)
#define WEND_SET_PARTS_TARGET() ((wend_parts_target = (wend_call_t)wend_call_parts), 0)
#endif
