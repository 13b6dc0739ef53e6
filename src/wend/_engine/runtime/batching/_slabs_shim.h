/* What the compiled slabs need of C: words of memory, and zeros. */
#pragma once
#include <Python.h>
#include <stdint.h>
#include <string.h>

static inline void wend_slab_put(long long address, long long word) {
    *(int64_t *)(intptr_t)address = word;
}

static inline long long wend_slab_get(long long address) {
    return *(int64_t *)(intptr_t)address;
}

static inline void wend_slab_clear(long long address, Py_ssize_t n) {
    memset((void *)(intptr_t)address, 0, (size_t)n);
}
