/* Members and calls of modules.
 * Dicts have a number for each of their states up to CPython 3.11 (`ma_version_tag`): what was found in
 * them is kept with it.  From 3.12 on each look-up is PyDict_GetItemWithError. */
#ifndef WEND_MEMBERS_H
#define WEND_MEMBERS_H
#include "tracebacks.h"
#include "dicts.h"

/* What a dict holds under a name, borrowed; NULL if there is nothing, or with an error.  Each state of
 * each dict has a number of its own: what was found in it is known until it changes. */
#if PY_VERSION_HEX < 0x030C0000
#define WEND_MEMBERS 512
static struct {
    uint64_t version;
    PyObject *name, *found;
    unsigned int type; /* version of the type that leaves the name to the dict; 0: not asked */
} wend_members[WEND_MEMBERS];

static inline PyObject *wend_member(PyObject *attributes, PyObject *name)
{
    uint64_t version = ((PyDictObject *)attributes)->ma_version_tag;
    size_t k = (((size_t)name >> 4) ^ (size_t)version) & (WEND_MEMBERS - 1);
    if (wend_members[k].version == version && wend_members[k].name == name)
        return wend_members[k].found;
    PyObject *found = PyDict_GetItemWithError(attributes, name);
    if ((found == NULL && PyErr_Occurred()) ||
        ((PyDictObject *)attributes)->ma_version_tag != version)
        return found;
    PyObject *before = wend_members[k].name;
    wend_members[k].version = version;
    wend_members[k].name = Py_NewRef(name); /* no other name comes to lie there */
    wend_members[k].found = found;
    wend_members[k].type = 0;
    Py_XDECREF(before);
    return found;
}

/* What was found in the dict of an instance of a type by `wend_member`, and noted below; or NULL. */
static inline PyObject *wend_own_member(PyTypeObject *type, PyObject *attributes, PyObject *name)
{
    uint64_t version = ((PyDictObject *)attributes)->ma_version_tag;
    size_t k = (((size_t)name >> 4) ^ (size_t)version) & (WEND_MEMBERS - 1);
    return wend_members[k].version == version && wend_members[k].name == name &&
                   wend_members[k].type != 0 && wend_members[k].type == type->tp_version_tag &&
                   PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)
               ? wend_members[k].found
               : NULL;
}

/* Note that a type leaves this name to the dicts of its instances. */
static inline void wend_note_own(PyTypeObject *type, PyObject *attributes, PyObject *name)
{
    uint64_t version = ((PyDictObject *)attributes)->ma_version_tag;
    size_t k = (((size_t)name >> 4) ^ (size_t)version) & (WEND_MEMBERS - 1);
    if (wend_members[k].version == version && wend_members[k].name == name &&
        PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG))
        wend_members[k].type = type->tp_version_tag;
}
#else
#define wend_member PyDict_GetItemWithError
#define wend_own_member(type, attributes, name) NULL
#define wend_note_own(type, attributes, name) (void)(type)
#endif

/* Whether a dict has all items of another one, the very same objects. */
static int wend_mirrors(PyObject *attributes, PyObject *members)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(members, &at, &name, &value)) {
        PyObject *found = PyDict_GetItemWithError(attributes, name);
        if (found == NULL && PyErr_Occurred())
            return -1;
        if (found != value)
            return 0;
    }
    return 1;
}

/* Attributes of a module that has a `__getattr__` of its own: Python would ask its type and its dict
 * each time. */
static PyObject *wend_public_getattr(PyObject *self, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject *attributes = WEND_DICT(self);
    PyObject *found = attributes == NULL ? NULL : wend_own_member(type, attributes, name);
    if (found != NULL)
        return Py_NewRef(found);
    if (attributes != NULL && _PyType_Lookup(type, name) == NULL) {
        found = wend_member(attributes, name);
        if (found != NULL) {
            wend_note_own(type, attributes, name);
            return Py_NewRef(found);
        }
        if (PyErr_Occurred())
            return NULL;
    }
    return PyModule_Type.tp_getattro(self, name);
}

/* Let a class of Python modules take that way. */
static int wend_quick_module(PyObject *cls)
{
    ((PyTypeObject *)cls)->tp_getattro = wend_public_getattr;
    return 0;
}

/* module.forward(*args, **kwargs).  Where `forward` is a plain function of the class, as it nearly
 * always is, no method object is made, and Module.__getattr__ does not slow the look-up down. */
static inline PyObject *wend_call_forward(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static PyObject *name = NULL, *getter_name = NULL, *getter = NULL;
    if (name == NULL) {
        getter_name = PyUnicode_InternFromString("__getattribute__");
        name = PyUnicode_InternFromString("forward");
        getter = _PyType_Lookup(&PyBaseObject_Type, getter_name); /* borrowed: it stays */
        if (name == NULL || getter == NULL)
            return NULL;
    }
    PyObject *keywords = kwargs == Py_None ? NULL : kwargs;
    PyTypeObject *type = Py_TYPE(module);
    PyObject *function = _PyType_Lookup(type, name);
    PyObject *attributes = type->tp_dictoffset > 0 ? WEND_DICT(module) : NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (function != NULL && PyFunction_Check(function) && n < 8 &&
        (attributes == NULL || wend_member(attributes, name) == NULL) &&
        !PyErr_Occurred() && _PyType_Lookup(type, getter_name) == getter) {
        PyObject *row[10]; /* the first is room that the callee may use */
        row[1] = module;
        for (Py_ssize_t i = 0; i < n; i++)
            row[i + 2] = PyTuple_GET_ITEM(args, i);
        Py_INCREF(function);
        PyObject *result = PyObject_VectorcallDict(
            function, row + 1, (size_t)(n + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, keywords);
        Py_DECREF(function);
        return result;
    }
    if (PyErr_Occurred())
        return NULL;
    function = PyObject_GetAttr(module, name);
    if (function == NULL)
        return NULL;
    PyObject *result = PyObject_Call(function, args, keywords);
    Py_DECREF(function);
    return result;
}

/* Code object of the function that `forward` is in the module's class; None if that is no function
 * of Python's. */
static inline PyObject *wend_forward_code(PyObject *module)
{
    static PyObject *name = NULL;
    if (name == NULL && (name = PyUnicode_InternFromString("forward")) == NULL)
        return NULL;
    PyObject *function = _PyType_Lookup(Py_TYPE(module), name);
    if (function == NULL || !PyFunction_Check(function)) {
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_NONE;
    }
    return Py_NewRef(PyFunction_GET_CODE(function));
}

/* Members of modules lie in their dicts.  Python's way there leads past `__getattribute__` and
 * `__getattr__` each time; it is left to what is not found at once. */
static getattrofunc wend_slow_getattr = NULL;

static PyObject *wend_module_getattr(PyObject *self, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject *attributes = WEND_DICT(self);
    PyObject *found = attributes == NULL ? NULL : wend_own_member(type, attributes, name);
    if (found != NULL)
        return Py_NewRef(found);
    PyObject *of_type = _PyType_Lookup(type, name); /* borrowed, as is `found` */
    if (of_type == NULL || PyFunction_Check(of_type)) {
        if (attributes != NULL) /* comparing names runs no code: the type keeps its function */
            found = wend_member(attributes, name);
        if (found != NULL) {
            wend_note_own(type, attributes, name);
            return Py_NewRef(found);
        }
        if (PyErr_Occurred())
            return NULL;
        if (of_type != NULL)
            return PyMethod_New(of_type, self);
    }
    return wend_slow_getattr(self, name);
}

/* Let a class of modules take that way, if its attributes are got as those of `Module` are. */
static int wend_quick_members(PyObject *cls)
{
    static PyObject *name = NULL;
    if (name == NULL && (name = PyUnicode_InternFromString("__getattribute__")) == NULL)
        return -1;
    PyTypeObject *type = (PyTypeObject *)cls;
    if (_PyType_Lookup(type, name) != _PyType_Lookup(&PyBaseObject_Type, name) ||
        type->tp_dictoffset <= 0)
        return 0;
    if (wend_slow_getattr == NULL && type->tp_getattro != PyObject_GenericGetAttr)
        wend_slow_getattr = type->tp_getattro; /* the first such class has a `__getattr__` */
    if (type->tp_getattro == wend_slow_getattr && wend_slow_getattr != NULL)
        type->tp_getattro = wend_module_getattr; /* until Python finds another `__getattr__` */
    return 0;
}

static ternaryfunc wend_module_target = NULL;

static PyObject *wend_module_slot(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return wend_told(wend_module_target(self, args, kwargs ? kwargs : Py_None));
}

/* Let `cls(...)` of an instance go to `call_module` without a dict for keywords that are not there. */
static int wend_install_module_call(PyObject *cls)
{
    PyTypeObject *type = (PyTypeObject *)cls;
    PyObject *wrapper = PyDict_GetItemString(type->tp_dict, "__call__");
    if (wrapper == NULL || !Py_IS_TYPE(wrapper, &PyWrapperDescr_Type)) {
        PyErr_SetString(PyExc_SystemError, "wend: call slot of modules not found");
        return -1;
    }
    ((PyWrapperDescrObject *)wrapper)->d_wrapped = (void *)wend_module_slot; /* for subclasses */
    type->tp_call = wend_module_slot;
    PyType_Modified(type);
    return 0;
}


/* A macro, as Cython defines this function further down. */
#define WEND_SET_MODULE_TARGET() ((wend_module_target = (ternaryfunc)wend_call_module), 0)
#endif
