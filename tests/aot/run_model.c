/* run_model WEIGHTS RESULT INPUT...: runs a model on arrays in files, and writes its only output.

   A file holds the tensor's struct and then the elements. */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

int main(int argc, char **argv) {
  model_t *m = model_new(argv[1]);
  if (!m) return puts(model_error()), 1;
  int n = argc - 3;
  model_tensor *in = calloc((size_t)n + 1, sizeof *in), out = {0};
  for (int k = 0; k < n; k++) {
    FILE *file = fopen(argv[3 + k], "rb");
    if (!file || fread(&in[k], sizeof in[k], 1, file) != 1) return 2;
    in[k].data = malloc((size_t)in[k].nbytes + 1);
    if (fread(in[k].data, 1, (size_t)in[k].nbytes, file) != (size_t)in[k].nbytes) return 2;
    fclose(file);
  }
  if (model_run(m, in, n, &out, 1)) return puts(model_error()), 1;
  FILE *file = fopen(argv[2], "wb");
  fwrite(&out, sizeof out, 1, file);
  fwrite(out.data, 1, (size_t)out.nbytes, file);
  fclose(file);
  for (int k = 0; k < n; k++) free(in[k].data);
  free(in);
  model_release(&out);
  model_free(m);
  return 0;
}
