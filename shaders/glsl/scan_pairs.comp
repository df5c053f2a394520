// What rows of a window, CHUNK rows of the step, are to each other in a recurrence, for scan_chunks: the first row of a window that is
// of a sequence takes the state, and the others need no state but that one.
//
// With fade[t, s] the product of what a column fades by after row s up to row t:
//   among[t, s] = Σ k_t fade[t, s] k_s for s < t, of the delta rule;  read[t, s] = Σ q_t fade[t, s] k_s for s <= t
//   written = (1 + rates among)^-1 rates, so that row t writes Σ written[t, s] (v_s - what the first state has for it)
//   result = read written
// Rows of other sequences are nothing to each other. Decays are multiplied row by row: no sum of logarithms overflows.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 28) const uint CHUNK = 16;
layout(constant_id = 29) const uint PARTS = 8; // threads of a row, CHUNK * PARTS of a workgroup
#include "lib/scan.glsl"
const uint EACH = (K_DIM + PARTS - 1) / PARTS; // columns of a thread
const uint WIDE = PARTS * EACH + 1;            // odd, mostly: rows start in different banks
const uint PAIRS = CHUNK * CHUNK;
const bool BY_COLUMN = DECAYS == 2 || FACTORS == 2;
shared float held[WIDE > PARTS * CHUNK ? 2 * CHUNK * WIDE : 2 * PARTS * PAIRS]; // k and q, then sums of parts
shared float fades[BY_COLUMN ? CHUNK * WIDE : CHUNK];
shared float rates[CHUNK], among[PAIRS], read[PAIRS], written[PAIRS];
shared uint seqs[CHUNK];

void main() {
    const uint first = gl_WorkGroupID.x * CHUNK, head = gl_WorkGroupID.y, group = group_of(head);
    const uint thread = gl_LocalInvocationIndex, n = params.w[STEP_ROWS];
    if (first >= n) return;
    if (thread < CHUNK) {
        const uint row = min(first + thread, n - 1);
        const bool there = first + thread < n;
        const float by = rate_of(row, head);
        seqs[thread] = there ? step_seq(params, row) : NO_ROW;
        rates[thread] = !there ? 0.0 : KIND == SCAN_GLA ? 1.0 : by;
        if (!BY_COLUMN) fades[thread] = fade_of(decay_of(row, head, 0), by, factor_of(head, 0));
    }
    for (uint at = thread; at < CHUNK * WIDE; at += CHUNK * PARTS) {
        const uint t = at / WIDE, i = at % WIDE, row = first + t;
        const bool there = row < n && i < K_DIM;
        held[at] = there ? k.v[row * K_WIDTH + group * K_STRIDE + i] : 0.0;
        held[CHUNK * WIDE + at] = there ? q.v[row * Q_WIDTH + group * Q_STRIDE + i] : 0.0;
        if (BY_COLUMN) fades[at] = there ? fade_of(decay_of(row, head, i), rate_of(row, head), factor_of(head, i)) : 1.0;
    }
    barrier();
    // A thread has some columns of row s and goes down the rows after it.
    const uint s = thread % CHUNK, part = thread / CHUNK, from = part * EACH;
    float faded[EACH], keys[CHUNK], queries[CHUNK];
    [[unroll]] for (uint j = 0; j < EACH; j++) faded[j] = held[s * WIDE + from + j];
    [[unroll]] for (uint t = 0; t < CHUNK; t++) {
        keys[t] = 0.0;
        queries[t] = 0.0;
        if (t < s || seqs[t] != seqs[s]) continue;
        [[unroll]] for (uint j = 0; j < EACH; j++) {
            if (t > s) faded[j] *= fades[BY_COLUMN ? t * WIDE + from + j : t];
            if (KIND == SCAN_DELTA) keys[t] += held[t * WIDE + from + j] * faded[j];
            queries[t] += held[(CHUNK + t) * WIDE + from + j] * faded[j];
        }
    }
    barrier();
    [[unroll]] for (uint t = 0; t < CHUNK; t++) {
        held[2 * part * PAIRS + t * CHUNK + s] = keys[t];
        held[(2 * part + 1) * PAIRS + t * CHUNK + s] = queries[t];
    }
    barrier();
    for (uint pair = thread; pair < PAIRS; pair += CHUNK * PARTS) {
        float a = 0.0, b = 0.0;
        [[unroll]] for (uint p = 0; p < PARTS; p++) {
            a += held[2 * p * PAIRS + pair];
            b += held[(2 * p + 1) * PAIRS + pair];
        }
        among[pair] = a * rates[pair / CHUNK];
        read[pair] = b;
    }
    barrier();
    if (thread < CHUNK) {
        // A column of the inverse, from the top: rows above its own have nothing of it.
        float column[CHUNK];
        [[unroll]] for (uint t = 0; t < CHUNK; t++) {
            column[t] = t == thread ? rates[t] : 0.0;
            if (KIND == SCAN_DELTA) {
                [[unroll]] for (uint r = 0; r < t; r++) column[t] -= among[t * CHUNK + r] * column[r];
            }
            written[t * CHUNK + thread] = column[t];
        }
    }
    barrier();
    const uint to = (gl_WorkGroupID.x * HEADS + head) * 2 * PAIRS;
    for (uint pair = thread; pair < PAIRS; pair += CHUNK * PARTS) {
        const uint t = pair / CHUNK, j = pair % CHUNK;
        float sum = 0.0;
        for (uint r = j; r <= t; r++) sum += read[t * CHUNK + r] * written[r * CHUNK + j];
        pairs.v[to + pair] = written[pair];
        pairs.v[to + PAIRS + pair] = sum;
    }
}
