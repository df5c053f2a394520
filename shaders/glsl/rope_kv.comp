// One head of one row per workgroup: per-head norm (optional), RoPE, then q back in place, k and v into the cache.
// qkv [n, (heads + 2 kv_heads) * HEAD_DIM].
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/reduce.glsl"
#include "lib/kv.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint NEOX = 0; // 1: rotates halves, 0: neighbours
layout(constant_id = 2) const uint NORM = 0; // 1: q and k are normed per head
#include "push/rope_kv.glsl"
#include "lib/rope.glsl"
shared float head[HEAD_DIM];
#include "lib/kv_store.glsl"

void main() {
    uint row = gl_WorkGroupID.x, h = gl_WorkGroupID.y, t = gl_LocalInvocationID.x;
    if (row >= params.w[STEP_ROWS]) return;
    uint at = (row * (heads + 2 * kv_heads) + h) * (HEAD_DIM / 2);
    bool is_q = h < heads, is_v = h >= heads + kv_heads;
    float square = 0.0;
    for (uint i = t; i < HEAD_DIM / 2; i += gl_WorkGroupSize.x) {
        vec2 v = qkv.v[at + i];
        square += dot(v, v);
        head[2 * i] = v.x;
        head[2 * i + 1] = v.y;
    }
    uint pos = step_pos(params, row);
    if (!is_v) {
        if (NORM == 1) {
            float scale = 1.0 / sqrt(workgroup_sum(square) / float(HEAD_DIM) + eps);
            barrier();
            for (uint i = t; i < HEAD_DIM; i += gl_WorkGroupSize.x) head[i] *= scale * (is_q ? q_norm.v[i] : k_norm.v[i]);
        }
        barrier();
        for (uint i = t; i < rope_dims / 2; i += gl_WorkGroupSize.x) {
            uint a = NEOX == 1 ? i : 2 * i, b = NEOX == 1 ? i + rope_dims / 2 : 2 * i + 1;
            vec2 turned = rotated(vec2(head[a], head[b]), pos, inv_freq.v[i]);
            head[a] = turned.x;
            head[b] = turned.y;
        }
    }
    barrier();
    if (is_q) {
        for (uint i = t; i < HEAD_DIM / 2; i += gl_WorkGroupSize.x) qkv.v[at + i] = vec2(head[2 * i], head[2 * i + 1]);
        return;
    }
    uint slot = kv_slot(params, step_table(params, row), pos, is_v ? h - heads - kv_heads : h - heads, kv_heads);
    uint type = is_v ? V_TYPE : K_TYPE;
    uvec2 cache = is_v ? v_cache : k_cache;
    if (type <= KV_BF16) {
        for (uint i = t; i < HEAD_DIM / 2; i += gl_WorkGroupSize.x) {
            kv_store2(cache, type, slot, i, vec2(head[2 * i], head[2 * i + 1]));
        }
        return;
    }
    for (uint b = t; b < HEAD_DIM / 32; b += gl_WorkGroupSize.x) {
        if (is_v) kv_store32(cache, V_TYPE, slot, b, 0);
        else kv_store32(cache, K_TYPE, slot, b, 0);
    }
}
