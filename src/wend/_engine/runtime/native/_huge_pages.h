/* Memory of the reference's arrays, most of which are soon freed.

   Arrays of middling size lie side by side in lots of a few huge pages, larger ones in blocks. The C
   library maps such an array by itself and unmaps it when it is freed, so that a program's first
   steps, which are the reference's, spend a fifth of their time on the system's clearing of small
   pages. All runs under the interpreter lock. */
#pragma once
#include "_blocks.h"

#if defined(_WIN32)

static PyObject *wend_enter_lots(void) { Py_RETURN_NONE; }
static int wend_leave_lots(PyObject *before) { (void)before; return 0; }
static void wend_trim_lots(void) {}

#else

#define WEND_LOT_PAGES 1024 /* two huge pages */
#define WEND_LOT_BYTES ((size_t)WEND_LOT_PAGES * WEND_PAGE)
#define WEND_LOTS 64
#define WEND_LEAST ((size_t)128 << 10) /* less lies well in the C heap */
#define WEND_MOST ((size_t)2 << 20)    /* more is worth a block: see `_blocks.h` */
#define WEND_MOST_BLOCKS 512

/* Runs of pages follow one another: `runs` has, where one begins, its pages, below 0 if free. */
typedef struct {
    char *base;
    int used; /* pages */
    int16_t runs[WEND_LOT_PAGES];
} wend_lot;

static wend_lot wend_lots[WEND_LOTS];
static int wend_n_lots = 0;

static wend_lot *wend_lot_of(const void *data) {
    for (int k = 0; k < wend_n_lots; k++)
        if ((uintptr_t)data - (uintptr_t)wend_lots[k].base < WEND_LOT_BYTES) return wend_lots + k;
    return NULL;
}

/* The free pages from a place on, as one run. */
static int wend_free_pages(wend_lot *lot, int at) {
    int n = -lot->runs[at];
    while (at + n < WEND_LOT_PAGES && lot->runs[at + n] < 0) n -= lot->runs[at + n];
    lot->runs[at] = (int16_t)-n;
    return n;
}

static char *wend_take_pages(wend_lot *lot, int pages) {
    if (WEND_LOT_PAGES - lot->used < pages) return NULL;
    for (int at = 0; at < WEND_LOT_PAGES;) {
        if (lot->runs[at] > 0) {
            at += lot->runs[at];
            continue;
        }
        int n = wend_free_pages(lot, at);
        if (n >= pages) {
            lot->runs[at] = (int16_t)pages;
            if (n > pages) lot->runs[at + pages] = (int16_t)(pages - n);
            lot->used += pages;
            return lot->base + (size_t)at * WEND_PAGE;
        }
        at += n;
    }
    return NULL;
}

/* The elements of arrays that lie in blocks. */
static char *wend_in_blocks[WEND_MOST_BLOCKS];
static int wend_n_in_blocks = 0;

/* The number of the array in a block that begins there; -1 for none. */
static int wend_number_in_blocks(const void *data) {
    if ((uintptr_t)data % WEND_APART) return -1; /* most others begin elsewhere */
    for (int k = wend_n_in_blocks - 1; k >= 0; k--)
        if (wend_in_blocks[k] == (const char *)data) return k;
    return -1;
}

static void *wend_lot_malloc(void *ctx, size_t size) {
    if (size > WEND_MOST && wend_n_in_blocks < WEND_MOST_BLOCKS) {
        char *data = (char *)wend_block_malloc(ctx, size);
        if (data != NULL) wend_in_blocks[wend_n_in_blocks++] = data;
        return data;
    }
    if (size < WEND_LEAST || size > WEND_MOST) return malloc(size ? size : 1);
    int pages = (int)((size + 2 * WEND_PAGE - 1) / WEND_PAGE);
    char *base = NULL;
    for (int k = 0; k < wend_n_lots && base == NULL; k++)
        base = wend_take_pages(wend_lots + k, pages);
    if (base == NULL && wend_n_lots < WEND_LOTS) {
        wend_lot *lot = wend_lots + wend_n_lots;
        lot->base = wend_map(WEND_LOT_BYTES);
        if (lot->base != NULL) {
            wend_n_lots++;
            lot->used = 0;
            lot->runs[0] = -WEND_LOT_PAGES;
            base = wend_take_pages(lot, pages);
        }
    }
    if (base == NULL) return malloc(size);
    return wend_begin(base);
}

static void wend_lot_free(void *ctx, void *data, size_t size) {
    wend_lot *lot = wend_lot_of(data);
    if (lot == NULL) {
        int k = wend_number_in_blocks(data);
        if (k < 0) {
            free(data);
        } else {
            wend_in_blocks[k] = wend_in_blocks[--wend_n_in_blocks];
            wend_block_free(ctx, data, size);
        }
        return;
    }
    int at = (int)(((char *)data - lot->base) / WEND_PAGE);
    lot->used -= lot->runs[at];
    lot->runs[at] = (int16_t)-lot->runs[at];
    if (lot->used) return;
    for (int k = 0; k < wend_n_lots; k++) {
        if (wend_lots[k].used || wend_lots + k == lot) continue;
        munmap(lot->base, WEND_LOT_BYTES); /* one that is empty is kept, no two */
        *lot = wend_lots[--wend_n_lots];
        return;
    }
}

static void *wend_lot_calloc(void *ctx, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) return NULL;
    size *= count;
    if (size < WEND_LEAST || size > WEND_MOST) return calloc(size ? size : 1, 1);
    void *data = wend_lot_malloc(ctx, size);
    return data ? memset(data, 0, size) : NULL;
}

static void *wend_lot_realloc(void *ctx, void *data, size_t size) {
    wend_lot *lot = data ? wend_lot_of(data) : NULL;
    int k = data && lot == NULL ? wend_number_in_blocks(data) : -1;
    if (k >= 0) {
        char *moved = (char *)wend_block_realloc(ctx, data, size);
        if (moved != NULL) wend_in_blocks[k] = moved;
        return moved;
    }
    if (lot == NULL) return realloc(data, size ? size : 1);
    size_t offset = (size_t)((char *)data - lot->base), at = offset / WEND_PAGE;
    size_t have = (at + (size_t)lot->runs[at]) * WEND_PAGE - offset;
    void *moved = wend_lot_malloc(ctx, size);
    if (moved == NULL) return NULL;
    memcpy(moved, data, have < size ? have : size);
    wend_lot_free(ctx, data, have);
    return moved;
}

/* What lies free in the lots goes back to the system. */
static void wend_trim_lots(void) {
    for (int k = 0; k < wend_n_lots; k++) {
        wend_lot *lot = wend_lots + k;
        for (int at = 0; at < WEND_LOT_PAGES;) {
            int n = lot->runs[at];
            if (n < 0) {
                n = wend_free_pages(lot, at);
                madvise(lot->base + (size_t)at * WEND_PAGE, (size_t)n * WEND_PAGE, MADV_DONTNEED);
            }
            at += n;
        }
    }
}

static wend_handler wend_lot_handler = {
    "wend lots", 1, {NULL, wend_lot_malloc, wend_lot_calloc, wend_lot_realloc, wend_lot_free}};
static PyObject *wend_lots_capsule = NULL;

/* From now on NumPy takes memory here, in this thread; returns what to leave with. */
static PyObject *wend_enter_lots(void) {
    if (wend_set_numpy_handler == NULL) Py_RETURN_NONE;
    if (wend_lots_capsule == NULL)
        wend_lots_capsule = PyCapsule_New(&wend_lot_handler, "mem_handler", NULL);
    return wend_lots_capsule ? wend_set_numpy_handler(wend_lots_capsule) : NULL;
}

static int wend_leave_lots(PyObject *before) {
    if (before == Py_None) return 0;
    PyObject *ours = wend_set_numpy_handler(before);
    Py_XDECREF(ours);
    return ours ? 0 : -1;
}

#endif
