/* What the compiled launcher needs of C: addresses of arrays, words of memory, calls of kernels. */
#pragma once
#include <Python.h>
#include <stdint.h>
#include <time.h>
#include "_huge_pages.h"
#include "_pool.h"

#define WEND_LAUNCH_COMPILED 1

/* Tell what arrays are: NumPy's class, the capsule of its C functions, and `numpy.empty`. */
static void wend_set_arrays(PyObject *cls, PyObject *capsule, PyObject *empty) {
    void **functions = wend_arrays_of(cls, capsule, empty);
    if (functions != NULL) wend_use_blocks(functions);
}

static inline Py_ssize_t wend_references(PyObject *object) { return Py_REFCNT(object); }

static inline void wend_put(long long address, long long word) {
    *(int64_t *)(intptr_t)address = word;
}

static inline void wend_put_double(long long address, double number) {
    *(double *)(intptr_t)address = number;
}

static inline long long wend_get(long long address) {
    return *(int64_t *)(intptr_t)address;
}

/* patches: n times (address of a word, place in the table, offset in bytes) */
static void wend_patch(long long patches, Py_ssize_t n, long long table) {
    const int64_t *p = (const int64_t *)(intptr_t)patches;
    const int64_t *t = (const int64_t *)(intptr_t)table;
    for (Py_ssize_t k = 0; k < n; k++, p += 3) *(int64_t *)(intptr_t)p[0] = t[p[1]] + p[2];
}

/* Blocks first .. first + n - 1 of Philox4x32-10, four words each: see `ops/philox.py`. */
static void wend_philox(long long out, long long n, unsigned long long first,
                        unsigned long long seed, unsigned int kind, unsigned int retry) {
    uint32_t *to = (uint32_t *)(intptr_t)out;
    for (long long i = 0; i < n; i++, to += 4) {
        uint64_t block = first + (uint64_t)i;
        uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = kind, c3 = retry;
        uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
            c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
            c1 = (uint32_t)p1;
            c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
            c3 = (uint32_t)p0;
        }
        to[0] = c0, to[1] = c1, to[2] = c2, to[3] = c3;
    }
}

/* Nanoseconds of a run between two looks for signals: each waits for the interpreter lock, which
   another thread may hold for some milliseconds. */
static int64_t wend_look_after = 200000000;

static void wend_set_look(long long nanoseconds) { wend_look_after = nanoseconds; }

typedef struct {
    PyThreadState *thread;
    int64_t next; /* when to look */
} wend_watch;

static inline int64_t wend_now(void) {
    struct timespec now;
#if defined(_WIN32)
    timespec_get(&now, TIME_UTC);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Run the handlers of signals that have come meanwhile; whether one of them has raised. */
static int wend_look(void *given) {
    wend_watch *watch = given;
    if (wend_now() < watch->next) return 0;
    PyEval_RestoreThread(watch->thread);
    int raised = PyErr_CheckSignals() < 0;
    watch->thread = PyEval_SaveThread();
    watch->next = wend_now() + wend_look_after;
    return raised;
}

/* code: n calls, in groups (see _pool.h). scratch: `room` bytes for this thread
   stoppable: whether what a signal handler raises ends the run, with -1 */
static int wend_run_kernels(long long code, Py_ssize_t n, int release, long long scratch,
                            Py_ssize_t room, int stoppable) {
    const int64_t *calls = (const int64_t *)(intptr_t)code;
    char *memory = (char *)(intptr_t)scratch;
    wend_stop stop = {NULL, NULL};
    if (!release) {
        wend_run_alone(calls, n, memory, stop);
        return 0;
    }
    wend_watch watch = {PyEval_SaveThread(), 0};
    if (stoppable) {
        watch.next = wend_now() + wend_look_after;
        stop.asks = wend_look;
        stop.given = &watch;
    }
    int stopped = wend_run_groups(calls, n, memory, (size_t)room, stop);
    PyEval_RestoreThread(watch.thread);
    return stopped ? -1 : 0;
}
