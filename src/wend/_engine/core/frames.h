/* The line that runs, and the thread that runs it.
 * CPython 3.11 keeps frames as structs, which are read directly.  All other versions, and builds with
 * WEND_PUBLIC_FRAMES, call PyEval_GetFrame. */
#ifndef WEND_FRAMES_H
#define WEND_FRAMES_H
#include <Python.h>

static int wend_lasti = 0;

/* Code object of the running Python frame; its instruction offset goes to wend_lasti. */
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000 && !defined(WEND_PUBLIC_FRAMES)
/* What 3.11 keeps of a running function, up to what is read here.  The public functions below
 * would make a frame object for each call of a user's function. */
typedef struct wend_frame {
    PyFunctionObject *function;
    PyObject *globals, *builtins, *locals;
    PyCodeObject *code;
    PyFrameObject *frame_object;
    struct wend_frame *previous;
    _Py_CODEUNIT *last;
    int stacktop;
    char is_entry, owner;
} wend_frame_t;

static inline PyObject *wend_code_of(size_t thread) /* borrowed */
{
    wend_frame_t *frame = (wend_frame_t *)((PyThreadState *)thread)->cframe->current_frame;
    while (frame != NULL) {
        _Py_CODEUNIT *first = (_Py_CODEUNIT *)frame->code->co_code_adaptive;
        if (frame->owner == 1 || frame->last >= first + frame->code->_co_firsttraceable) {
            wend_lasti = (int)((frame->last - first) * sizeof(_Py_CODEUNIT));
            return (PyObject *)frame->code;
        }
        frame = frame->previous; /* not begun yet, unless it is a generator's (1) */
    }
    wend_lasti = 0;
    return Py_None;
}

static inline PyObject *wend_current_code(void)
{
    return Py_NewRef(wend_code_of((size_t)PyThreadState_Get()));
}
#else
static inline PyObject *wend_current_code(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    if (frame == NULL) {
        wend_lasti = 0;
        Py_RETURN_NONE;
    }
    wend_lasti = PyFrame_GetLasti(frame);
    return (PyObject *)PyFrame_GetCode(frame);
}

static inline PyObject *wend_code_of(size_t thread) /* borrowed: its frame keeps it */
{
    (void)thread; /* the one that runs */
    PyObject *code = wend_current_code();
    Py_DECREF(code);
    return code;
}
#endif

static inline int wend_current_lasti(void) { return wend_lasti; }
static PyObject *wend_line; /* borrowed: the code object that was found last */

/* The thread that runs, and what it is known by: other threads may get its address after its end. */
static inline size_t wend_this_thread(void) { return (size_t)PyThreadState_Get(); }

static inline long long wend_id_of(size_t thread)
{
    return (long long)((PyThreadState *)thread)->id;
}

static inline long long wend_thread_id(void) { return wend_id_of(wend_this_thread()); }
#endif
