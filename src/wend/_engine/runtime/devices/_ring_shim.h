/* Launches by the functions of a driver, whose addresses the program has found. */
#pragma once
#include <Python.h>
#include <stdint.h>

/* Words of a launch: see `_ring.py`. */
#define WEND_LAUNCH_WORDS 5

typedef int (*wend_cl_set_arg)(void *kernel, unsigned index, size_t size, const void *value);
typedef int (*wend_cl_enqueue)(void *queue, void *kernel, unsigned dims, const size_t *offset,
                               const size_t *all, const size_t *group, unsigned n_events,
                               const void *events, void *event);
typedef int (*wend_cu_launch)(void *function, unsigned x, unsigned y, unsigned z, unsigned items,
                              unsigned items_y, unsigned items_z, unsigned shared, void *stream,
                              void **arguments, void **extra);

/* Enqueue n launches; the status of the first that fails, or 0. */
static int wend_launch_opencl(long long set_arg, long long enqueue, long long queue,
                              long long launches, Py_ssize_t n) {
    const int64_t *row = (const int64_t *)(intptr_t)launches;
    int status = 0;
    Py_BEGIN_ALLOW_THREADS
    for (; n > 0 && status == 0; n--, row += WEND_LAUNCH_WORDS) {
        void *kernel = (void *)(intptr_t)row[0];
        int64_t place = row[1];
        size_t items = (size_t)row[3], all = (size_t)row[2] * items;
        status = ((wend_cl_set_arg)(intptr_t)set_arg)(kernel, 1, sizeof place, &place);
        if (status == 0)
            status = ((wend_cl_enqueue)(intptr_t)enqueue)((void *)(intptr_t)queue, kernel, 1, NULL,
                                                          &all, &items, 0, NULL, NULL);
    }
    Py_END_ALLOW_THREADS
    return status;
}

/* Launch n launches; the status of the first that fails, or 0. The driver copies arguments. */
static int wend_launch_cuda(long long function, long long stream, long long ring,
                            long long launches, Py_ssize_t n) {
    const int64_t *row = (const int64_t *)(intptr_t)launches;
    int status = 0;
    Py_BEGIN_ALLOW_THREADS
    for (; n > 0 && status == 0; n--, row += WEND_LAUNCH_WORDS) {
        int64_t memory = ring, place = row[1];
        void *arguments[] = {&memory, &place};
        status = ((wend_cu_launch)(intptr_t)function)(
            (void *)(intptr_t)row[0], (unsigned)row[2], 1, 1, (unsigned)row[3], 1, 1, 0,
            (void *)(intptr_t)stream, arguments, NULL);
    }
    Py_END_ALLOW_THREADS
    return status;
}
