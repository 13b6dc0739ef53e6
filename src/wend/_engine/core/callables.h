/* Call slots of the core's callables, and open extension types.
 * Valid for CPython 3.11 and later: `tp_vectorcall_offset` and type flags are set after the type is
 * ready.  There is no fallback.  `_select.py` has the Python stand-ins of all these headers. */
#ifndef WEND_CALLABLES_H
#define WEND_CALLABLES_H
#include <Python.h>
#include <stddef.h>
#include "tracebacks.h"

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
    PyObject *result = wend_op_target(self, (size_t)args, PyVectorcall_NARGS(nargsf),
                                      kwnames ? kwnames : Py_None);
    if (result == NULL)
        wend_tell("name_function", self);
    return wend_told(result);
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

/* The operators of a type, told as above. */
#define WEND_BINARY_SLOTS(slot)                                                                    \
    slot(nb_add) slot(nb_subtract) slot(nb_multiply) slot(nb_remainder) slot(nb_true_divide)       \
    slot(nb_floor_divide) slot(nb_matrix_multiply) slot(nb_and) slot(nb_or) slot(nb_xor)           \
    slot(nb_lshift) slot(nb_rshift) slot(nb_inplace_add) slot(nb_inplace_subtract)                 \
    slot(nb_inplace_multiply) slot(nb_inplace_true_divide)

#define WEND_DEFINE(slot)                                                                          \
    static binaryfunc wend_old_##slot;                                                             \
    static PyObject *wend_new_##slot(PyObject *a, PyObject *b)                                     \
    {                                                                                              \
        return wend_told(wend_old_##slot(a, b));                                                   \
    }
WEND_BINARY_SLOTS(WEND_DEFINE)

/* Protocols of Python that ask a tensor for a number, a truth, a length or its elements. */
#define WEND_UNARY_SLOTS(slot)                                                                     \
    slot(nb_negative) slot(nb_positive) slot(nb_absolute) slot(nb_invert) slot(nb_int)             \
    slot(nb_float) slot(nb_index)

#define WEND_DEFINE_UNARY(slot)                                                                    \
    static unaryfunc wend_old_##slot;                                                              \
    static PyObject *wend_new_##slot(PyObject *a)                                                  \
    {                                                                                              \
        return wend_told(wend_old_##slot(a));                                                      \
    }
WEND_UNARY_SLOTS(WEND_DEFINE_UNARY)

static getiterfunc wend_old_iter;
static PyObject *wend_new_iter(PyObject *a)
{
    return wend_told(wend_old_iter(a));
}

static inquiry wend_old_bool;
static int wend_new_bool(PyObject *a)
{
    int result = wend_old_bool(a);
    if (result < 0)
        wend_told(NULL);
    return result;
}

static lenfunc wend_old_length;
static Py_ssize_t wend_new_length(PyObject *a)
{
    Py_ssize_t result = wend_old_length(a);
    if (result < 0)
        wend_told(NULL);
    return result;
}

static objobjargproc wend_old_ass_subscript;
static int wend_new_ass_subscript(PyObject *a, PyObject *key, PyObject *value)
{
    int result = wend_old_ass_subscript(a, key, value);
    if (result < 0)
        wend_told(NULL);
    return result;
}

static binaryfunc wend_old_subscript;
static PyObject *wend_new_subscript(PyObject *a, PyObject *key)
{
    return wend_told(wend_old_subscript(a, key));
}

static ternaryfunc wend_old_power;
static PyObject *wend_new_power(PyObject *a, PyObject *b, PyObject *modulo)
{
    return wend_told(wend_old_power(a, b, modulo));
}

static richcmpfunc wend_old_compare;
static PyObject *wend_new_compare(PyObject *a, PyObject *b, int which)
{
    return wend_told(wend_old_compare(a, b, which));
}

/* Put a function in the place of another, for a type and in its descriptors: subclasses look there. */
static inline void wend_replace(PyTypeObject *type, void **slot, void **old, void *told)
{
    PyObject *name, *descriptor;
    Py_ssize_t at = 0;
    if (*slot == NULL)
        return;
    *old = *slot;
    *slot = told;
    while (PyDict_Next(type->tp_dict, &at, &name, &descriptor)) {
        if (Py_IS_TYPE(descriptor, &PyWrapperDescr_Type) &&
            ((PyWrapperDescrObject *)descriptor)->d_wrapped == *old)
            ((PyWrapperDescrObject *)descriptor)->d_wrapped = told;
    }
}

/* Let errors of a type's operators leave without frames of Wend's: see `tracebacks.h`. */
static inline int wend_tell_operators(PyObject *cls)
{
    PyTypeObject *type = (PyTypeObject *)cls;
    PyNumberMethods *numbers = type->tp_as_number;
#define WEND_REPLACE(slot)                                                                         \
    wend_replace(type, (void **)&numbers->slot, (void **)&wend_old_##slot, (void *)wend_new_##slot);
    WEND_BINARY_SLOTS(WEND_REPLACE)
    WEND_UNARY_SLOTS(WEND_REPLACE)
    wend_replace(type, (void **)&numbers->nb_power, (void **)&wend_old_power,
                 (void *)wend_new_power);
    wend_replace(type, (void **)&numbers->nb_bool, (void **)&wend_old_bool, (void *)wend_new_bool);
    if (type->tp_as_mapping != NULL) {
        wend_replace(type, (void **)&type->tp_as_mapping->mp_subscript,
                     (void **)&wend_old_subscript, (void *)wend_new_subscript);
        wend_replace(type, (void **)&type->tp_as_mapping->mp_ass_subscript,
                     (void **)&wend_old_ass_subscript, (void *)wend_new_ass_subscript);
        wend_replace(type, (void **)&type->tp_as_mapping->mp_length, (void **)&wend_old_length,
                     (void *)wend_new_length);
    }
    wend_replace(type, (void **)&type->tp_iter, (void **)&wend_old_iter, (void *)wend_new_iter);
    wend_replace(type, (void **)&type->tp_richcompare, (void **)&wend_old_compare,
                 (void *)wend_new_compare);
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
