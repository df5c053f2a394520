/* `wrong MODEL OTHER`: calls of which each fails with a message; OTHER is a file that is no model. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pumex.h"

static int errors = 0;
static int silent = 0;

/* Whether a call failed, with a message that has this in it. */
static void expect(int failed, const char *what, const char *said) {
  const char *found = pumex_last_error();
  if (!failed || !strstr(found, said)) {
    fprintf(stderr, "%s: expected an error that says %s, found %s %s\n", what, said, failed ? "one that says" : "none after", found);
    silent = 1;
  }
  errors++;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  uint32_t ids[64], far = 4000000000u;
  uint8_t bytes[64];
  expect(!pumex_model_open(NULL, NULL, 0), "open", "path: expected a pointer");
  expect(!pumex_model_open("no-such.gguf", "cpu", 0), "open", "no-such.gguf");
  expect(!pumex_model_open("\xff", "cpu", 0), "open", "UTF-8");
  expect(!pumex_model_open(argv[2], "cpu", 0), "open", argv[2]);

  expect(pumex_n_vocab(NULL) == 0, "n_vocab", "model: expected a pointer");
  expect(!pumex_is_end(NULL, 0), "is_end", "model: expected a pointer");
  expect(pumex_tokenize(NULL, "a", true, true, ids, 64) < 0, "tokenize", "model: expected a pointer");
  expect(pumex_token_bytes(NULL, 0, bytes, 64) < 0, "token_bytes", "model: expected a pointer");
  expect(!pumex_sequence_new(NULL), "sequence_new", "model: expected a pointer");
  expect(!pumex_step(NULL, ids, 1), "step", "sequence: expected a pointer");
  expect(pumex_forget(NULL, 0) < 0, "forget", "sequence: expected a pointer");
  expect(!pumex_sampler_new(NULL, 0.0f, 0, 1.0f, 1, NULL), "sampler_new", "model: expected a pointer");
  expect(pumex_sample(NULL, NULL) < 0, "sample", "sampler: expected a pointer");

  PumexModel *model = pumex_model_open(argv[1], "cpu", 16);
  if (!model) return fprintf(stderr, "open: %s\n", pumex_last_error()), 1;
  expect(pumex_tokenize(model, NULL, true, true, ids, 64) < 0, "tokenize", "content: expected a pointer");
  expect(pumex_tokenize(model, "\xff", true, true, ids, 64) < 0, "tokenize", "UTF-8");
  expect(pumex_tokenize(model, "a stone", true, true, NULL, 64) < 0, "tokenize", "ids: expected a pointer");
  expect(pumex_token_bytes(model, far, bytes, 64) < 0, "token_bytes", "4000000000");
  expect(!pumex_sampler_new(model, (float)NAN, 0, 1.0f, 1, NULL), "sampler_new", "temperature");
  expect(!pumex_sampler_new(model, 0.0f, 0, 1.0f, 1, "root ::= x"), "sampler_new", "x");
  expect(!pumex_sampler_new(model, 0.0f, 0, 1.0f, 1, "\xff"), "sampler_new", "UTF-8");

  /* What there is no room for is counted: no error. */
  int64_t count = pumex_tokenize(model, "a stone", true, true, NULL, 0);
  if (count <= 0 || count != pumex_tokenize(model, "a stone", true, true, ids, 64)) silent = 1;

  PumexSequence *sequence = pumex_sequence_new(model);
  PumexSampler *sampler = pumex_sampler_new(model, 0.0f, 0, 1.0f, 1, NULL);
  if (!sequence || !sampler) return fprintf(stderr, "new: %s\n", pumex_last_error()), 1;
  expect(pumex_sample(sampler, sequence) < 0, "sample", "logits: expected");
  expect(pumex_sample(sampler, NULL) < 0, "sample", "sequence: expected a pointer");
  expect(!pumex_step(sequence, NULL, 1), "step", "ids: expected a pointer");
  expect(!pumex_step(sequence, ids, 0), "step", "ids: expected at least one");
  expect(!pumex_step(sequence, &far, 1), "step", "4000000000");
  uint32_t many[17] = {0};
  expect(!pumex_step(sequence, many, 17), "step", "n_ctx");

  /* After all that it works. A sequence and a sampler outlive their model. */
  pumex_model_free(model);
  if (!pumex_step(sequence, ids, (size_t)count) || pumex_sample(sampler, sequence) < 0) silent = 1;
  pumex_sampler_free(sampler);
  pumex_sequence_free(sequence);
  pumex_model_free(NULL);
  pumex_sequence_free(NULL);
  pumex_sampler_free(NULL);
  printf("%d errors\n", errors);
  return silent;
}
