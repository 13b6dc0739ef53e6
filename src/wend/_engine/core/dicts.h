/* Instance dicts that are made when they are first used.
 * Valid for CPython 3.11 and later: `tp_dictoffset` is set after the type is ready, and the slots of
 * the type are replaced.  There is no fallback. */
#ifndef WEND_DICTS_H
#define WEND_DICTS_H
#include "callables.h"

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
#endif
