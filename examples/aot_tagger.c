/* Tags words with a net that wend.aot.compile has made a library of: no Python runs here.

   aot_tagger tagger.safetensors WORDS     prints the tags of each sentence, a digit for a word
   The file has a sentence after the other: how many words, and their numbers, as int64.
   examples/aot_tagger.py builds and runs it. */
#include <stdio.h>

#include "tagger.h"

enum { TAGS = 3, MOST = 64 };

int main(int argc, char **argv) {
  FILE *file = argc == 3 ? fopen(argv[2], "rb") : NULL;
  if (!file) return fprintf(stderr, "usage: aot_tagger WEIGHTS WORDS\n"), 2;
  tagger_t *net = tagger_new(argv[1]);
  if (!net) return fprintf(stderr, "%s\n", tagger_error()), 1;

  static int64_t words[MOST];
  static float scores[MOST * TAGS];
  int64_t length, stages;
  while (fread(&length, sizeof length, 1, file) == 1) {
    if (length < 1 || length > MOST || fread(words, 8, (size_t)length, file) != (size_t)length)
      return fprintf(stderr, "a sentence has a wrong length\n"), 1;
    tagger_tensor in = {.data = words, .dtype = TAGGER_INT64, .ndim = 1, .shape = {length}};
    tagger_tensor out[] = {{.data = scores, .nbytes = sizeof scores},
                           {.data = &stages, .nbytes = sizeof stages}};
    if (tagger_run(net, &in, 1, out, 2)) return fprintf(stderr, "%s\n", tagger_error()), 1;
    for (int64_t i = 0; i < length; i++) {
      const float *row = scores + i * TAGS;
      int best = row[1] > row[0];
      putchar('0' + (row[2] > row[best] ? 2 : best));
    }
    printf(" %d\n", (int)stages);
  }
  tagger_free(net);
  return 0;
}
