// Attention of BR rows of one head per workgroup of 128: K and V are read once for all rows of a sequence.
// Rows of several sequences may meet in a tile: each distinct sequence is walked in turn, the others masked.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/kv.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 1) const uint BR = 16; // rows per workgroup
layout(constant_id = 2) const uint BC = 32; // positions per tile
#define Rows F32
#include "push/attn_prefill.glsl"
#include "lib/mask.glsl"
#include "lib/softmax.glsl"
const uint LANES = 128 / BR; // threads per row
const uint STRIDE = (HEAD_DIM > V_DIM ? HEAD_DIM : V_DIM) + 1;
const uint OWN = (V_DIM + LANES - 1) / LANES; // output elements per thread
shared float q[BR * STRIDE];
shared float kv[BC * STRIDE];
shared float s[BR * BC];
shared uint row_table[BR], row_pos[BR], row_first[BR]; // a row sees positions from this one on,
shared uint row_len[BR];                                // below this one; 0: no such row

void load_tile(uvec2 cache, uint type, uint dim, uint table, uint base, uint len, uint kv_head) {
    for (uint i = gl_LocalInvocationID.x; i < BC * (dim / 4); i += 128) {
        uint c = i / (dim / 4), e = i % (dim / 4);
        vec4 v = vec4(0.0);
        if (base + c < len) v = kv_load4(cache, type, dim, kv_slot(params, table, base + c, kv_head, kv_heads), e);
        for (uint j = 0; j < 4; j++) kv[c * STRIDE + e * 4 + j] = v[j];
    }
}

void main() {
    uint t = gl_LocalInvocationID.x, r = t / LANES, lane = t % LANES;
    uint first = gl_WorkGroupID.x * BR, h = gl_WorkGroupID.y, kv_head = h / (heads / kv_heads);
    uint n = params.w[STEP_ROWS];
    if (first >= n) return;
    for (uint i = t; i < BR; i += 128) {
        bool there = first + i < n;
        row_table[i] = there ? table_of(first + i) : 0xffffffff;
        row_pos[i] = there ? step_pos(params, first + i) : 0;
        row_first[i] = there ? first_seen(first + i, row_pos[i]) : 0;
        row_len[i] = there ? end_seen(first + i) : 0;
    }
    const uint width = (heads + kv_heads) * HEAD_DIM + kv_heads * V_DIM;
    for (uint i = t; i < BR * HEAD_DIM; i += 128) {
        uint row = i / HEAD_DIM, d = i % HEAD_DIM;
        q[row * STRIDE + d] = first + row < n ? qkv.v[(first + row) * width + h * HEAD_DIM + d] * scale : 0.0;
    }
    barrier();
    float best = -1e29, sum = 0.0, acc[OWN]; // above what stands for positions that are masked
    for (uint i = 0; i < OWN; i++) acc[i] = 0.0;
    for (uint lead = 0; lead < BR; lead++) {
        uint table = row_table[lead], begin = 0xffffffff, len = 0;
        bool fresh = row_len[lead] > 0;
        for (uint i = 0; i < BR; i++) {
            if (row_table[i] != table) continue;
            if (i < lead) fresh = false;
            begin = min(begin, row_first[i]);
            len = max(len, row_len[i]);
        }
        if (!fresh) continue;
        bool mine = row_table[r] == table;
        for (uint base = begin; base < len; base += BC) {
            barrier();
            load_tile(k_cache, K_TYPE, HEAD_DIM, table, base, len, kv_head);
            barrier();
            for (uint c = lane; c < BC; c += LANES) {
                float dots = 0.0;
                for (uint d = 0; d < HEAD_DIM; d++) dots += q[r * STRIDE + d] * kv[c * STRIDE + d];
                const uint pos = base + c, own = row_pos[r];
                const bool seen = mine && pos < row_len[r] && pos >= row_first[r];
                s[r * BC + c] = seen ? ruled(dots, h, own, pos) : -1e30;
            }
            barrier();
            load_tile(v_cache, V_TYPE, V_DIM, table, base, len, kv_head);
            barrier();
            if (mine && base < row_len[r]) {
                float now = best;
                for (uint c = 0; c < BC; c++) now = max(now, s[r * BC + c]);
                const float keep = raise(best, sum, now);
                for (uint i = 0; i < OWN; i++) acc[i] *= keep;
                for (uint c = 0; c < BC; c++) {
                    float e = exp(s[r * BC + c] - best);
                    sum += e;
                    for (uint i = 0; i < OWN; i++) {
                        uint d = lane + i * LANES;
                        if (d < V_DIM) acc[i] += e * kv[c * STRIDE + d];
                    }
                }
            }
        }
    }
    if (first + r < n) {
        const float by = has_sinks() ? sink_in(best, sum, F32(sinks).v[h]) : 1.0;
        for (uint i = 0; i < OWN; i++) {
            uint d = lane + i * LANES;
            if (d < V_DIM) y.v[((first + r) * heads + h) * V_DIM + d] = acc[i] * by / sum;
        }
    }
}
