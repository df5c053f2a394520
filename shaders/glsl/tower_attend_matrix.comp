// Attention by cooperative matrices of halves that all come from shared memory, as attn_staged.comp does it for a cache: a workgroup takes
// BR queries of one head and BC keys at a time, with an online softmax. Its subgroups share scores, their dimensions in SLICES, and then
// the columns of the output. Heads are of whole eights of columns, and all rows start where four numbers can be read at once.
#version 460
#include "lib/types.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint WAVES = 4;  // subgroups of a workgroup
layout(constant_id = 2) const uint BR = 32;    // queries
layout(constant_id = 3) const uint BC = 32;    // keys at a time
layout(constant_id = 4) const uint MAT_M = 16; // shape of products
layout(constant_id = 5) const uint MAT_N = 16;
layout(constant_id = 6) const uint MAT_K = 16;
layout(constant_id = 7) const uint D = 64;     // columns of a head of q and k
layout(constant_id = 8) const uint DV = 64;    // of v
#include "push/tower_attend_matrix.glsl"
#include "lib/act.glsl"
#include "lib/tower_bias.glsl"
#define EXP exp2
#include "lib/softmax.glsl"
const float LOG2_E = 1.4426950408889634;
const uint TALL = BR / MAT_M, BROAD = BC / MAT_N;         // matrices of scores, down and across
const uint SLICES = WAVES > TALL * BROAD ? WAVES / (TALL * BROAD) : 1; // subgroups that share the dimensions of one
const uint EACH = TALL * BROAD * SLICES / WAVES;          // matrices of a subgroup, side by side
const uint DIMS = (D + MAT_K * SLICES - 1) / (MAT_K * SLICES); // matrices of keys that a slice has
const uint K_UNITS = DIMS * SLICES * MAT_K / 8;           // of eight halves, with zeros behind the head
const uint COLS = (DV + MAT_N * WAVES - 1) / (MAT_N * WAVES); // matrices of values that a subgroup has
const uint V_UNITS = COLS * WAVES * MAT_N / 8;
const uint STRIDE = (K_UNITS > V_UNITS ? K_UNITS : V_UNITS) | 1; // odd, so that keys start in banks of their own
const uint P_STRIDE = BC / 8 | 1;
const uint S_STRIDE = BC + 4;
const uint S_LEN = SLICES * BR * S_STRIDE, O_LEN = WAVES * MAT_M * MAT_N;
const uint LANES = gl_WorkGroupSize.x / BR;               // neighbouring threads that share a query's scores
const uint RUN = BC / LANES;                              // scores of a thread: an even number
const uint K_LOADS = (BC * K_UNITS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint V_LOADS = (BC * (DV / 8) + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
#define Queries coopmat<float16_t, gl_ScopeSubgroup, MAT_M, MAT_K, gl_MatrixUseA>
#define Keys coopmat<float16_t, gl_ScopeSubgroup, MAT_K, MAT_N, gl_MatrixUseB>
#define Scores coopmat<float, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>
shared uvec4 tile[BC * STRIDE];                          // queries, then keys and values in turn
shared float scores[S_LEN > O_LEN ? S_LEN : O_LEN];      // by slice, query, key; at the end by subgroup
shared uvec4 weights[BR * P_STRIDE];                     // halves, by query
shared float keep[BR * MAT_N];                           // what is left of a query's sums, for every column of a matrix
shared uint row_first[BR], row_end[BR];
uvec4 k_raw[K_LOADS], v_raw[V_LOADS];

// Eight numbers as halves.
uvec4 eight(F32 from, uint at, float by) {
    const vec4 a = clamp(F32x4(uvec2(from)).v[at / 4] * by, -65504.0, 65504.0);
    const vec4 b = clamp(F32x4(uvec2(from)).v[at / 4 + 1] * by, -65504.0, 65504.0);
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}
void fetch_k(uint kv_head, uint from) {
    [[unroll]] for (uint i = 0; i < K_LOADS; i++) {
        const uint at = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x, unit = at % K_UNITS;
        const uint key = min(from + at / K_UNITS, m - 1);
        k_raw[i] = unit < D / 8 ? eight(k, key * k_stride + kv_head * D + 8 * unit, 1.0) : uvec4(0);
    }
}
void stage_k() {
    [[unroll]] for (uint i = 0; i < K_LOADS; i++) {
        const uint at = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
        if (at / K_UNITS < BC) tile[at / K_UNITS * STRIDE + at % K_UNITS] = k_raw[i];
    }
}
void fetch_v(uint kv_head, uint from) {
    [[unroll]] for (uint i = 0; i < V_LOADS; i++) {
        const uint at = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x, key = min(from + at / (DV / 8), m - 1);
        v_raw[i] = eight(v, key * v_stride + kv_head * DV + 8 * (at % (DV / 8)), 1.0);
    }
}
void stage_v() {
    [[unroll]] for (uint i = 0; i < V_LOADS; i++) {
        const uint at = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
        if (at / (DV / 8) < BC) tile[at / (DV / 8) * STRIDE + at % (DV / 8)] = v_raw[i];
    }
}

void main() {
    const uint t = gl_LocalInvocationID.x, wave = subgroupBroadcastFirst(gl_SubgroupID);
    const uint first = gl_WorkGroupID.x * BR, h = gl_WorkGroupID.y, kv_head = h / (heads / kv_heads);
    for (uint i = t; i < BR; i += gl_WorkGroupSize.x) {
        const uint query = min(first + i, n - 1);
        row_first[i] = spanned == 1 ? spans.v[2 * query] : 0;
        row_end[i] = spanned == 1 ? spans.v[2 * query + 1] : m;
    }
    // A subgroup's matrices of scores are all of the same queries.
    const uint slice = wave % SLICES, block = wave / SLICES * EACH, tall = block / BROAD, broad = block % BROAD;
    Queries asked[DIMS];
    for (uint from = 0; from < BR; from += BC) {
        for (uint i = t; i < BC * K_UNITS; i += gl_WorkGroupSize.x) {
            const uint query = from + i / K_UNITS, row = first + query, unit = i % K_UNITS;
            const bool there = query < BR && row < n && unit < D / 8;
            // Scores are powers of two.
            uvec4 halves = uvec4(0);
            if (there) halves = eight(q, row * q_stride + h * D + 8 * unit, scale * LOG2_E);
            tile[i / K_UNITS * STRIDE + unit] = halves;
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
    uint begin = m, end = 0;
    for (uint i = 0; i < BR; i++) {
        begin = min(begin, row_first[i]);
        end = max(end, row_end[i]);
    }
    Scores outs[TALL * COLS];
    [[unroll]] for (uint i = 0; i < TALL * COLS; i++) outs[i] = Scores(0.0);
    const uint own = t / LANES, run = t % LANES * RUN, start = row_first[own], limit = row_end[own];
    float most = -1e29, total = 0.0; // above what stands for keys that are not seen
    fetch_k(kv_head, begin);
    for (uint from = begin; from < end; from += BC) {
        stage_k();
        fetch_v(kv_head, from);
        barrier();
        [[unroll]] for (uint e = 0; e < EACH; e++) {
            Scores sum = Scores(0.0);
            [[unroll]] for (uint d = 0; d < DIMS; d++) {
                Keys keys;
                const uint at = (broad + e) * MAT_N * STRIDE + (slice * DIMS + d) * (MAT_K / 8);
                coopMatLoad(keys, tile, at, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                sum = coopMatMulAdd(asked[d], keys, sum);
            }
            const uint at = (slice * BR + tall * MAT_M) * S_STRIDE + (broad + e) * MAT_N;
            coopMatStore(sum, scores, at, S_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        }
        barrier();
        if (from + BC < end) fetch_k(kv_head, from + BC);
        float found[RUN], now = most;
        [[unroll]] for (uint i = 0; i < RUN; i++) {
            float score = 0.0;
            [[unroll]] for (uint s = 0; s < SLICES; s++) score += scores[(s * BR + own) * S_STRIDE + run + i];
            const uint key = from + run + i;
            const bool seen = key >= start && key < limit;
            if (n_biases > 0 && seen) score += biased(min(first + own, n - 1), key, h) * LOG2_E;
            if (cap > 0.0) score = cap * LOG2_E * tanh_of(score / (cap * LOG2_E));
            found[i] = seen ? score : -1e30;
            now = max(now, found[i]);
        }
        [[unroll]] for (uint by = 1; by < LANES; by *= 2) now = max(now, subgroupShuffleXor(now, by));
        const float by = raise(most, total, now);
        [[unroll]] for (uint i = 0; i < RUN; i += 2) {
            const vec2 two = exp2(vec2(found[i], found[i + 1]) - most);
            total += two.x + two.y;
            weights[own * P_STRIDE + (run + i) / 8][(run + i) % 8 / 2] = packHalf2x16(two);
        }
        for (uint i = t % LANES; i < MAT_N; i += LANES) keep[own * MAT_N + i] = by;
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
                Keys values;
                const uint at = p * MAT_K * STRIDE + (wave * COLS + c) * (MAT_N / 8);
                coopMatLoad(values, tile, at, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint r = 0; r < TALL; r++) {
                    outs[r * COLS + c] = coopMatMulAdd(by_query[r], values, outs[r * COLS + c]);
                }
            }
        }
        barrier();
    }
    [[unroll]] for (uint by = 1; by < LANES; by *= 2) total += subgroupShuffleXor(total, by);
    float factor = 1.0;
    if (sunk == 1) factor = sink_in(most, total, sinks.v[h] * LOG2_E);
    if (t % LANES == 0) keep[own * MAT_N] = factor / total;
    barrier();
    [[unroll]] for (uint c = 0; c < COLS; c++) {
        [[unroll]] for (uint r = 0; r < TALL; r++) {
            coopMatStore(outs[r * COLS + c], scores, wave * MAT_M * MAT_N, MAT_N, gl_CooperativeMatrixLayoutRowMajor);
            barrier();
            for (uint i = gl_SubgroupInvocationID; i < MAT_M * MAT_N; i += gl_SubgroupSize) {
                const uint query = r * MAT_M + i / MAT_N, row = first + query, col = (wave * COLS + c) * MAT_N + i % MAT_N;
                const float sum = scores[wave * MAT_M * MAT_N + i] * keep[query * MAT_N];
                if (row < n && col < DV) y.v[(row * heads + h) * DV + col] = sum;
            }
            barrier();
        }
    }
}
