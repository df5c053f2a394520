// Attention of one row and one head per workgroup: q of qkv -> y [n, heads * HEAD_DIM]. Walks the cache in tiles of one
// position per thread with an online softmax; each thread then owns a pair of output elements.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/reduce.glsl"
#include "lib/kv.glsl"
layout(local_size_x_id = 0) in; // at least HEAD_DIM / 2
layout(push_constant) uniform Push {
    F32x4 qkv; // [n, (heads + 2 kv_heads) * HEAD_DIM]
    F32x2 y;   // [n, heads * HEAD_DIM]
    uvec2 k_cache;
    uvec2 v_cache;
    Step params;
    uint heads;
    uint kv_heads;
    float scale;
};
const uint PAIRS = HEAD_DIM / 2;
shared vec4 q[HEAD_DIM / 4];
shared float p[1024];
shared vec2 part[1024];

void main() {
    uint row = gl_WorkGroupID.x, h = gl_WorkGroupID.y, t = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x;
    if (row >= params.w[STEP_ROWS]) return;
    uint table = step_table(params, row), len = step_pos(params, row) + 1, kv_head = h / (heads / kv_heads);
    for (uint i = t; i < HEAD_DIM / 4; i += size) q[i] = qkv.v[(row * (heads + 2 * kv_heads) + h) * (HEAD_DIM / 4) + i];
    barrier();
    uint groups = size / PAIRS, group = t / PAIRS, pair = t % PAIRS;
    float best = -1e30, sum = 0.0;
    vec2 acc = vec2(0.0);
    for (uint base = 0; base < len; base += size) {
        float score = -1e30;
        if (base + t < len) {
            uint slot = kv_slot(params, table, base + t, kv_head, kv_heads);
            float s = 0.0;
            for (uint i = 0; i < HEAD_DIM / 4; i++) s += dot(q[i], kv_load4(k_cache, K_TYPE, slot, i));
            score = s * scale;
        }
        float now = max(best, workgroup_max(score)), keep = exp(best - now);
        float e = base + t < len ? exp(score - now) : 0.0;
        barrier();
        p[t] = e;
        sum = sum * keep + workgroup_sum(e);
        barrier();
        acc *= keep;
        best = now;
        if (group < groups) {
            uint count = min(size, len - base);
            for (uint j = group; j < count; j += groups) {
                uint slot = kv_slot(params, table, base + j, kv_head, kv_heads);
                acc += p[j] * kv_load2(v_cache, V_TYPE, slot, pair);
            }
        }
    }
    part[t] = acc;
    barrier();
    if (t < PAIRS) {
        for (uint g = 1; g < groups; g++) acc += part[g * PAIRS + t];
        y.v[(row * heads + h) * PAIRS + t] = acc / sum;
    }
}
