// As attn_split.comp for a cache of halves or of quantized blocks, by cooperative matrices (lib/attn_matrix.glsl): for devices that
// spread matrices over threads as gemm_few.comp expects (policy/matrix.rs: `direct`). A subgroup takes 16 positions at a time
// with an online softmax of its own. Of weights and queries, rounded to halves, a matrix holds what was lost in rows of its own,
// so that nothing is: row g is query head g, row g + 8 the rest of it.
#version 460
#include "lib/attn.glsl"
#include "lib/attn_matrix.glsl"
const uint SUBGROUPS = gl_WorkGroupSize.x / 32;
shared float of_best[SUBGROUPS * 8], of_sum[SUBGROUPS * 8];
shared float of_out[SUBGROUPS * GH * HEAD_DIM];

// Four numbers as halves, and what these lack: cut off by a mask, for compilers take a conversion there and back for nothing.
Queries queries(vec4 x) {
    vec4 cut = uintBitsToFloat(floatBitsToUint(x) & 0xffffe000u);
    f16vec4 high = f16vec4(cut), low = f16vec4(x - cut);
    Queries a;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        a[i] = high[i];
        a[4 + i] = low[i];
    }
    return a;
}

void main() {
    uint row = gl_WorkGroupID.x, h0 = gl_WorkGroupID.y * GH, part = gl_WorkGroupID.z, parts = gl_NumWorkGroups.z;
    uint t = gl_LocalInvocationID.x, lane = gl_SubgroupInvocationID;
    if (row >= params.w[STEP_SINGLES]) return;
    uint table = table_of(row), pos = step_pos(params, row), len = end_seen(row), kv_head = h0 / (heads / kv_heads), used, start, end;
    const uint seen = first_seen(row, pos);
    find_part(seen / KV_BLOCK * KV_BLOCK, len, part, parts, used, start, end);
    if (start >= len) {
        if (LEAVES == 1) leave_none(h0, part, parts);
        return;
    }
    bool fresh = ROPE == 1 && end == len;
    if (fresh) end--;
    // The subgroup's blocks, one in SUBGROUPS, and the word that says where the next one is.
    uint from = start + gl_SubgroupID * KV_BLOCK;
    uint word = params.w[table + from / KV_BLOCK];
    uint ahead = params.w[table + min(from + SUBGROUPS * KV_BLOCK, len - 1) / KV_BLOCK];
    if (from < end) {
        fetch_k(word, kv_head, from, end, lane);
        fetch_v(word, kv_head, from, end, lane);
    }
    load_heads(row, h0, kv_head, pos, fresh);
    if (fresh) store_newest(kv_slot(params, table, len - 1, kv_head, kv_heads));
    score_newest(fresh, h0, part);
    Queries asked[HEAD_DIM / 16];
    [[unroll]] for (uint i = 0; i < HEAD_DIM / 16; i++) {
        uint at = (lane / 4 * HEAD_DIM + i / 2 * 32 + lane % 4 * 8 + i % 2 * 4) / 4;
        asked[i] = queries(lane / 4 < GH ? q[at] * scale : vec4(0.0));
    }
    Scores outs[HEAD_DIM / 8];
    [[unroll]] for (uint i = 0; i < HEAD_DIM / 8; i++) outs[i] = Scores(0.0);
    float most = -1e29, total = 0.0; // above what stands for positions that are masked
    while (from < end) {
        uint next = from % KV_BLOCK == 0 ? from + TILE : from - TILE + SUBGROUPS * KV_BLOCK;
        if (from % KV_BLOCK != 0) {
            word = ahead;
            ahead = params.w[table + min(next + SUBGROUPS * KV_BLOCK, len - 1) / KV_BLOCK];
        }
        vec4 s;
        [[unroll]] for (uint half_ = 0; half_ < 2; half_++) {
            Scores even = Scores(0.0), odd = Scores(0.0);
            [[unroll]] for (uint b = 0; b < BLOCKS; b++) {
                const uvec4 k = kv_halves(K_TYPE, k_raw[half_][b]);
                even = coopMatMulAdd(asked[2 * b], keys(k.xy), even);
                odd = coopMatMulAdd(asked[2 * b + 1], keys(k.zw), odd);
            }
            even += odd;
            [[unroll]] for (uint e = 0; e < 2; e++) {
                const uint at = from + 8 * half_ + 2 * (lane % 4) + e;
                const float score = ruled(even[e] + even[2 + e], h0 + lane / 4, pos, at);
                s[2 * half_ + e] = at < end && (MASK == MASK_CAUSAL || at >= seen) ? score : -1e30;
            }
        }
        if (next < end) fetch_k(word, kv_head, next, end, lane);
        float now = max(most, row_max(s));
        if (subgroupAny(now > most)) {
            const float by = raise(most, total, now);
            [[unroll]] for (uint i = 0; i < HEAD_DIM / 8; i++) {
                [[unroll]] for (uint e = 0; e < 4; e++) outs[i][e] *= by;
            }
        }
        s = exp(s - most);
        total += s.x + s.y + s.z + s.w;
        Queries weights = queries(s);
        halve_v();
        [[unroll]] for (uint i = 0; i < HEAD_DIM / 8; i++) outs[i] = coopMatMulAdd(weights, values(i), outs[i]);
        if (next < end) fetch_v(word, kv_head, next, end, lane);
        from = next;
    }
    total = row_sum(total);
    uint g = lane / 4;
    if (lane % 4 == 0) {
        of_best[gl_SubgroupID * 8 + g] = most;
        of_sum[gl_SubgroupID * 8 + g] = total;
    }
    if (g < GH) {
        [[unroll]] for (uint i = 0; i < HEAD_DIM / 8; i++) {
            uint at = (gl_SubgroupID * GH + g) * HEAD_DIM + i / 8 * 64 + lane % 4 * 16 + i % 8;
            of_out[at] = outs[i][0] + outs[i][2];
            of_out[at + 8] = outs[i][1] + outs[i][3];
        }
    }
    barrier();
    // What the subgroups and the newest position have, put together.
    if (t < GH) {
        float whole = best[t], weight = 0.0;
        [[unroll]] for (uint k = 0; k < SUBGROUPS; k++) whole = max(whole, of_best[k * 8 + t]);
        const float rest = exp(best[t] - whole);
        keep[t] *= rest;
        weight = rest * sum[t];
        [[unroll]] for (uint k = 0; k < SUBGROUPS; k++) {
            float by = exp(of_best[k * 8 + t] - whole);
            weight += by * of_sum[k * 8 + t];
            of_best[k * 8 + t] = by;
        }
        best[t] = whole;
        sum[t] = weight;
    }
    barrier();
    for (uint i = t; i < GH * HEAD_DIM / 4; i += SIZE) {
        uint h = i / (HEAD_DIM / 4), e = i % (HEAD_DIM / 4);
        vec4 o = fresh ? keep[h] * q[(GH + 1) * HEAD_DIM / 4 + e] : vec4(0.0);
        [[unroll]] for (uint k = 0; k < SUBGROUPS; k++) {
            uint at = (k * GH + h) * HEAD_DIM + 4 * e;
            o += of_best[k * 8 + h] * vec4(of_out[at], of_out[at + 1], of_out[at + 2], of_out[at + 3]);
        }
        give(h, e, row, h0, part, parts, used, o);
    }
    if (LEAVES == 0 && used > 1 && t < GH) give_state(t, row, h0, part, parts);
    if (LEAVES == 0 && used > 1) join_parts(row, h0, parts, used);
}
