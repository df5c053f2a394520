// Attention of many rows over a cache of halves or of quantized blocks, by cooperative matrices (lib/attn_matrix.glsl): for devices
// that spread matrices over threads as gemm_few.comp expects (policy/matrix.rs: `direct`, `ordered`). A subgroup takes 16 rows of a
// head and 16 positions at a time, with an online softmax; those of a workgroup have heads of one K/V head, so that all but one find
// K and V in the cache nearby. Rows of several sequences may meet in a tile: each sequence is walked in turn, the others masked.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/kv.glsl"
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
layout(local_size_x_id = 0) in;            // a multiple of 32 * GH
layout(constant_id = 1) const uint GH = 1; // query heads per workgroup, all of one K/V head
#define Rows F32x4
#include "push/attn_flash.glsl"
#include "lib/mask.glsl"
#define EXP exp2
#include "lib/softmax.glsl"
const uint ROWS = 16; // of a subgroup
#include "lib/attn_matrix.glsl"

// Of rows g and g + 8.
Queries queries(vec4 a, vec4 b) {
    const f16vec4 low = f16vec4(a), high = f16vec4(b);
    Queries m;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        m[i] = low[i];
        m[4 + i] = high[i];
    }
    return m;
}

// Whether a row sees `pos`, of what it sees from `start` on.
bool seen(uint pos, uint start, uint limit) { return pos < limit && (MASK == MASK_CAUSAL || pos >= start); }
// A score by the rules, as a power of two, which it is already.
float powered(float score, uint h, uint pos, uint own) {
    return RULES == 0 ? score : ruled(score / LOG2_E, h, own, pos) * LOG2_E;
}

void main() {
    const uint lane = gl_SubgroupInvocationID, subgroup = subgroupBroadcastFirst(gl_SubgroupID);
    const uint n = params.w[STEP_ROWS], tiles = gl_WorkGroupSize.x / 32 / GH;
    // The last rows, which have most to look at, first.
    const uint back = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * tiles + subgroup / GH;
    const uint first = params.w[STEP_SINGLES] + back * ROWS;
    if (first >= n) return;
    const uint h = gl_WorkGroupID.y * GH + subgroup % GH, kv_head = h / (heads / kv_heads);
    const uint own = min(first + lane % ROWS, n - 1), own_table = table_of(own), own_pos = step_pos(params, own);
    const uint own_start = first_seen(own, own_pos);
    const uint own_len = lane < ROWS && first + lane < n ? end_seen(own) : 0;
    const uint g = lane / 4;
    const uvec2 lens = uvec2(subgroupShuffle(own_len, g), subgroupShuffle(own_len, g + 8));
    const uvec2 row_tables = uvec2(subgroupShuffle(own_table, g), subgroupShuffle(own_table, g + 8));
    // Scores are powers of two.
    const float by_scale = scale * LOG2_E;
    const uvec2 starts = uvec2(subgroupShuffle(own_start, g), subgroupShuffle(own_start, g + 8));
    const uvec2 poss = uvec2(subgroupShuffle(own_pos, g), subgroupShuffle(own_pos, g + 8));
    Queries asked[HEAD_DIM / 16];
    const uvec2 from_row = (min(uvec2(first + g, first + g + 8), n - 1) * (heads + 2 * kv_heads) + h) * (HEAD_DIM / 4);
    [[unroll]] for (uint i = 0; i < HEAD_DIM / 16; i++) {
        const uint at = i / 2 * 8 + lane % 4 * 2 + i % 2;
        asked[i] = queries(qkv.v[from_row.x + at] * by_scale, qkv.v[from_row.y + at] * by_scale);
    }
    Scores outs[HEAD_DIM / 8];
    [[unroll]] for (uint i = 0; i < HEAD_DIM / 8; i++) outs[i] = Scores(0.0);
    vec2 most = vec2(-1e29), total = vec2(0.0); // above what stands for positions that are masked
    uint pending = subgroupBallot(own_len > 0).x;
    while (pending != 0) {
        const uint table = subgroupBroadcastFirst(subgroupShuffle(own_table, uint(findLSB(pending))));
        const bool same = own_len > 0 && own_table == table;
        pending = subgroupBroadcastFirst(pending & ~subgroupBallot(same).x);
        const uint end = subgroupBroadcastFirst(subgroupMax(same ? own_len : 0));
        const uvec2 limit = uvec2(row_tables.x == table ? lens.x : 0, row_tables.y == table ? lens.y : 0);
        const uint begin = subgroupBroadcastFirst(subgroupMin(same ? own_start : end)) / KV_BLOCK * KV_BLOCK;
        uint word = params.w[table + begin / KV_BLOCK], ahead = params.w[table + min(begin + KV_BLOCK, end - 1) / KV_BLOCK];
        fetch_k(word, kv_head, begin, end, lane);
        fetch_v(word, kv_head, begin, end, lane);
        for (uint from = begin; from < end; from += TILE) {
            const uint next = from + TILE;
            if (next % KV_BLOCK == 0) {
                word = ahead;
                ahead = params.w[table + min(next + KV_BLOCK, end - 1) / KV_BLOCK];
            }
            vec4 a, b;
            [[unroll]] for (uint half_ = 0; half_ < 2; half_++) {
                Scores even = Scores(0.0), odd = Scores(0.0);
                [[unroll]] for (uint i = 0; i < BLOCKS; i++) {
                    const uvec4 k = kv_halves(K_TYPE, k_raw[half_][i]);
                    even = coopMatMulAdd(asked[2 * i], keys(k.xy), even);
                    odd = coopMatMulAdd(asked[2 * i + 1], keys(k.zw), odd);
                }
                [[unroll]] for (uint e = 0; e < 2; e++) {
                    const uint pos = from + 8 * half_ + 2 * (lane % 4) + e;
                    a[2 * half_ + e] = seen(pos, starts.x, limit.x) ? powered(even[e] + odd[e], h, pos, poss.x) : -1e30;
                    b[2 * half_ + e] = seen(pos, starts.y, limit.y) ? powered(even[2 + e] + odd[2 + e], h, pos, poss.y) : -1e30;
                }
            }
            if (next < end) fetch_k(word, kv_head, next, end, lane);
            const vec2 now = max(most, vec2(row_max(a), row_max(b)));
            if (subgroupAny(any(greaterThan(now, most)))) {
                const vec2 by = exp2(most - now);
                total *= by;
                [[unroll]] for (uint i = 0; i < HEAD_DIM / 8; i++) {
                    [[unroll]] for (uint e = 0; e < 4; e++) outs[i][e] *= by[e / 2];
                }
                most = now;
            }
            a = exp2(a - most.x);
            b = exp2(b - most.y);
            total += vec2(a.x + a.y + a.z + a.w, b.x + b.y + b.z + b.w);
            const Queries weights = queries(a, b);
            halve_v();
            [[unroll]] for (uint i = 0; i < HEAD_DIM / 8; i++) outs[i] = coopMatMulAdd(weights, values(i), outs[i]);
            if (next < end) fetch_v(word, kv_head, next, end, lane);
        }
    }
    total = vec2(row_sum(total.x), row_sum(total.y));
    vec2 by = vec2(1.0);
    if (has_sinks()) {
        const float sink = F32(sinks).v[h] * LOG2_E;
        [[unroll]] for (uint r = 0; r < 2; r++) by[r] = sink_in(most[r], total[r], sink);
    }
    by /= total;
    // A thread's outputs of every 64 dimensions are two runs of eight neighbours of each row.
    [[unroll]] for (uint r = 0; r < 2; r++) {
        const uint row = first + g + 8 * r;
        if (row >= n) continue;
        [[unroll]] for (uint w = 0; w < WIDES; w++) {
            [[unroll]] for (uint run = 0; run < 2; run++) {
                const uint at = (row * heads + h) * (HEAD_DIM / 4) + w * 16 + lane % 4 * 4 + run * 2;
                [[unroll]] for (uint j = 0; j < 2; j++) {
                    vec4 o;
                    [[unroll]] for (uint i = 0; i < 4; i++) o[i] = outs[8 * w + 4 * j + i][2 * r + run] * by[r];
                    y.v[at + j] = o;
                }
            }
        }
    }
}
