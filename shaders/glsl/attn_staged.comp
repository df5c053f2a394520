// Attention of many rows over a cache of halves or of quantized blocks, by cooperative matrices that all come from shared memory, so
// that it need not be known which thread holds which element: heads of any width, matrices of any shape, subgroups of any size. A
// workgroup takes BR queries, of GH heads of one K/V head and BR / GH rows, and BC positions at a time, with an online softmax. Its
// subgroups share scores, their dimensions in SLICES, and then the columns of the output. Rows of several sequences may meet in a tile:
// each sequence is walked in turn, the others masked.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/kv.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint GH = 1;     // query heads per workgroup, all of one K/V head
layout(constant_id = 2) const uint WAVES = 4;  // subgroups of a workgroup
layout(constant_id = 3) const uint BR = 32;    // queries
layout(constant_id = 4) const uint BC = 32;    // positions at a time: divides KV_BLOCK
layout(constant_id = 5) const uint MAT_M = 16; // shape of products
layout(constant_id = 6) const uint MAT_N = 16;
layout(constant_id = 7) const uint MAT_K = 16;
#define Rows F32
#include "push/attn_staged.glsl"
#include "lib/mask.glsl"
#define EXP exp2
#include "lib/softmax.glsl"
const uint TALL = BR / MAT_M, BROAD = BC / MAT_N;         // matrices of scores, down and across
const uint SLICES = WAVES > TALL * BROAD ? WAVES / (TALL * BROAD) : 1; // subgroups that share the dimensions of one
const uint EACH = TALL * BROAD * SLICES / WAVES;          // matrices of a subgroup, side by side
const uint DIMS = (HEAD_DIM + MAT_K * SLICES - 1) / (MAT_K * SLICES); // matrices of K that a slice has
const uint K_UNITS = DIMS * SLICES * MAT_K / 8;           // of eight halves, with zeros behind the head
const uint COLS = (V_DIM + MAT_N * WAVES - 1) / (MAT_N * WAVES); // matrices of V that a subgroup has
const uint V_UNITS = COLS * WAVES * MAT_N / 8;
const uint STRIDE = (K_UNITS > V_UNITS ? K_UNITS : V_UNITS) | 1; // odd, so that positions start in banks of their own
const uint P_STRIDE = BC / 8 | 1;
const uint S_STRIDE = BC + 4;
const uint S_LEN = SLICES * BR * S_STRIDE, O_LEN = WAVES * MAT_M * MAT_N;
const uint LANES = gl_WorkGroupSize.x / BR;               // neighbouring threads that share a query's scores
const uint RUN = BC / LANES;                              // scores of a thread: an even number
const uint K_LOADS = (BC * K_UNITS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint V_LOADS = (BC * (V_DIM / 8) + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
#define Queries coopmat<float16_t, gl_ScopeSubgroup, MAT_M, MAT_K, gl_MatrixUseA>
#define Keys coopmat<float16_t, gl_ScopeSubgroup, MAT_K, MAT_N, gl_MatrixUseB>
#define Scores coopmat<float, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>
shared uvec4 tile[BC * STRIDE];                          // queries, then K and V in turn: by position
shared float scores[S_LEN > O_LEN ? S_LEN : O_LEN];      // by slice, query, position; at the end by subgroup
shared uvec4 weights[BR * P_STRIDE];                     // halves, by query
shared float keep[BR * MAT_N];                           // what is left of a query's sums, for every column of a matrix
#include "lib/attn_leads.glsl"
uvec4 k_raw[K_LOADS], v_raw[V_LOADS];

uint slot_of(uint word, uint kv_head, uint pos) { return (word * kv_heads + kv_head) * KV_BLOCK + pos % KV_BLOCK; }
void fetch_k(uint word, uint kv_head, uint from, uint end) {
    [[unroll]] for (uint i = 0; i < K_LOADS; i++) {
        const uint at = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x, unit = at % K_UNITS;
        const uint slot = slot_of(word, kv_head, min(from + at / K_UNITS, end - 1));
        k_raw[i] = unit < HEAD_DIM / 8 ? kv_fetch(k_cache, K_TYPE, HEAD_DIM, slot, unit) : uvec4(0);
    }
}
void stage_k() {
    [[unroll]] for (uint i = 0; i < K_LOADS; i++) {
        const uint at = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
        const uvec4 halves = at % K_UNITS < HEAD_DIM / 8 ? kv_halves(K_TYPE, k_raw[i]) : uvec4(0);
        if (at / K_UNITS < BC) tile[at / K_UNITS * STRIDE + at % K_UNITS] = halves;
    }
}
void fetch_v(uint word, uint kv_head, uint from, uint end) {
    [[unroll]] for (uint i = 0; i < V_LOADS; i++) {
        const uint at = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
        const uint slot = slot_of(word, kv_head, min(from + at / (V_DIM / 8), end - 1));
        v_raw[i] = kv_fetch(v_cache, V_TYPE, V_DIM, slot, at % (V_DIM / 8));
    }
}
void stage_v() {
    [[unroll]] for (uint i = 0; i < V_LOADS; i++) {
        const uint at = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
        if (at / (V_DIM / 8) < BC) tile[at / (V_DIM / 8) * STRIDE + at % (V_DIM / 8)] = kv_halves(V_TYPE, v_raw[i]);
    }
}
// Eight dimensions of a query as halves, scaled so that scores are powers of two.
uvec4 query(uint row, uint h, uint unit) {
    const uint at = (row * ((heads + kv_heads) * HEAD_DIM + kv_heads * V_DIM) + h * HEAD_DIM) / 4 + 2 * unit;
    const vec4 a = F32x4(uvec2(qkv)).v[at] * (scale * LOG2_E), b = F32x4(uvec2(qkv)).v[at + 1] * (scale * LOG2_E);
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}

void main() {
    const uint t = gl_LocalInvocationID.x, wave = subgroupBroadcastFirst(gl_SubgroupID), n = params.w[STEP_ROWS];
    // The last rows, which have most to look at, first.
    const uint first = params.w[STEP_SINGLES] + (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * (BR / GH);
    if (first >= n) return;
    const uint h0 = gl_WorkGroupID.y * GH, kv_head = h0 / (heads / kv_heads);
    find_leads(first, n);
    // A subgroup's matrices of scores are all of the same queries.
    const uint slice = wave % SLICES, block = wave / SLICES * EACH, tall = block / BROAD, broad = block % BROAD;
    Queries asked[DIMS];
    for (uint from = 0; from < BR; from += BC) {
        for (uint i = t; i < BC * K_UNITS; i += gl_WorkGroupSize.x) {
            const uint q = from + i / K_UNITS, row = first + q / GH, unit = i % K_UNITS;
            const bool there = q < BR && row < n && unit < HEAD_DIM / 8;
            tile[i / K_UNITS * STRIDE + unit] = there ? query(row, h0 + q % GH, unit) : uvec4(0);
        }
        barrier();
        if (tall * MAT_M >= from && tall * MAT_M < from + BC) {
            [[unroll]] for (uint d = 0; d < DIMS; d++) {
                const uint at = (tall * MAT_M - from) * STRIDE + (slice * DIMS + d) * (MAT_K / 8);
                coopMatLoad(asked[d], tile, at, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            }
        }
        barrier();
    }
    Scores outs[TALL * COLS];
    [[unroll]] for (uint i = 0; i < TALL * COLS; i++) outs[i] = Scores(0.0);
    const uint q = t / LANES, run = t % LANES * RUN, own_h = h0 + q % GH;
    float most = -1e29, total = 0.0; // above what stands for positions that are masked
    for (uint lead = 0; lead < BR; lead++) {
        const uint begin = lead_first[lead], end = lead_len[lead], table = row_table[lead];
        if (begin >= end) continue;
        uint word = params.w[table + begin / KV_BLOCK], ahead = params.w[table + min(begin + BC, end - 1) / KV_BLOCK];
        fetch_k(word, kv_head, begin, end);
        for (uint from = begin; from < end; from += BC) {
            const uint next = from + BC;
            stage_k();
            fetch_v(word, kv_head, from, end);
            word = ahead;
            ahead = params.w[table + min(next + BC, end - 1) / KV_BLOCK];
            barrier();
            [[unroll]] for (uint e = 0; e < EACH; e++) {
                Scores sum = Scores(0.0);
                [[unroll]] for (uint d = 0; d < DIMS; d++) {
                    Keys k;
                    const uint at = (broad + e) * MAT_N * STRIDE + (slice * DIMS + d) * (MAT_K / 8);
                    coopMatLoad(k, tile, at, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                    sum = coopMatMulAdd(asked[d], k, sum);
                }
                const uint at = (slice * BR + tall * MAT_M) * S_STRIDE + (broad + e) * MAT_N;
                coopMatStore(sum, scores, at, S_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            }
            barrier();
            if (next < end) fetch_k(word, kv_head, next, end);
            const uint limit = row_table[q] == table ? row_len[q] : 0, start = row_first[q], own = row_pos[q];
            float found[RUN], now = most;
            [[unroll]] for (uint i = 0; i < RUN; i++) {
                float score = 0.0;
                [[unroll]] for (uint s = 0; s < SLICES; s++) score += scores[(s * BR + q) * S_STRIDE + run + i];
                const uint pos = from + run + i;
                if (RULES != 0) score = ruled(score / LOG2_E, own_h, own, pos) * LOG2_E;
                found[i] = pos < limit && (MASK == MASK_CAUSAL || pos >= start) ? score : -1e30;
                now = max(now, found[i]);
            }
            [[unroll]] for (uint by = 1; by < LANES; by *= 2) now = max(now, subgroupShuffleXor(now, by));
            const float by = raise(most, total, now);
            [[unroll]] for (uint i = 0; i < RUN; i += 2) {
                const vec2 two = exp2(vec2(found[i], found[i + 1]) - most);
                total += two.x + two.y;
                weights[q * P_STRIDE + (run + i) / 8][(run + i) % 8 / 2] = packHalf2x16(two);
            }
            for (uint i = t % LANES; i < MAT_N; i += LANES) keep[q * MAT_N + i] = by;
            stage_v();
            barrier();
            [[unroll]] for (uint r = 0; r < TALL; r++) {
                Scores kept;
                coopMatLoad(kept, keep, r * MAT_M * MAT_N, MAT_N, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint c = 0; c < COLS; c++) outs[r * COLS + c] *= kept;
            }
            [[unroll]] for (uint p = 0; p < BC / MAT_K; p++) {
                Queries by_query[TALL];
                [[unroll]] for (uint r = 0; r < TALL; r++) {
                    const uint at = r * MAT_M * P_STRIDE + p * (MAT_K / 8);
                    coopMatLoad(by_query[r], weights, at, P_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                }
                [[unroll]] for (uint c = 0; c < COLS; c++) {
                    Keys v;
                    const uint at = p * MAT_K * STRIDE + (wave * COLS + c) * (MAT_N / 8);
                    coopMatLoad(v, tile, at, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                    [[unroll]] for (uint r = 0; r < TALL; r++) {
                        outs[r * COLS + c] = coopMatMulAdd(by_query[r], v, outs[r * COLS + c]);
                    }
                }
            }
            barrier();
        }
    }
    [[unroll]] for (uint by = 1; by < LANES; by *= 2) total += subgroupShuffleXor(total, by);
    float factor = 1.0;
    if (has_sinks()) factor = sink_in(most, total, F32(sinks).v[own_h] * LOG2_E);
    if (t % LANES == 0) keep[q * MAT_N] = factor / total;
    barrier();
    [[unroll]] for (uint c = 0; c < COLS; c++) {
        [[unroll]] for (uint r = 0; r < TALL; r++) {
            coopMatStore(outs[r * COLS + c], scores, wave * MAT_M * MAT_N, MAT_N, gl_CooperativeMatrixLayoutRowMajor);
            barrier();
            for (uint i = gl_SubgroupInvocationID; i < MAT_M * MAT_N; i += gl_SubgroupSize) {
                const uint query = r * MAT_M + i / MAT_N, row = first + query / GH, col = (wave * COLS + c) * MAT_N + i % MAT_N;
                const float sum = scores[wave * MAT_M * MAT_N + i] * keep[query * MAT_N];
                if (row < n && col < V_DIM) y.v[(row * heads + h0 + query % GH) * V_DIM + col] = sum;
            }
            barrier();
        }
    }
}
