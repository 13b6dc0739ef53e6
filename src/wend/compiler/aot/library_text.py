"""The texts of a library: its C header, and its C file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from wend.compiler.aot.pattern_code import DTYPES, MOST_DIMS, KernelSymbols, PatternCode
from wend.compiler.aot.recorded_path import LibraryWeight

__all__ = ["header", "source"]

_HEADER: Final = """\
/* NAME: made by wend.aot.compile; no Python runs.

   A program gets a model, runs it as often as it likes, and frees it:

       NAME_t *model = NAME_new("NAME.safetensors");
       if (!model) puts(NAME_error(NULL));
       NAME_tensor x = {.data = numbers, .dtype = ..., .ndim = ..., .shape = {...}}, y = {0};
       if (NAME_run(model, &x, 1, &y, 1)) puts(NAME_error(model));
       NAME_release(&y);
       NAME_free(model);

   A model serves one thread at a time; several models may run side by side.

PURPOSE */

#ifndef NAME_H
#define NAME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. */
enum { TYPES };

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

/* A model with the weights of a safetensors file; NULL on failure: see NAME_error(NULL). */
NAME_t *NAME_new(const char *path);

/* The same, with the bytes of such a file, which must lie at a multiple of 8 and stay there. */
NAME_t *NAME_new_from_memory(const void *bytes, int64_t nbytes);

/* Computes the outputs; 0, or -1 on failure: see NAME_error. Outputs may not overlap inputs. */
int NAME_run(NAME_t *model, const NAME_tensor *inputs, int n_inputs, NAME_tensor *outputs,
             int n_outputs);

/* Why the last call failed; with NULL: why the last model was not made. */
const char *NAME_error(const NAME_t *model);

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

struct NAME_model {
  const void *weights[N_WEIGHTS + 1];
  void *file;
  char *memory;
  int64_t room;
  int64_t fault;
  char error[512];
};

typedef struct {
  int64_t size, place;
  int first, last;
} Block;

typedef struct {
  const char *name, *code;
  int64_t nbytes, size;
  const char *shape;
} Weight;

static char no_model[512];

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

static int refuse(MODEL *m, const char *text) {
  snprintf(m->error, sizeof m->error, "NAME_run: %s", text);
  return -1;
}

/* Tells the first of the failures that a kernel has noted, as bits. */
static inline int refuse_fault(MODEL *m, const char *const *texts) {
  int k = 0;
  while (!(m->fault >> k & 1)) k++;
  return refuse(m, texts[k]);
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

static char *arena_of(MODEL *m, int64_t bytes) {
  if (bytes > m->room || !m->memory) {
    free(m->memory);
    m->memory = malloc((size_t)(bytes + ALIGNMENT));
    m->room = m->memory ? bytes : 0;
    if (!m->memory) return NULL;
  }
  return (char *)(uintptr_t)aligned(word_of(m->memory));
}

static char *output_of(TENSOR *out, int dtype, int size, int ndim, const int64_t *shape) {
  int64_t nbytes = size;
  for (int k = 0; k < ndim; k++) nbytes *= out->shape[k] = shape[k];
  out->dtype = dtype;
  out->ndim = ndim;
  if (!out->data) {
    out->data = malloc((size_t)greatest(nbytes, 1));
    out->nbytes = nbytes;
  } else if (out->nbytes < nbytes) {
    return NULL;
  }
  return out->data;
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
    snprintf(no_model, sizeof no_model, "NAME_new: the file has no tensor %s", w->name);
    return -1;
  }
  const char *code = value_of(entry, stop, "dtype"), *shape = value_of(entry, stop, "shape");
  const char *place = value_of(entry, stop, "data_offsets");
  size_t n = strlen(w->code);
  if (!code || !shape || !place || strncmp(code + 1, w->code, n) || code[n + 1] != '"' ||
      !same_list(shape, stop, w->shape)) {
    snprintf(no_model, sizeof no_model, "NAME_new: %s is to be of type %s and shape %s", w->name,
             w->code, w->shape);
    return -1;
  }
  int64_t begin = strtoll(place + 1, NULL, 10);
  if (begin < 0 || begin > room - w->nbytes || word_of(data + begin) % w->size) {
    snprintf(no_model, sizeof no_model, "NAME_new: %s does not lie well in the file", w->name);
    return -1;
  }
  m->weights[k] = data + begin;
  return 0;
}

EXPORT NAME_t *NAME_new_from_memory(const void *bytes, int64_t nbytes) {
  uint64_t length = 0;
  if (bytes && nbytes >= 8) memcpy(&length, bytes, 8);
  if (!bytes || nbytes < 8 || length > (uint64_t)(nbytes - 8)) {
    snprintf(no_model, sizeof no_model, "NAME_new: this is no safetensors file");
    return NULL;
  }
  NAME_t *m = calloc(1, sizeof *m);
  if (!m) {
    snprintf(no_model, sizeof no_model, "NAME_new: there is no memory");
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
    snprintf(no_model, sizeof no_model, "NAME_new: cannot read %s", path ? path : "(no path)");
    free(bytes);
    return NULL;
  }
  NAME_t *m = NAME_new_from_memory(bytes, size);
  if (m) m->file = bytes;
  else free(bytes);
  return m;
}

/* Tells which inputs no recorded pattern fits. */
static int refuse_sizes(MODEL *m, const TENSOR *in) {
  static const char *const names[] = {TYPE_NAMES};
  char *text = m->error, *end = text + sizeof m->error;
  text += snprintf(text, (size_t)(end - text), "NAME_run: no recorded pattern is for inputs of");
  for (int k = 0; k < N_INPUTS && text < end; k++) {
    const char *type = in[k].dtype >= 0 && in[k].dtype < N_TYPES ? names[in[k].dtype] : "?";
    text += snprintf(text, (size_t)(end - text), "%s %s (", k ? "," : "", type);
    for (int d = 0; d < in[k].ndim && d < MOST_DIMS && text < end; d++)
      text += snprintf(text, (size_t)(end - text), d ? ", %lld" : "%lld",
                       (long long)in[k].shape[d]);
    if (text < end) text += snprintf(text, (size_t)(end - text), ")");
  }
  if (text < end) snprintf(text, (size_t)(end - text), "; give wend.aot.compile such examples");
  return -1;
}

EXPORT int NAME_run(NAME_t *m, const NAME_tensor *in, int n_inputs, NAME_tensor *out,
                    int n_outputs) {
  if (!m) return -1;
  m->error[0] = 0;
  m->fault = 0;
  if (n_inputs != N_INPUTS || n_outputs != N_OUTPUTS)
    return refuse(m, "the model takes N_INPUTS inputs and gives N_OUTPUTS outputs");
CHOICES
  return refuse_sizes(m, in);
}

EXPORT const char *NAME_error(const NAME_t *m) { return m ? m->error : no_model; }

EXPORT void NAME_release(NAME_tensor *output) {
  free(output->data);
  output->data = NULL;
}

EXPORT void NAME_free(NAME_t *m) {
  if (!m) return;
  free(m->memory);
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
    types = ", ".join(f"{name.upper()}_{dtype.upper()} = {k}" for k, dtype in enumerate(DTYPES))
    words = {"TYPES": types, "MOST_DIMS": str(MOST_DIMS), "PURPOSE": purpose}
    return _filled(_HEADER, name, words)


def source(
    name: str,
    patterns: Sequence[PatternCode],
    weights: Sequence[LibraryWeight],
    symbols: KernelSymbols,
) -> str:
    """Return the C file of a library, which calls the kernels of `symbols`."""
    bodies = [text for pattern in patterns for text in (pattern.fits(), pattern.run())]
    rows = [
        f'{{"{w.name}", "{w.code}", {w.nbytes}, {w.itemsize}, "[{",".join(map(str, w.shape))}]"}}, '
        for w in weights
    ]
    choices = [f"  if (fits_{p.number}(in)) return run_{p.number}(m, in, out);" for p in patterns]
    first = patterns[0].path
    words = {
        "DECLARATIONS": symbols.declarations(),
        "CHOICES": "\n".join(choices),
        "WEIGHTS": "".join(rows),
        "TYPE_NAMES": ", ".join(f'"{dtype}"' for dtype in DTYPES),
        "N_TYPES": str(len(DTYPES)),
        "N_WEIGHTS": str(len(weights)),
        "N_INPUTS": str(len(first.inputs)),
        "N_OUTPUTS": str(len(first.outputs)),
        "MOST_DIMS": str(MOST_DIMS),
    }
    # Bodies first: they find out which kernels are called.
    return "\n".join([_filled(_HEAD, name, words), *bodies, _filled(_TAIL, name, words)])


def _filled(text: str, name: str, words: dict[str, str]) -> str:
    """Return a text with its capitalized words replaced, each once."""
    words = {**words, "NAME_H": f"{name.upper()}_H", "NAME": name}
    longest_first = "|".join(sorted(words, key=len, reverse=True))
    return re.sub(f"(?<![A-Z_])({longest_first})(?![A-Z])", lambda m: words[m[1]], text)
