"""The texts of a library: its C header, and its C file."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Final

from wend._engine.compiler.aot.graph_code import GraphCode
from wend._engine.compiler.aot.pattern_code import DTYPES, MOST_DIMS, KernelSymbols, quoted
from wend._engine.compiler.aot.recorded_path import LibraryWeight

#: The results of a run, by number.
_CODES: Final = ("OK", "BAD_CALL", "WRONG_SIZES", "NO_MEMORY", "NO_ROOM", "BAD_VALUE", "RAISED")
_HEADER: Final = """\
/* NAME: made by wend.aot.compile; no Python runs.

   A program gets a model, runs it as often as it likes, and frees it:

       NAME_t *model = NAME_new("NAME.safetensors");
       if (!model) puts(NAME_error());
       NAME_tensor x = {.data = numbers, .dtype = ..., .ndim = ..., .shape = {...}}, y = {0};
       if (NAME_run(model, &x, 1, &y, 1)) puts(NAME_error());
       NAME_release(&y);
       NAME_free(model);

   Several threads may run one model at the same time.

PURPOSE */

#ifndef NAME_H
#define NAME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. */
enum { TYPES };

/* Results of NAME_run.
   BAD_CALL     a null pointer, or a wrong number of inputs or outputs
   WRONG_SIZES  inputs of other types or sizes than the model is for
   NO_MEMORY    there is no memory
   NO_ROOM      an output has less bytes than the result
   BAD_VALUE    an op met a value that it cannot take, such as an index out of range
   RAISED       the model's own code raises an error for these inputs */
enum { CODES };

/* An array, its elements in C order without gaps.
   data      the elements; NULL in an output: the library takes memory, see NAME_release
   nbytes    of an output: the bytes at `data`
   shape     the extents; NAME_run fills them in for outputs, with dtype and ndim */
typedef struct {
  int64_t shape[MOST_DIMS];
  int64_t nbytes;
  void *data;
  int32_t dtype;
  int32_t ndim;
} NAME_tensor;

typedef struct NAME_model NAME_t;

/* A model with the weights of a safetensors file; NULL on failure: see NAME_error. */
NAME_t *NAME_new(const char *path);

/* The same, with the bytes of such a file, which must lie at a multiple of 8 and stay there. */
NAME_t *NAME_new_from_memory(const void *bytes, int64_t nbytes);

/* Computes the outputs; UPPER_OK, or another of the codes above. Outputs may not overlap inputs. */
int NAME_run(NAME_t *model, const NAME_tensor *inputs, int n_inputs, NAME_tensor *outputs,
             int n_outputs);

/* Why the last call of this thread failed, as text. */
const char *NAME_error(void);

/* Gives back the memory that the library took for an output. */
void NAME_release(NAME_tensor *output);

void NAME_free(NAME_t *model);

/* Memory for callers from other languages. */
void *NAME_allocate(int64_t nbytes);
void NAME_deallocate(void *memory);

#ifdef __cplusplus
}
#endif

#endif
"""

_HEAD: Final = """\
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "NAME.h"

#define TENSOR NAME_tensor
#define MODEL NAME_t
#define ALIGNMENT 64
#if defined(__wasm__)
#define EXPORT __attribute__((visibility("default"), used))
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define HIDDEN __attribute__((visibility("hidden")))

#if defined(__wasm__)
#define OF_THREAD
#else
#define OF_THREAD _Thread_local
#endif
#define CODE(x) UPPER_##x

/* Memory of temporaries; the bytes begin behind it. */
typedef struct {
  int64_t room;
} Arena;

/* spare   memory that no call uses now */
struct NAME_model {
  const void *weights[N_WEIGHTS + 1];
  void *file;
  Arena *spare;
};

/* Memory with a count of the values that show it; so many bytes begin behind it. */
typedef struct {
  int64_t users, room;
} Bytes;

/* A tensor; bytes is NULL where the memory is a caller's, or a weight. */
typedef struct {
  char *data;
  Bytes *bytes;
  int64_t shape[MOST_DIMS];
} VALUE;

/* A call of NAME_run: all that changes while the model runs. */
typedef struct {
  const MODEL *model;
  const TENSOR *in;
  TENSOR *out;
  Arena *arena;
  int64_t fault;
  VALUE values[N_VALUES + 1];
  int64_t ints[N_NUMBERS + 1];
  double reals[N_NUMBERS + 1];
} CALL;

typedef struct {
  int64_t size, place;
  int first, last;
} Block;

typedef struct {
  const char *name, *code;
  int64_t nbytes, size;
  const char *shape;
} Weight;

static OF_THREAD char error_text[512];

DECLARATIONS

static inline int64_t floor_division(int64_t a, int64_t b) {
  return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t remainder_of(int64_t a, int64_t b) { return a - floor_division(a, b) * b; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }
static inline double floor_quotient(double a, double b) { return floor(a / b); }
static inline double real_remainder(double a, double b) { return a - floor(a / b) * b; }
static inline int64_t aligned(int64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }
static inline int64_t word_of(const void *p) { return (int64_t)(uintptr_t)p; }
static inline int64_t bits_of(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static int refuse(int code, const char *text) {
  snprintf(error_text, sizeof error_text, "NAME_run: %s", text);
  return code;
}

static int refuse_memory(void) { return refuse(CODE(NO_MEMORY), "there is no memory"); }

/* Tells the first of the failures that a kernel has noted, as bits. */
static inline int refuse_fault(CALL *c, const char *const *texts) {
  int k = 0;
  while (!(c->fault >> k & 1)) k++;
  return refuse(CODE(BAD_VALUE), texts[k]);
}

/* Tells for which inputs there is no code. */
static int refuse_sizes(CALL *c) {
  static const char *const names[] = {TYPE_NAMES};
  char *text = error_text, *end = text + sizeof error_text;
  text += snprintf(text, (size_t)(end - text), "NAME_run: no recorded pattern is for inputs of");
  for (int k = 0; k < N_INPUTS && text < end; k++) {
    const TENSOR *in = &c->in[k];
    const char *type = in->dtype >= 0 && in->dtype < N_TYPES ? names[in->dtype] : "?";
    text += snprintf(text, (size_t)(end - text), "%s %s (", k ? "," : "", type);
    for (int d = 0; d < in->ndim && d < MOST_DIMS && text < end; d++)
      text += snprintf(text, (size_t)(end - text), d ? ", %lld" : "%lld",
                       (long long)in->shape[d]);
    if (text < end) text += snprintf(text, (size_t)(end - text), ")");
  }
  if (text < end) snprintf(text, (size_t)(end - text), "; give wend.aot.compile such examples");
  return CODE(WRONG_SIZES);
}

/* Memory of a header and n bytes, all aligned; NULL if there is none. */
static void *memory_of(int64_t n) {
  if (n < 0 || n > INT64_MAX / 2 || (uint64_t)n > SIZE_MAX / 2) return NULL;
  return aligned_alloc(ALIGNMENT, (size_t)(aligned(n) + ALIGNMENT));
}

/* The bytes of a tensor; -1 if there are too many for 64 bits. */
static int64_t bytes_of(int size, int ndim, const int64_t *shape) {
  int64_t nbytes = size;
  for (int k = 0; k < ndim; k++)
    if (shape[k] < 0 || __builtin_mul_overflow(nbytes, shape[k], &nbytes)) return -1;
  return nbytes;
}

static Bytes *bytes_with(int64_t room) {
  Bytes *bytes = memory_of(room);
  if (bytes) *bytes = (Bytes){.users = 1, .room = room};
  return bytes;
}

static void drop(VALUE *v) {
  if (v->bytes && !--v->bytes->users) free(v->bytes);
  v->bytes = NULL;
}

static inline void lend(VALUE *v, const char *data, int ndim, const int64_t *shape) {
  drop(v);
  v->data = (char *)(uintptr_t)word_of(data);
  for (int k = 0; k < ndim; k++) v->shape[k] = shape[k];
}

static inline void share(VALUE *v, const VALUE *other) {
  if (other->bytes) other->bytes->users++;
  drop(v);
  *v = *other;
}

/* Memory for a new tensor; NULL if there is none. */
static inline char *fresh(VALUE *v, int size, int ndim, const int64_t *shape) {
  drop(v);
  v->bytes = bytes_with(bytes_of(size, ndim, shape));
  if (!v->bytes) return NULL;
  v->data = (char *)v->bytes + ALIGNMENT;
  for (int k = 0; k < ndim; k++) v->shape[k] = shape[k];
  return v->data;
}

/* Gives each block the lowest gap among those that live at the same time; returns all bytes. */
static inline int64_t place_blocks(Block *blocks, int n) {
  int64_t total = 0;
  for (int k = 0; k < n; k++) {
    int64_t at = 0, size = aligned(blocks[k].size);
    for (int j = 0; j < k; j++) {
      int64_t end = blocks[j].place + aligned(blocks[j].size);
      if (blocks[j].last >= blocks[k].first && blocks[k].last >= blocks[j].first &&
          blocks[j].place < at + size && at < end) {
        at = end;
        j = -1;
      }
    }
    blocks[k].place = at;
    total = greatest(total, at + size);
  }
  return total;
}

/* Appends rows to those of a list, which is empty then: in place, where nobody else has them. */
static inline int grow(VALUE *to, VALUE *list, const VALUE *item, int size, int ndim) {
  for (int k = 1; k < ndim; k++)
    if (list->shape[k] != item->shape[k])
      return refuse(CODE(WRONG_SIZES), "tensors of unlike sizes are joined");
  VALUE made = *list;
  made.shape[0] += item->shape[0];
  int64_t old = bytes_of(size, ndim, list->shape), all = bytes_of(size, ndim, made.shape);
  if (all < 0 || all > INT64_MAX / 4) return refuse_memory();
  if (!list->bytes || list->bytes->users > 1 || list->bytes->room < all) {
    made.bytes = bytes_with(2 * all);
    if (!made.bytes) made.bytes = bytes_with(all);
    if (!made.bytes) return refuse_memory();
    made.data = (char *)made.bytes + ALIGNMENT;
    if (old) memcpy(made.data, list->data, (size_t)old);
    drop(list);
  }
  if (all > old) memcpy(made.data + old, item->data, (size_t)(all - old));
  list->bytes = NULL;
  drop(to);
  *to = made;
  return 0;
}

static inline char *arena_of(CALL *c, int64_t bytes) {
  if (!c->arena || bytes > c->arena->room) {
    free(c->arena);
    c->arena = memory_of(bytes);
    if (!c->arena) return NULL;
    c->arena->room = bytes;
  }
  return (char *)c->arena + ALIGNMENT;
}

static int output_of(CALL *c, int k, int dtype, int size, int ndim, const int64_t *shape,
                     char **data) {
  TENSOR *out = &c->out[k];
  int64_t nbytes = bytes_of(size, ndim, shape);
  if (nbytes < 0 || (uint64_t)nbytes > SIZE_MAX / 2) return refuse_memory();
  if (out->data && out->nbytes < nbytes) {
    snprintf(error_text, sizeof error_text, "NAME_run: there is no room for output %d", k);
    return CODE(NO_ROOM);
  }
  if (!out->data) {
    out->data = malloc((size_t)greatest(nbytes, 1));
    if (!out->data) return refuse_memory();
    out->nbytes = nbytes;
  }
  for (int d = 0; d < ndim; d++) out->shape[d] = shape[d];
  out->dtype = dtype;
  out->ndim = ndim;
  *data = out->data;
  return 0;
}

static inline void copy_elements(char *to, const char *from, int size, int ndim,
                                 const int64_t *shape, const int64_t *steps) {
  if (ndim == 0) {
    memcpy(to, from, (size_t)size);
    return;
  }
  int64_t part = size;
  for (int k = 1; k < ndim; k++) part *= shape[k];
  for (int64_t i = 0; i < shape[0]; i++)
    copy_elements(to + i * part, from + i * steps[0] * size, size, ndim - 1, shape + 1, steps + 1);
}

static inline void copy_all(char *to, const char *from, int size, int ndim, const int64_t *shape) {
  int64_t nbytes = size;
  for (int k = 0; k < ndim; k++) nbytes *= shape[k];
  if (nbytes) memcpy(to, from, (size_t)nbytes);
}

static inline int give(CALL *c, int k, int dtype, int size, int ndim, const VALUE *v) {
  char *data;
  int failed = output_of(c, k, dtype, size, ndim, v->shape, &data);
  if (!failed) copy_all(data, v->data, size, ndim, v->shape);
  return failed;
}

static inline int refuse_many(const VALUE *v, int ndim) {
  int64_t n = bytes_of(1, ndim, v->shape);
  if (n == 1) return 0;
  return refuse(CODE(RAISED), "the value of a tensor is asked for that has not one element");
}

/* Whether the only element is not 0; half floats may be -0. */
static inline int truth_of(const VALUE *v, int dtype, int size, int ndim, int *answer) {
  int failed = refuse_many(v, ndim), floats = dtype >= UPPER_FLOAT16;
  for (int k = 0; !failed && k < size; k++)
    *answer |= (v->data[k] & (floats && k == size - 1 ? 0x7f : 0xff)) != 0;
  return failed;
}

static inline int read_int(const VALUE *v, int dtype, int ndim, int64_t *number) {
  int failed = refuse_many(v, ndim);
  if (failed) return failed;
  const void *p = v->data;
  switch (dtype) {
    case UPPER_INT8: *number = *(const int8_t *)p; break;
    case UPPER_INT16: *number = *(const int16_t *)p; break;
    case UPPER_INT32: *number = *(const int32_t *)p; break;
    case UPPER_INT64: *number = *(const int64_t *)p; break;
    default: *number = *(const uint8_t *)p;
  }
  return 0;
}

/* A float of 16 bits, with 5 of the exponent. */
static inline double half_of(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double x = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
             : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
  return bits >> 15 ? -x : x;
}

static inline int read_real(const VALUE *v, int dtype, int ndim, double *number) {
  int failed = refuse_many(v, ndim);
  if (failed) return failed;
  uint16_t bits;
  uint32_t wide;
  float single;
  switch (dtype) {
    case UPPER_FLOAT64: memcpy(number, v->data, 8); break;
    case UPPER_FLOAT16: memcpy(&bits, v->data, 2); *number = half_of(bits); break;
    case UPPER_BFLOAT16:
      memcpy(&bits, v->data, 2);
      wide = (uint32_t)bits << 16;
      memcpy(&single, &wide, 4);
      *number = single;
      break;
    default: memcpy(&single, v->data, 4); *number = single;
  }
  return 0;
}
"""

_TAIL: Final = """\
static const Weight weight_table[N_WEIGHTS + 1] = {WEIGHTS{0, 0, 0, 0, 0}};

/* The text behind a key of an object of JSON, within its braces; NULL if the key is not there. */
static const char *value_of(const char *text, const char *end, const char *key) {
  size_t n = strlen(key);
  for (const char *p = text; p + n + 2 < end; p++) {
    if (*p != '"' || strncmp(p + 1, key, n) || p[n + 1] != '"') continue;
    for (p += n + 2; p < end && (*p == ' ' || *p == ':'); p++) {}
    return p;
  }
  return NULL;
}

/* Whether two lists of numbers are the same but for spaces. */
static int same_list(const char *found, const char *end, const char *wanted) {
  for (; *wanted; wanted++, found++) {
    while (found < end && *found == ' ') found++;
    if (found >= end || *found != *wanted) return 0;
  }
  return 1;
}

static int find_weight(MODEL *m, int k, const char *header, int64_t length, const char *data,
                       int64_t room) {
  const Weight *w = &weight_table[k];
  const char *end = header + length, *entry = value_of(header, end, w->name);
  const char *stop = entry ? memchr(entry, '}', (size_t)(end - entry)) : NULL;
  if (!stop) {
    snprintf(error_text, sizeof error_text, "NAME_new: the file has no tensor %s", w->name);
    return -1;
  }
  const char *code = value_of(entry, stop, "dtype"), *shape = value_of(entry, stop, "shape");
  const char *place = value_of(entry, stop, "data_offsets");
  size_t n = strlen(w->code);
  if (!code || !shape || !place || strncmp(code + 1, w->code, n) || code[n + 1] != '"' ||
      !same_list(shape, stop, w->shape)) {
    snprintf(error_text, sizeof error_text, "NAME_new: %s is to be of type %s and shape %s",
             w->name, w->code, w->shape);
    return -1;
  }
  int64_t begin = strtoll(place + 1, NULL, 10);
  if (begin < 0 || begin > room - w->nbytes || word_of(data + begin) % w->size) {
    snprintf(error_text, sizeof error_text, "NAME_new: %s does not lie well in the file", w->name);
    return -1;
  }
  m->weights[k] = data + begin;
  return 0;
}

EXPORT NAME_t *NAME_new_from_memory(const void *bytes, int64_t nbytes) {
  uint64_t length = 0;
  if (bytes && nbytes >= 8) memcpy(&length, bytes, 8);
  if (!bytes || nbytes < 8 || length > (uint64_t)(nbytes - 8)) {
    snprintf(error_text, sizeof error_text, "NAME_new: this is no safetensors file");
    return NULL;
  }
  NAME_t *m = calloc(1, sizeof *m);
  if (!m) {
    snprintf(error_text, sizeof error_text, "NAME_new: there is no memory");
    return NULL;
  }
  const char *header = (const char *)bytes + 8;
  for (int k = 0; k < N_WEIGHTS; k++) {
    int64_t size = (int64_t)length;
    if (find_weight(m, k, header, size, header + size, nbytes - 8 - size)) {
      free(m);
      return NULL;
    }
  }
  return m;
}

EXPORT NAME_t *NAME_new(const char *path) {
  FILE *file = path ? fopen(path, "rb") : NULL;
  char *bytes = NULL;
  long size = -1;
  if (file && !fseek(file, 0, SEEK_END)) size = ftell(file);
  if (size >= 0) bytes = malloc((size_t)size + 1);
  if (bytes) {
    rewind(file);
    if (fread(bytes, 1, (size_t)size, file) != (size_t)size) size = -1;
  }
  if (file) fclose(file);
  if (!bytes || size < 0) {
    snprintf(error_text, sizeof error_text, "NAME_new: cannot read %s", path ? path : "(no path)");
    free(bytes);
    return NULL;
  }
  NAME_t *m = NAME_new_from_memory(bytes, size);
  if (m) m->file = bytes;
  else free(bytes);
  return m;
}

static int chosen(CALL *c) {
CHOICES
  return refuse_sizes(c);
}

EXPORT int NAME_run(NAME_t *m, const NAME_tensor *in, int n_inputs, NAME_tensor *out,
                    int n_outputs) {
  error_text[0] = 0;
  if (!m || (!in && n_inputs) || (!out && n_outputs) || n_inputs != N_INPUTS ||
      n_outputs != N_OUTPUTS)
    return refuse(CODE(BAD_CALL), "the model takes N_INPUTS inputs and gives N_OUTPUTS outputs");
  CALL c = {.model = m, .in = in, .out = out};
  for (int k = 0; k < n_inputs; k++) {
    if (in[k].ndim < 0 || in[k].ndim > MOST_DIMS ||
        bytes_of(8, in[k].ndim, in[k].shape) < 0)
      return refuse_sizes(&c);
    lend(&c.values[k], in[k].data, in[k].ndim, in[k].shape);
  }
  c.arena = __atomic_exchange_n(&m->spare, NULL, __ATOMIC_ACQ_REL);
  int failed = chosen(&c);
  for (int k = 0; k < N_VALUES; k++) drop(&c.values[k]);
  free(__atomic_exchange_n(&m->spare, c.arena, __ATOMIC_ACQ_REL));
  return failed;
}

EXPORT const char *NAME_error(void) { return error_text; }

EXPORT void NAME_release(NAME_tensor *output) {
  free(output->data);
  output->data = NULL;
}

EXPORT void NAME_free(NAME_t *m) {
  if (!m) return;
  free(m->spare);
  free(m->file);
  free(m);
}

EXPORT void *NAME_allocate(int64_t nbytes) { return malloc((size_t)nbytes); }
EXPORT void NAME_deallocate(void *memory) { free(memory); }
"""


def header(name: str, purpose: str) -> str:
    """Return the C header of a library.

    name: the beginning of all names
    purpose: lines about inputs and outputs
    """
    words = {
        "TYPES": _listed(name, [dtype.upper() for dtype in DTYPES]),
        "CODES": _listed(name, _CODES),
        "MOST_DIMS": str(MOST_DIMS),
        "PURPOSE": purpose,
    }
    return _filled(_HEADER, name, words)


def package(name: str) -> str:
    """Return the file for pkg-config, which holds in whatever folder the library lies."""
    return (
        "prefix=${pcfiledir}\n\n"
        f"Name: {name}\nDescription: a model, compiled by Wend\nVersion: 1\n"
        f"Cflags: -I${{prefix}}\nLibs: -L${{prefix}} -l{name}\nLibs.private: -lm\n"
    )


def _listed(name: str, rows: Sequence[str]) -> str:
    """Return the members of an enumeration, from 0."""
    lines = textwrap.wrap(
        ", ".join(f"{name.upper()}_{row} = {k}" for k, row in enumerate(rows)), 95
    )
    return "\n       ".join(lines)


def source(
    name: str,
    graphs: Sequence[GraphCode],
    weights: Sequence[LibraryWeight],
    symbols: KernelSymbols,
    n_outputs: int,
) -> str:
    """Return the C file of a library, which calls the kernels of `symbols`."""
    bodies = [text for graph in graphs for text in (graph.fits(), graph.run())]
    rows = [
        f'{{{quoted(w.name)}, "{w.code}", {w.nbytes}, {w.itemsize}, '
        f'"[{",".join(map(str, w.shape))}]"}}, '
        for w in weights
    ]
    choices = [f"  if (graph_fits_{g.number}(c)) return graph_run_{g.number}(c);" for g in graphs]
    sizes = [graph.frame.size for graph in graphs]
    words = {
        "DECLARATIONS": symbols.declarations(),
        "CHOICES": "\n".join(choices),
        "WEIGHTS": "".join(rows),
        "TYPE_NAMES": ", ".join(f'"{dtype}"' for dtype in DTYPES),
        "N_TYPES": str(len(DTYPES)),
        "N_WEIGHTS": str(len(weights)),
        "N_INPUTS": str(len(graphs[0].program.inputs)),
        "N_OUTPUTS": str(n_outputs),
        "N_VALUES": str(max(n for n, _ in sizes)),
        "N_NUMBERS": str(max(n for _, n in sizes)),
        "MOST_DIMS": str(MOST_DIMS),
    }
    # Bodies first: they find out which kernels are called.
    return "\n".join([_filled(_HEAD, name, words), *bodies, _filled(_TAIL, name, words)])


def _filled(text: str, name: str, words: dict[str, str]) -> str:
    """Return a text with its capitalized words replaced, each once."""
    words = {**words, "NAME_H": f"{name.upper()}_H", "UPPER": name.upper(), "NAME": name}
    longest_first = "|".join(sorted(words, key=len, reverse=True))
    return re.sub(f"(?<![A-Z_])({longest_first})(?![A-Z])", lambda m: words[m[1]], text)
