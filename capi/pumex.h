/* Pumex: GGUF models on any Vulkan GPU, or on the CPU. Made of capi/src/lib.rs: `make pumex.h` writes it. */

#ifndef PUMEX_H
#define PUMEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A model. */
typedef struct PumexModel PumexModel;

/* One sequence of ids, with the logits after the last of them. */
typedef struct PumexSequence PumexSequence;

/* What chooses ids. */
typedef struct PumexSampler PumexSampler;

/* Why the last call on this thread that failed did so. It stays until the next one fails. */
const char *pumex_last_error(void);

/* Opens a GGUF file. device is auto, cpu, vulkan or a device's name, or null for auto; n_ctx positions of a context, 0 for the
 * model's own. Null if that fails. */
PumexModel *pumex_model_open(const char *path, const char *device, uint32_t n_ctx);

/* Frees a model. Sequences and samplers of it go on. */
void pumex_model_free(PumexModel *model);

/* Ids of the vocabulary; 0 if there is no model. */
size_t pumex_n_vocab(const PumexModel *model);

/* Whether an id ends a text or a turn. */
bool pumex_is_end(const PumexModel *model, uint32_t id);

/* Writes the ids of a text, as many as there is room for, and gives how many there are; negative if that fails. add_special: with
 * those that begin every text; parse_special: special tokens are read out of it. */
int64_t pumex_tokenize(const PumexModel *model, const char *content, bool add_special, bool parse_special, uint32_t *ids, size_t room);

/* Writes the bytes of an id, as many as there is room for and without a zero behind them, and gives how many there are; negative if
 * that fails. They may be a part of a character. */
int64_t pumex_token_bytes(const PumexModel *model, uint32_t id, uint8_t *bytes, size_t room);

/* Loads the model for a sequence of its own. Null if that fails. */
PumexSequence *pumex_sequence_new(const PumexModel *model);

/* Frees a sequence. */
void pumex_sequence_free(PumexSequence *sequence);

/* Goes on with ids. Gives the logits after the last of them, one for each id of the vocabulary, which stay until the sequence is used
 * again; null if that fails. */
const float *pumex_step(PumexSequence *sequence, const uint32_t *ids, size_t count);

/* Forgets ids from a position on. Gives how many are held now: fewer where a state cannot go back; negative if that fails. */
int64_t pumex_forget(PumexSequence *sequence, size_t from);

/* What chooses ids: by temperature (0: the most probable), the top_k most probable (0: all), those that reach top_p together, a
 * seed (negative: of the clock), within a grammar in llama.cpp's notation, or null for none. Null if that fails. */
PumexSampler *pumex_sampler_new(const PumexModel *model, float temperature, int32_t top_k, float top_p, int64_t seed, const char *grammar);

/* Frees a sampler. */
void pumex_sampler_free(PumexSampler *sampler);

/* The next id by the sequence's logits, which is taken as the next of the text; negative if that fails. */
int64_t pumex_sample(PumexSampler *sampler, const PumexSequence *sequence);

#ifdef __cplusplus
}
#endif

#endif
