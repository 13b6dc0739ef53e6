/* The table of interned types, and the memory of types.
 * Valid for CPython 3.11 and later, as pools are: `tp_dealloc` of the type is replaced. */
#ifndef WEND_TYPE_TABLE_H
#define WEND_TYPE_TABLE_H
#include "pools.h"

/* Interned types, and their hashes side by side: to look for a type is to read one cache line. The
 * table does not own them: one that dies leaves it, and its memory is that of the next. */
#define WEND_MOST_TYPES (1 << 14)
static unsigned int wend_type_tags[WEND_MOST_TYPES];
static PyObject *wend_types[WEND_MOST_TYPES];

static Py_ssize_t wend_type_slot; /* where in a type its slot is noted */
static destructor wend_end_type;

static inline long long wend_type_tag(size_t i) { return wend_type_tags[i]; }

/* The type in slot i, or None. */
static inline PyObject *wend_type_at(size_t i)
{
    return Py_NewRef(wend_types[i] != NULL ? wend_types[i] : Py_None);
}

/* Put a type into slot i, which it is told. */
static inline int wend_put_type(size_t i, long long tag, PyObject *type_)
{
    wend_types[i] = type_;
    wend_type_tags[i] = (unsigned int)tag;
    *(size_t *)((char *)type_ + wend_type_slot) = i;
    return 0;
}

static int wend_forget_types(void)
{
    memset(wend_types, 0, sizeof wend_types);
    memset(wend_type_tags, 0, sizeof wend_type_tags);
    return 0;
}

static Py_ssize_t wend_count_types(void)
{
    Py_ssize_t n = 0;
    for (size_t i = 0; i < WEND_MOST_TYPES; i++)
        n += wend_types[i] != NULL;
    return n;
}

static void wend_dealloc_type(PyObject *self)
{
    size_t i = *(size_t *)((char *)self + wend_type_slot);
    if (wend_types[i] == self) { /* slot 0 is also that of types that were never put anywhere */
        wend_types[i] = NULL;
        wend_type_tags[i] = 0;
    }
    wend_end_type(self);
}

/* Have types leave the table when they die. `probe` is the type whose slot holds WEND_MAGIC. */
static int wend_watch_types(PyObject *probe)
{
    wend_type_slot = wend_find_magic(probe);
    if (wend_type_slot < 0)
        return -1;
    *(size_t *)((char *)probe + wend_type_slot) = 0;
    wend_end_type = Py_TYPE(probe)->tp_dealloc;
    Py_TYPE(probe)->tp_dealloc = wend_dealloc_type;
    return 0;
}


/* Types are one pool of memory. */
static wend_pool_t wend_type_pools[1];
WEND_POOL(wend_type_pools, 0)
#define WEND_FRESH_TYPE()                                                                \
    ((struct __pyx_obj_4wend_7_engine_4core_6_types_TensorType *)wend_pool_fresh(                 \
        &wend_type_pools[0], 0, sizeof(struct __pyx_obj_4wend_7_engine_4core_6_types_TensorType), 3))

static int wend_keep_type_memory(PyObject *probe)
{
    PyTypeObject *type = Py_TYPE(probe);
    wend_type_pools[0].type = type;
    type->tp_alloc = wend_type_pools_alloc0;
    type->tp_free = wend_type_pools_free0;
    return wend_take_image(&wend_type_pools[0], probe);
}
#endif
