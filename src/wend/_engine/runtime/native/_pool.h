/* A pool of threads that takes the parts of a kernel one by one.

   Groups of calls run one group after the other; the calls of a group are independent. Whoever
   comes first takes the next call: a thread that a busy neighbour holds up delays the one call that
   it has taken. Idle threads sleep, after looking for more work for some microseconds, or, where it
   is likely to come, for about as long as a call takes: to be woken takes tens of microseconds, and
   whoever was is late for the next group, so that the others go to sleep in turn. A thread that
   finds itself on the processor of the one that flushes would only be in its way: it sleeps.

   The thread that flushes asks between calls, every now and then, whether to stop: an interrupt of
   the program waits for one call at most. The calls that others have begun are waited for.

   A call is five words: function, block, calls in this group (0 but for the first of a group),
   address and number of pairs (address of a word, offset): words that get the address of memory
   that the calling thread has to itself. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define WEND_CALL_WORDS 5

static inline void wend_call(const int64_t *call, char *scratch) {
    const int64_t *pair = (const int64_t *)(intptr_t)call[3];
    for (int64_t k = 0; k < call[4]; k++, pair += 2)
        *(int64_t *)(intptr_t)pair[0] = (int64_t)(intptr_t)(scratch + pair[1]);
    ((void (*)(void *))(intptr_t)call[0])((void *)(intptr_t)call[1]);
}

/* Whether to stop; 0 or more, as often as is worth the time. */
typedef struct {
    int (*asks)(void *); /* NULL: never */
    void *given;
} wend_stop;

static inline int wend_stops(wend_stop stop) { return stop.asks != NULL && stop.asks(stop.given); }

/* Calls in this thread, one by one; whether they were stopped. */
static inline int wend_run_alone(const int64_t *calls, ptrdiff_t n, char *scratch, wend_stop stop) {
    for (ptrdiff_t k = 0; k < n; k++) {
        wend_call(calls + WEND_CALL_WORDS * k, scratch);
        if (wend_stops(stop)) return 1;
    }
    return 0;
}

#if defined(_WIN32)

static void wend_set_threads(int n) { (void)n; }

static int wend_run_groups(const int64_t *calls, ptrdiff_t n, char *scratch, size_t room,
                           wend_stop stop) {
    (void)room;
    return wend_run_alone(calls, n, scratch, stop);
}

#else

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#define WEND_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define WEND_PAUSE() __asm__ __volatile__("yield")
#else
#define WEND_PAUSE() ((void)0)
#endif

/* Nanoseconds of looking before sleeping: for a next flush, and for what is under way in this one;
   turns from one look at the clock to the next. */
#define WEND_LATER 20000
#define WEND_SOON 200000
#define WEND_TURNS 64
#define WEND_MOST_THREADS 256

#if defined(__linux__) && defined(_GNU_SOURCE)
#include <sched.h>
#define WEND_PROCESSOR() sched_getcpu()
#else
#define WEND_PROCESSOR() (-1)
#endif

/* What is to be done: 24 bits that differ from group to group, calls in the group, next call. A
   call is taken by adding 1 to what was read before: that fails if anything has changed. */
#define WEND_TICKET(round, count) ((uint64_t)((round) & 0xffffff) << 40 | (uint64_t)(count) << 20)
#define WEND_COUNT(ticket) ((ticket) >> 20 & 0xfffff)
#define WEND_NEXT(ticket) ((ticket) & 0xfffff)

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    _Atomic uint64_t ticket;
    _Atomic uintptr_t calls;
    _Atomic size_t room;      /* bytes of memory that a thread needs for a call */
    _Atomic uint64_t finished;
    _Atomic int sleepers, waiting, threads, owned;
    _Atomic int place;        /* processor of the thread that flushes */
    int started;
    uint64_t round;
} wend_pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
               0, 0, 0, 0, 0, 0, 1, 0, -1, 0, 0};

/* Takes one call and makes it; 0 if there is none. */
static int wend_take(char *scratch, size_t room) {
    uint64_t ticket = atomic_load(&wend_pool.ticket);
    if (WEND_NEXT(ticket) >= WEND_COUNT(ticket)) return 0;
    const int64_t *calls = (const int64_t *)atomic_load(&wend_pool.calls);
    if (atomic_load(&wend_pool.room) > room) return 0;
    if (!atomic_compare_exchange_strong(&wend_pool.ticket, &ticket, ticket + 1)) return 1;
    wend_call(calls + WEND_CALL_WORDS * WEND_NEXT(ticket), scratch);
    if (atomic_fetch_add(&wend_pool.finished, 1) + 1 == WEND_COUNT(ticket) &&
        atomic_load(&wend_pool.waiting)) {
        pthread_mutex_lock(&wend_pool.lock);
        pthread_cond_signal(&wend_pool.done);
        pthread_mutex_unlock(&wend_pool.lock);
    }
    return 1;
}

/* Whether one who has looked in vain for so many turns, as counted here, has done so for long. */
static int wend_tired(int *turns, int64_t *since, int64_t patience) {
    struct timespec now;
    WEND_PAUSE();
    if (++*turns % WEND_TURNS) return 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t at = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (*turns == WEND_TURNS) *since = at;
    return at - *since > patience;
}

static int wend_work_left(void) {
    uint64_t ticket = atomic_load(&wend_pool.ticket);
    return WEND_NEXT(ticket) < WEND_COUNT(ticket);
}

static void *wend_worker(void *number) {
    int mine = (int)(intptr_t)number;
    char *scratch = NULL;
    size_t room = 0;
    for (;;) {
        int turns = 0, tired = 0;
        int64_t since = 0;
        while (!tired && mine < atomic_load(&wend_pool.threads)) {
            int here = WEND_PROCESSOR();
            if (here >= 0 && here == atomic_load(&wend_pool.place)) break;
            size_t needed = atomic_load(&wend_pool.room);
            if (needed > room && wend_work_left()) {
                free(scratch);
                scratch = NULL;
                room = 0;
                if (posix_memalign((void **)&scratch, 64, needed) != 0) break; /* others do it */
                room = needed;
            }
            if (wend_take(scratch, room))
                turns = 0;
            else
                tired = wend_tired(&turns, &since,
                                   atomic_load(&wend_pool.owned) ? WEND_SOON : WEND_LATER);
        }
        pthread_mutex_lock(&wend_pool.lock);
        atomic_fetch_add(&wend_pool.sleepers, 1);
        if (!tired || !wend_work_left())
            pthread_cond_wait(&wend_pool.work, &wend_pool.lock);
        atomic_fetch_sub(&wend_pool.sleepers, 1);
        pthread_mutex_unlock(&wend_pool.lock);
    }
    return NULL;
}

/* In the child of a fork there is one thread, and what others were about is theirs. */
static void wend_pool_forked(void) {
    pthread_mutex_init(&wend_pool.lock, NULL);
    pthread_cond_init(&wend_pool.work, NULL);
    pthread_cond_init(&wend_pool.done, NULL);
    atomic_store(&wend_pool.ticket, 0);
    atomic_store(&wend_pool.sleepers, 0);
    atomic_store(&wend_pool.waiting, 0);
    atomic_store(&wend_pool.owned, 0);
    wend_pool.started = 0;
}

static void wend_set_threads(int n) {
    atomic_store(&wend_pool.threads, n < WEND_MOST_THREADS ? n : WEND_MOST_THREADS);
}

/* Starts what threads are missing; called by the one who owns the pool. */
static void wend_start_threads(void) {
    static int prepared = 0;
    int wanted = atomic_load(&wend_pool.threads) - 1;
    if (wend_pool.started >= wanted) return;
    if (!prepared) {
        pthread_atfork(NULL, NULL, wend_pool_forked);
        prepared = 1;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the interpreter's threads */
    while (wend_pool.started < wanted) {
        pthread_t thread;
        void *number = (void *)(intptr_t)(wend_pool.started + 1);
        if (pthread_create(&thread, NULL, wend_worker, number) != 0) break;
        pthread_detach(thread);
        wend_pool.started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* No further call of this group is taken; those under way end first. */
static void wend_withdraw(void) {
    uint64_t taken = WEND_NEXT(atomic_exchange(&wend_pool.ticket, WEND_TICKET(wend_pool.round, 0)));
    struct timespec moment = {0, 50000};
    while (atomic_load(&wend_pool.finished) != taken) nanosleep(&moment, NULL);
}

/* One group, with the pool's help; whether it was stopped. */
static int wend_share(const int64_t *calls, uint64_t count, char *scratch, size_t room,
                      wend_stop stop) {
    atomic_store(&wend_pool.place, WEND_PROCESSOR());
    atomic_store(&wend_pool.finished, 0);
    atomic_store(&wend_pool.calls, (uintptr_t)calls);
    atomic_store(&wend_pool.room, room);
    atomic_store(&wend_pool.ticket, WEND_TICKET(++wend_pool.round, count));
    if (atomic_load(&wend_pool.sleepers) > 0) {
        pthread_mutex_lock(&wend_pool.lock);
        pthread_cond_broadcast(&wend_pool.work);
        pthread_mutex_unlock(&wend_pool.lock);
    }
    while (wend_take(scratch, room)) {
        if (wend_stops(stop)) {
            wend_withdraw();
            return 1;
        }
    }
    int turns = 0;
    int64_t since = 0;
    do {
        if (atomic_load(&wend_pool.finished) == count) return 0;
    } while (!wend_tired(&turns, &since, WEND_SOON));
    pthread_mutex_lock(&wend_pool.lock);
    atomic_store(&wend_pool.waiting, 1);
    while (atomic_load(&wend_pool.finished) != count)
        pthread_cond_wait(&wend_pool.done, &wend_pool.lock);
    atomic_store(&wend_pool.waiting, 0);
    pthread_mutex_unlock(&wend_pool.lock);
    return wend_stops(stop);
}

/* Groups of calls; whether they were stopped. scratch: `room` bytes for the calls of this thread.
   One thread at a time has the pool; another that comes meanwhile does its calls itself. */
static int wend_run_groups(const int64_t *calls, ptrdiff_t n, char *scratch, size_t room,
                           wend_stop stop) {
    int single = atomic_load(&wend_pool.threads) < 2, stopped = 0;
    if (single || atomic_exchange(&wend_pool.owned, 1))
        return wend_run_alone(calls, n, scratch, stop);
    wend_start_threads();
    for (ptrdiff_t k = 0; k < n && !stopped;) {
        const int64_t *group = calls + WEND_CALL_WORDS * k;
        if (group[2] > 1 && wend_pool.started > 0)
            stopped = wend_share(group, (uint64_t)group[2], scratch, room, stop);
        else
            stopped = wend_run_alone(group, group[2], scratch, stop);
        k += group[2];
    }
    atomic_store(&wend_pool.owned, 0);
    return stopped;
}

#endif
