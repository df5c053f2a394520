// One head of one row per workgroup, which is a subgroup: per-head norm (optional), RoPE, then q back in place, k and v into the cache.
// qkv [n, heads * HEAD_DIM | kv_heads * HEAD_DIM | kv_heads * V_DIM].
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/kv.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint NEOX = 0; // 1: rotates halves, 0: neighbours
layout(constant_id = 2) const uint NORM = 0; // 1: q and k are normed per head, 2: q, 3: k
#include "push/rope_kv.glsl"
shared vec4 head[((HEAD_DIM > V_DIM ? HEAD_DIM : V_DIM) + 3) / 4];
#define HEADS head
#define HEAD_NORM(i) (gl_WorkGroupID.y < heads ? q_norm.v[i] : k_norm.v[i])
#define HEAD_FREQ(i) inv_freq.v[i]
#define HEAD_LANES gl_SubgroupSize
#include "lib/streams.glsl"
#define HEAD_POS(i) rope_pos(gl_WorkGroupID.x, i)
#include "lib/head.glsl"
#include "lib/kv_store.glsl"

void main() {
    const uint row = gl_WorkGroupID.x, h = gl_WorkGroupID.y, t = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    if (row >= params.w[STEP_ROWS]) return;
    const bool is_q = h < heads, is_v = h >= heads + kv_heads;
    const uint dim = is_v ? V_DIM : HEAD_DIM, v_head = h - heads - kv_heads;
    const uint width = (heads + kv_heads) * HEAD_DIM + kv_heads * V_DIM;
    const uint at = (row * width + (is_v ? (heads + kv_heads) * HEAD_DIM + v_head * V_DIM : h * HEAD_DIM)) / 2;
    for (uint i = t; i < dim / 2; i += lanes) {
        const vec2 v = qkv.v[at + i];
        put_head(2 * i, v.x);
        put_head(2 * i + 1, v.y);
    }
    barrier();
    const uint pos = step_pos(params, row);
    if (!is_v) turn_head(0, NORM == 1 || NORM == (is_q ? 2 : 3), 0, eps, rope_dims, NEOX == 1, pos);
    barrier();
    if (is_q) {
        for (uint i = t; i < HEAD_DIM / 2; i += lanes) qkv.v[at + i] = vec2(head_at(2 * i), head_at(2 * i + 1));
        return;
    }
    const uint slot = kv_slot(params, step_table(params, row) + table_at, pos, is_v ? v_head : h - heads, kv_heads);
    const uint type = is_v ? V_TYPE : K_TYPE;
    const uvec2 cache = is_v ? v_cache : k_cache;
    if (type <= KV_BF16) {
        for (uint i = t; i < dim / 2; i += lanes) kv_store2(cache, type, dim, slot, i, vec2(head_at(2 * i), head_at(2 * i + 1)));
        return;
    }
    for (uint b = t; b < dim / 32; b += lanes) {
        if (is_v) kv_store32(cache, V_TYPE, V_DIM, slot, b, 0);
        else kv_store32(cache, K_TYPE, HEAD_DIM, slot, b, 0);
    }
}
