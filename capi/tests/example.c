/* What a program in C does: `example MODEL PROMPT COUNT` writes a prompt and how it goes on. */

#include <stdio.h>
#include <stdlib.h>

#include "pumex.h"

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, pumex_last_error());
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: example MODEL PROMPT COUNT\n");
    return 2;
  }
  PumexModel *model = pumex_model_open(argv[1], "cpu", 256);
  if (!model) return failed("open");
  uint32_t ids[256];
  int64_t count = pumex_tokenize(model, argv[2], true, false, ids, 256);
  if (count < 0 || count > 256) return failed("tokenize");
  PumexSequence *sequence = pumex_sequence_new(model);
  if (!sequence) return failed("sequence");
  PumexSampler *sampler = pumex_sampler_new(model, 0.0f, 40, 0.95f, 1, NULL);
  if (!sampler) return failed("sampler");
  if (!pumex_step(sequence, ids, (size_t)count)) return failed("step");
  for (int i = 0; i < atoi(argv[3]); i++) {
    int64_t id = pumex_sample(sampler, sequence);
    if (id < 0) return failed("sample");
    if (pumex_is_end(model, (uint32_t)id)) break;
    uint8_t bytes[256];
    int64_t size = pumex_token_bytes(model, (uint32_t)id, bytes, sizeof bytes);
    if (size < 0 || size > (int64_t)sizeof bytes) return failed("bytes");
    fwrite(bytes, 1, (size_t)size, stdout);
    uint32_t next = (uint32_t)id;
    if (!pumex_step(sequence, &next, 1)) return failed("step");
  }
  if (pumex_step(sequence, ids, 0)) return failed("expected no logits of no ids");
  if (pumex_forget(sequence, 1) != 1) return failed("forget");
  pumex_sampler_free(sampler);
  pumex_sequence_free(sequence);
  pumex_model_free(model);
  pumex_model_free(NULL);
  return 0;
}
