// Attention of BR queries of one head per workgroup of 128: keys and values are read once for all of them, BC at a time, in chunks of
// columns. Queries see the keys of their spans; biases are added to scores, which may be capped then.
#version 460
#include "lib/types.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 1) const uint BR = 16; // queries of a workgroup: 8, 16 or 32
layout(constant_id = 2) const uint BC = 16; // keys of a tile: a multiple of 16
layout(constant_id = 3) const uint D = 64;  // columns of a head of q and k
layout(constant_id = 4) const uint DV = 64; // of v
#include "push/tower_attend.glsl"
#include "lib/act.glsl"
#include "lib/tower_bias.glsl"
#include "lib/softmax.glsl"
// Scores: a thread has those of TALL queries and WIDE keys, over chunks of so many vec4.
const uint TALL = BR / 8;
const uint WIDE = BC / 16;
const uint CHUNK = 16;
// Outputs: of four queries, a vec4 of each of the PARTS chunks that v is read in.
const uint SPREAD = 512 / BR; // threads of four queries
const uint PARTS = ((DV + 3) / 4 + SPREAD - 1) / SPREAD;
const uint STRIDE = (CHUNK > SPREAD ? CHUNK : SPREAD) + 1; // odd: rows start in banks of their own
shared vec4 own[BR * (CHUNK + 1)];
shared vec4 kv[BC * STRIDE];
shared vec4 s[BC * BR / 4]; // by key, then query
shared float row_best[BR], row_sum[BR], row_keep[BR];
shared uint row_first[BR], row_end[BR];

// Four columns of a row, of which `dim` are there.
vec4 four(F32 from, uint at, uint col, uint dim) {
    vec4 value = vec4(0.0);
    [[unroll]] for (uint j = 0; j < 4; j++) {
        if (col + j < dim) value[j] = from.v[at + col + j];
    }
    return value;
}

void main() {
    const uint t = gl_LocalInvocationID.x, down = t / 16, across = t % 16, high = t / SPREAD, near = t % SPREAD;
    const uint first = gl_WorkGroupID.x * BR, h = gl_WorkGroupID.y, kv_head = h / (heads / kv_heads);
    if (t < BR) {
        const uint query = min(first + t, n - 1);
        row_first[t] = spanned == 1 ? spans.v[2 * query] : 0;
        row_end[t] = spanned == 1 ? spans.v[2 * query + 1] : m;
        row_best[t] = -1e29; // above what stands for keys that are not seen
        row_sum[t] = 0.0;
    }
    barrier();
    uint begin = m, end = 0;
    for (uint i = 0; i < BR; i++) {
        begin = min(begin, row_first[i]);
        end = max(end, row_end[i]);
    }
    vec4 acc[PARTS * 4];
    [[unroll]] for (uint i = 0; i < PARTS * 4; i++) acc[i] = vec4(0.0);
    for (uint base = begin; base < end; base += BC) {
        float dots[TALL * WIDE];
        [[unroll]] for (uint i = 0; i < TALL * WIDE; i++) dots[i] = 0.0;
        for (uint from = 0; from < D; from += 4 * CHUNK) {
            barrier();
            for (uint i = t; i < BR * CHUNK; i += 128) {
                const uint query = min(first + i / CHUNK, n - 1);
                own[i / CHUNK * (CHUNK + 1) + i % CHUNK] = four(q, query * q_stride + h * D, from + i % CHUNK * 4, D);
            }
            for (uint i = t; i < BC * CHUNK; i += 128) {
                const uint key = min(base + i / CHUNK, m - 1);
                kv[i / CHUNK * STRIDE + i % CHUNK] = four(k, key * k_stride + kv_head * D, from + i % CHUNK * 4, D);
            }
            barrier();
            for (uint e = 0; e < CHUNK; e++) {
                vec4 keys[WIDE];
                [[unroll]] for (uint j = 0; j < WIDE; j++) keys[j] = kv[(across + 16 * j) * STRIDE + e];
                [[unroll]] for (uint i = 0; i < TALL; i++) {
                    const vec4 query = own[(down * TALL + i) * (CHUNK + 1) + e];
                    [[unroll]] for (uint j = 0; j < WIDE; j++) dots[i * WIDE + j] += dot(query, keys[j]);
                }
            }
        }
        [[unroll]] for (uint i = 0; i < TALL; i++) {
            const uint row = down * TALL + i;
            [[unroll]] for (uint j = 0; j < WIDE; j++) {
                const uint c = across + 16 * j, key = base + c;
                float score = -1e30;
                if (key >= row_first[row] && key < row_end[row]) {
                    score = scale * dots[i * WIDE + j] + biased(min(first + row, n - 1), key, h);
                    if (cap > 0.0) score = cap * tanh_of(score / cap);
                }
                s[(c * BR + row) / 4][row % 4] = score;
            }
        }
        barrier();
        if (t < BR) {
            float best = row_best[t], sum = row_sum[t], now = best;
            for (uint c = 0; c < BC; c++) now = max(now, s[(c * BR + t) / 4][t % 4]);
            row_keep[t] = raise(best, sum, now);
            for (uint c = 0; c < BC; c++) {
                const float e = exp(s[(c * BR + t) / 4][t % 4] - best);
                s[(c * BR + t) / 4][t % 4] = e;
                sum += e;
            }
            row_best[t] = best;
            row_sum[t] = sum;
        }
        [[unroll]] for (uint part = 0; part < PARTS; part++) {
            barrier();
            for (uint i = t; i < BC * SPREAD; i += 128) {
                const uint key = min(base + i / SPREAD, m - 1), col = (part * SPREAD + i % SPREAD) * 4;
                kv[i / SPREAD * STRIDE + i % SPREAD] = four(v, key * v_stride + kv_head * DV, col, DV);
            }
            barrier();
            [[unroll]] for (uint i = 0; i < 4; i++) acc[part * 4 + i] *= row_keep[high * 4 + i];
            for (uint c = 0; c < BC; c++) {
                const vec4 by = s[c * (BR / 4) + high], value = kv[c * STRIDE + near];
                [[unroll]] for (uint i = 0; i < 4; i++) acc[part * 4 + i] += by[i] * value;
            }
        }
    }
    if (t < BR && sunk == 1) {
        float best = row_best[t], sum = row_sum[t];
        row_keep[t] = sink_in(best, sum, sinks.v[h]);
        row_sum[t] = sum;
    }
    barrier();
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint row = high * 4 + i;
        if (first + row >= n) continue;
        const float by = (sunk == 1 ? row_keep[row] : 1.0) / row_sum[row];
        [[unroll]] for (uint part = 0; part < PARTS; part++) {
            [[unroll]] for (uint j = 0; j < 4; j++) {
                const uint col = (part * SPREAD + near) * 4 + j;
                if (col < DV) y.v[((first + row) * heads + h) * DV + col] = acc[part * 4 + i][j] * by;
            }
        }
    }
}
