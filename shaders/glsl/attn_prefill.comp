// Attention of BR rows of one head per workgroup of 128: K and V are read once for all rows of a sequence, BC positions at a time, in
// chunks of columns. Rows of several sequences may meet in a tile: each distinct sequence is walked in turn, the others masked.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/kv.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 1) const uint BR = 16; // rows per workgroup: 8, 16 or 32
layout(constant_id = 2) const uint BC = 32; // positions per tile: a multiple of 16
#define Rows F32
#include "push/attn_prefill.glsl"
#include "lib/mask.glsl"
#include "lib/softmax.glsl"
// Scores: a thread has those of TALL rows and WIDE positions, over chunks of K of so many vec4.
const uint TALL = BR / 8;
const uint WIDE = BC / 16;
const uint CHUNK = 16;
// Outputs: of four rows, a vec4 of each of the PARTS chunks that V is read in.
const uint SPREAD = 512 / BR; // threads of four rows
const uint PARTS = (V_DIM / 4 + SPREAD - 1) / SPREAD;
const uint STRIDE = (CHUNK > SPREAD ? CHUNK : SPREAD) + 1; // odd: rows start in banks of their own
shared vec4 q[BR * (CHUNK + 1)];
shared vec4 kv[BC * STRIDE];
shared vec4 s[BC * BR / 4];                            // by position, then row
shared float row_best[BR], row_sum[BR], row_keep[BR];
shared uint row_table[BR], row_pos[BR], row_first[BR]; // a row sees positions from this one on,
shared uint row_len[BR];                                // below this one; 0: no such row

// Columns `from` and on of a tile, as vec4.
void load_tile(uvec2 cache, uint type, uint dim, uint table, uint base, uint len, uint kv_head, uint from, uint count) {
    for (uint i = gl_LocalInvocationID.x; i < BC * count; i += 128) {
        const uint c = i / count, e = from + i % count;
        const bool there = base + c < len && e < dim / 4;
        kv[c * STRIDE + i % count] =
            there ? kv_load4(cache, type, dim, kv_slot(params, table, base + c, kv_head, kv_heads), e) : vec4(0.0);
    }
}

void main() {
    const uint t = gl_LocalInvocationID.x, down = t / 16, across = t % 16, high = t / SPREAD, near = t % SPREAD;
    const uint n = params.w[STEP_ROWS], first = params.w[STEP_SINGLES] + gl_WorkGroupID.x * BR;
    const uint h = gl_WorkGroupID.y, kv_head = h / (heads / kv_heads);
    if (first >= n) return;
    if (t < BR) {
        const bool there = first + t < n;
        row_table[t] = there ? table_of(first + t) : 0xffffffff;
        row_pos[t] = there ? step_pos(params, first + t) : 0;
        row_first[t] = there ? first_seen(first + t, row_pos[t]) : 0;
        row_len[t] = there ? end_seen(first + t) : 0;
        row_best[t] = -1e29; // above what stands for positions that are masked
        row_sum[t] = 0.0;
    }
    barrier();
    const uint width = (heads + kv_heads) * HEAD_DIM + kv_heads * V_DIM;
    vec4 acc[PARTS * 4];
    [[unroll]] for (uint i = 0; i < PARTS * 4; i++) acc[i] = vec4(0.0);
    for (uint lead = 0; lead < BR; lead++) {
        const uint table = row_table[lead];
        uint begin = 0xffffffff, len = 0;
        bool fresh = row_len[lead] > 0;
        for (uint i = 0; i < BR; i++) {
            if (row_table[i] != table) continue;
            if (i < lead) fresh = false;
            begin = min(begin, row_first[i]);
            len = max(len, row_len[i]);
        }
        if (!fresh) continue;
        for (uint base = begin; base < len; base += BC) {
            float dots[TALL * WIDE];
            [[unroll]] for (uint i = 0; i < TALL * WIDE; i++) dots[i] = 0.0;
            for (uint from = 0; from < HEAD_DIM / 4; from += CHUNK) {
                barrier();
                for (uint i = t; i < BR * CHUNK; i += 128) {
                    const uint row = i / CHUNK, e = from + i % CHUNK;
                    vec4 own = vec4(0.0);
                    if (first + row < n && e < HEAD_DIM / 4) {
                        const uint at = (first + row) * width + h * HEAD_DIM + 4 * e;
                        own = vec4(qkv.v[at], qkv.v[at + 1], qkv.v[at + 2], qkv.v[at + 3]) * scale;
                    }
                    q[row * (CHUNK + 1) + i % CHUNK] = own;
                }
                load_tile(k_cache, K_TYPE, HEAD_DIM, table, base, len, kv_head, from, CHUNK);
                barrier();
                for (uint e = 0; e < CHUNK; e++) {
                    vec4 k[WIDE];
                    [[unroll]] for (uint j = 0; j < WIDE; j++) k[j] = kv[(across + 16 * j) * STRIDE + e];
                    [[unroll]] for (uint i = 0; i < TALL; i++) {
                        const vec4 own = q[(down * TALL + i) * (CHUNK + 1) + e];
                        [[unroll]] for (uint j = 0; j < WIDE; j++) dots[i * WIDE + j] += dot(own, k[j]);
                    }
                }
            }
            [[unroll]] for (uint i = 0; i < TALL; i++) {
                const uint row = down * TALL + i;
                [[unroll]] for (uint j = 0; j < WIDE; j++) {
                    const uint c = across + 16 * j, pos = base + c;
                    const bool seen = row_table[row] == table && pos < row_len[row] && pos >= row_first[row];
                    s[(c * BR + row) / 4][row % 4] = seen ? ruled(dots[i * WIDE + j], h, row_pos[row], pos) : -1e30;
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
                load_tile(v_cache, V_TYPE, V_DIM, table, base, len, kv_head, part * SPREAD, SPREAD);
                barrier();
                [[unroll]] for (uint i = 0; i < 4; i++) acc[part * 4 + i] *= row_keep[high * 4 + i];
                for (uint c = 0; c < BC; c++) {
                    const vec4 by = s[c * (BR / 4) + high], v = kv[c * STRIDE + near];
                    [[unroll]] for (uint i = 0; i < 4; i++) acc[part * 4 + i] += by[i] * v;
                }
            }
        }
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint row = high * 4 + i;
        if (first + row >= n) continue;
        float best = row_best[row], sum = row_sum[row];
        const float by = has_sinks() ? sink_in(best, sum, F32(sinks).v[h]) : 1.0;
        [[unroll]] for (uint part = 0; part < PARTS; part++) {
            const uint e = part * SPREAD + near;
            if (e >= V_DIM / 4) continue;
            const uint at = ((first + row) * heads + h) * V_DIM + 4 * e;
            [[unroll]] for (uint j = 0; j < 4; j++) y.v[at + j] = acc[part * 4 + i][j] * by / sum;
        }
    }
}
