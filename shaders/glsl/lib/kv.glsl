// Elements of the KV cache, f16 or f32 by specialization constant; `at` counts head_dim-sized slots.
layout(constant_id = 10) const uint K_F16 = 1;
layout(constant_id = 11) const uint V_F16 = 1;
layout(constant_id = 12) const uint HEAD_DIM = 64;

// Four neighbours of a head, element 4 * i on.
vec4 kv_load4(uvec2 cache, uint is_f16, uint at, uint i) {
    uint e = at * (HEAD_DIM / 4) + i;
    if (is_f16 == 1) return halves4(uvec2(U32(cache).v[2 * e], U32(cache).v[2 * e + 1]));
    return F32x4(cache).v[e];
}
vec2 kv_load2(uvec2 cache, uint is_f16, uint at, uint i) {
    uint e = at * (HEAD_DIM / 2) + i;
    if (is_f16 == 1) return unpackHalf2x16(U32(cache).v[e]);
    return F32x2(cache).v[e];
}
void kv_store2(uvec2 cache, uint is_f16, uint at, uint i, vec2 x) {
    uint e = at * (HEAD_DIM / 2) + i;
    if (is_f16 == 1) U32(cache).v[e] = packHalf2x16(x);
    else F32x2(cache).v[e] = x;
}
