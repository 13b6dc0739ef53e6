/* Memory of large arrays: NumPy allocates them as always, but through these functions.

   Each block begins at a cache line, at one of a few places of a page. What is freed is kept for the
   next array, since the system clears each page that it gives: that takes longer than a pass over
   it. An array takes a block of about its size, or else a part of a larger one. Blocks that lie side
   by side become one where none is large enough. Whenever the system has to give a new block, as
   much of what is kept goes back. All runs under the interpreter lock. */
#pragma once
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "_arrays.h"

#if defined(_WIN32)

static void wend_use_blocks(void **functions) { (void)functions; }

static PyObject *wend_make_large(PyObject *shape, PyObject *dtype) {
    return wend_make_array(wend_empty, shape, dtype);
}

#else

#include <sys/mman.h>
#include <unistd.h>

#define WEND_LINE 64
#define WEND_PAGE 4096
#define WEND_APART 512
#define WEND_PLACES (WEND_PAGE / WEND_APART - 1)
#define WEND_HUGE (2 << 20)
#define WEND_KEPT_BLOCKS 256
#define WEND_KEPT_BYTES ((size_t)256 << 20)

/* NumPy's own declarations (NEP 49), whose binary interface is fixed. */
typedef struct {
    void *ctx;
    void *(*malloc)(void *ctx, size_t size);
    void *(*calloc)(void *ctx, size_t count, size_t size);
    void *(*realloc)(void *ctx, void *data, size_t size);
    void (*free)(void *ctx, void *data, size_t size);
} wend_allocator;

typedef struct {
    char name[127];
    uint8_t version;
    wend_allocator allocator;
} wend_handler;

/* A block: pages from `base` on. Where it is in use, this stands a line before the elements. */
typedef struct {
    char *base;
    size_t length;
    char *data;
} wend_block;

static wend_block wend_kept[WEND_KEPT_BLOCKS]; /* the oldest first */
static int wend_n_kept = 0;
static size_t wend_kept_bytes = 0;
static unsigned wend_n_blocks = 0;

/* Forget block k, whose memory stays as it is. */
static void wend_leave_out(int k) {
    wend_n_kept--;
    memmove(wend_kept + k, wend_kept + k + 1, (size_t)(wend_n_kept - k) * sizeof(wend_block));
}

static void wend_drop(int k) {
    munmap(wend_kept[k].base, wend_kept[k].length);
    wend_kept_bytes -= wend_kept[k].length;
    wend_leave_out(k);
}

/* Give at least so many bytes back to the system, if there are so many. */
static void wend_give_back(size_t bytes) {
    size_t goal = wend_kept_bytes > bytes ? wend_kept_bytes - bytes : 0;
    while (wend_n_kept && wend_kept_bytes > goal) wend_drop(0);
}

/* Where an array begins in pages of its own. A load waits for a store that came before it if they
   are of the same place in two pages. A loop over both loads what lies some lines behind what it
   has stored: no array begins so near behind another, or behind one of the C library, which begin
   16 bytes into a page. */
static char *wend_begin(char *base) {
    return base + WEND_APART * (1 + wend_n_blocks++ * 3 % WEND_PLACES);
}

static char *wend_map(size_t length) {
    size_t more = length >= 2 * WEND_HUGE ? WEND_HUGE : 0;
    char *p = (char *)mmap(NULL, length + more, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (more) {
        size_t skip = (size_t)(-(intptr_t)p) & (WEND_HUGE - 1);
        if (skip) munmap(p, skip);
        if (more - skip) munmap(p + skip + length, more - skip);
        p += skip;
#ifdef MADV_HUGEPAGE
        madvise(p, length, MADV_HUGEPAGE);
#endif
    }
    return p;
}

/* The smallest kept block of at least this length, of equal ones the newest; -1 for none. */
static int wend_best(size_t length) {
    int best = -1;
    for (int k = wend_n_kept - 1; k >= 0; k--) {
        size_t have = wend_kept[k].length;
        if (have >= length && (best < 0 || have < wend_kept[best].length)) best = k;
    }
    return best;
}

/* Make one block of kept ones that lie side by side; whether there were any. */
static int wend_join(void) {
    int joined = 0;
    for (int k = 0; k < wend_n_kept; k++)
        for (int j = 0; j < wend_n_kept; j++) {
            if (wend_kept[k].base + wend_kept[k].length != wend_kept[j].base) continue;
            int last = j > k ? j : k; /* as old as the newer one */
            wend_block whole = {wend_kept[k].base, wend_kept[k].length + wend_kept[j].length, NULL};
            wend_kept[last] = whole;
            wend_leave_out(j > k ? k : j);
            joined = 1;
            k = -1; /* the numbers have changed */
            break;
        }
    return joined;
}

static void *wend_block_malloc(void *ctx, size_t size) {
    wend_block found = {NULL, 0, NULL};
    (void)ctx;
    if (size > SIZE_MAX / 2) return NULL;
    size_t length = (size + 2 * WEND_PAGE - 1) / WEND_PAGE * WEND_PAGE;
    int best = wend_best(length);
    if (best < 0 && wend_kept_bytes >= length && wend_join()) best = wend_best(length);
    if (best >= 0) {
        found = wend_kept[best];
        if (found.length > length + length / 8) { /* the rest of the block stays */
            wend_block rest = {found.base + length, found.length - length, NULL};
            wend_kept[best] = rest;
            found.length = length;
            found.data = NULL;
        } else {
            wend_leave_out(best);
        }
        wend_kept_bytes -= found.length;
        if (found.data == NULL) found.data = wend_begin(found.base);
    } else {
        wend_give_back(length);
        found.length = length;
        found.base = wend_map(length);
        if (found.base == NULL) {
            wend_give_back(SIZE_MAX);
            found.base = wend_map(length);
        }
        if (found.base == NULL) return NULL;
        found.data = wend_begin(found.base);
    }
    *(wend_block *)(found.data - WEND_LINE) = found;
    return found.data;
}

static void wend_block_free(void *ctx, void *data, size_t size) {
    static size_t most = 0;
    (void)ctx, (void)size;
    if (data == NULL) return;
    wend_block block = *(wend_block *)((char *)data - WEND_LINE);
    if (most == 0) {
        size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
        most = memory / 16 < WEND_KEPT_BYTES ? memory / 16 : WEND_KEPT_BYTES;
    }
    if (block.length > most) {
        munmap(block.base, block.length);
        return;
    }
    while (wend_n_kept == WEND_KEPT_BLOCKS || wend_kept_bytes + block.length > most) wend_drop(0);
    wend_kept[wend_n_kept++] = block;
    wend_kept_bytes += block.length;
}

static void *wend_block_calloc(void *ctx, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) return NULL;
    void *data = wend_block_malloc(ctx, count * size);
    return data ? memset(data, 0, count * size) : NULL;
}

static void *wend_block_realloc(void *ctx, void *data, size_t size) {
    void *moved = wend_block_malloc(ctx, size);
    if (moved == NULL || data == NULL) return moved;
    wend_block *block = (wend_block *)((char *)data - WEND_LINE);
    size_t have = (size_t)(block->base + block->length - (char *)data);
    memcpy(moved, data, have < size ? have : size);
    wend_block_free(ctx, data, have);
    return moved;
}

static wend_handler wend_blocks = {
    "wend", 1,
    {NULL, wend_block_malloc, wend_block_calloc, wend_block_realloc, wend_block_free}};
static PyObject *wend_blocks_capsule = NULL;
static PyObject *(*wend_set_numpy_handler)(PyObject *) = NULL;

/* functions: NumPy's table of C functions */
static void wend_use_blocks(void **functions) {
    wend_blocks_capsule = PyCapsule_New(&wend_blocks, "mem_handler", NULL);
    wend_set_numpy_handler = (PyObject *(*)(PyObject *))functions[304]; /* PyDataMem_SetHandler */
}

/* empty(shape, dtype), its elements in a block. */
static PyObject *wend_make_large(PyObject *shape, PyObject *dtype) {
    PyObject *before = NULL, *made, *ours;
    if (wend_blocks_capsule != NULL) {
        before = wend_set_numpy_handler(wend_blocks_capsule);
        if (before == NULL) return NULL;
    }
    made = wend_make_array(wend_empty, shape, dtype);
    if (before != NULL) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        ours = wend_set_numpy_handler(before);
        Py_XDECREF(ours);
        Py_DECREF(before);
        PyErr_Restore(type, value, trace);
    }
    return made;
}

#endif
