/* Reads digits with a net that wend.aot.compile has made a library of: no Python runs here.

   aot_digits digits.safetensors IMAGES     prints the digit of each image of 8 x 8 floats
   examples/aot_digits.py builds and runs it. */
#include <stdio.h>
#include <stdlib.h>

#include "digits.h"

enum { PIXELS = 64, CLASSES = 10, MOST = 2000 };

int main(int argc, char **argv) {
  static float images[MOST * PIXELS];
  FILE *file = argc == 3 ? fopen(argv[2], "rb") : NULL;
  if (!file) return fprintf(stderr, "usage: aot_digits WEIGHTS IMAGES\n"), 2;
  int64_t count = (int64_t)fread(images, PIXELS * sizeof *images, MOST, file);
  fclose(file);

  digits_t *net = digits_new(argv[1]);
  if (!net) return fprintf(stderr, "%s\n", digits_error()), 1;
  digits_tensor batch = {
      .data = images, .dtype = DIGITS_FLOAT32, .ndim = 4, .shape = {count, 1, 8, 8}};
  digits_tensor scores = {0};
  if (digits_run(net, &batch, 1, &scores, 1))
    return fprintf(stderr, "%s\n", digits_error()), 1;

  for (int64_t i = 0; i < count; i++) {
    const float *row = (const float *)scores.data + i * CLASSES;
    int best = 0;
    for (int k = 1; k < CLASSES; k++)
      if (row[k] > row[best]) best = k;
    printf("%d\n", best);
  }
  digits_release(&scores);
  digits_free(net);
  return 0;
}
