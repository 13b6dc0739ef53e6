/* What the compiled sorter needs of C: rows copied, and added. */
#pragma once
#include <Python.h>
#include <stdint.h>
#include <string.h>

static inline void wend_copy(long long target, long long source, Py_ssize_t n) {
    memcpy((void *)(intptr_t)target, (const void *)(intptr_t)source, (size_t)n);
}

static void wend_add32(long long target, long long source, Py_ssize_t n) {
    float *restrict t = (float *)(intptr_t)target;
    const float *restrict s = (const float *)(intptr_t)source;
    for (Py_ssize_t k = 0; k < n; k++) t[k] += s[k];
}

static void wend_add64(long long target, long long source, Py_ssize_t n) {
    double *restrict t = (double *)(intptr_t)target;
    const double *restrict s = (const double *)(intptr_t)source;
    for (Py_ssize_t k = 0; k < n; k++) t[k] += s[k];
}
