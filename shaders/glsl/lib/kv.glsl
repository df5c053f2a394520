// Elements of the KV cache, of a type each for K and V; `at` counts slots of `dim` elements, HEAD_DIM of K and V_DIM of V.
// Quantized types keep blocks of 32: a word with two halves (scale, minimum), the codes, and for 5 bits a word of fifth bits.
layout(constant_id = 10) const uint K_TYPE = 1;
layout(constant_id = 11) const uint V_TYPE = 1;
layout(constant_id = 12) const uint HEAD_DIM = 64;
layout(constant_id = 15) const uint V_DIM = 64;

#include "words/kv.glsl"
const int KV_LEVELS[16] = int[](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);

vec4 kv_level4(uvec4 q) { return vec4(KV_LEVELS[q.x], KV_LEVELS[q.y], KV_LEVELS[q.z], KV_LEVELS[q.w]); }

// Four neighbours of a head, element 4 * i on.
vec4 kv_load4(uvec2 cache, uint type, uint dim, uint at, uint i) {
    if (type == KV_F32) return F32x4(cache).v[at * (dim / 4) + i];
    if (type == KV_F16 || type == KV_BF16) {
        uint e = (at * (dim / 4) + i) * 2;
        uvec2 q = uvec2(U32(cache).v[e], U32(cache).v[e + 1]);
        if (type == KV_F16) return halves4(q);
        return uintBitsToFloat(uvec4(q.x << 16, q.x & 0xffff0000u, q.y << 16, q.y & 0xffff0000u));
    }
    uint block = (at * (dim / 32) + i / 8) * KV_WORDS[type], g = i % 8;
    vec2 d = unpackHalf2x16(U32(cache).v[block]);
    if (type == KV_Q8_0) {
        return d.x * bytes4(U32(cache).v[block + 1 + g]);
    }
    uvec4 q = (uvec4(U32(cache).v[block + 1 + g / 2]) >> (uvec4(0, 4, 8, 12) + 16 * (g % 2))) & 15;
    if (type == KV_IQ4_NL) return d.x * kv_level4(q);
    if (type == KV_Q5_0 || type == KV_Q5_1) q |= ((uvec4(U32(cache).v[block + 5]) >> (uvec4(0, 1, 2, 3) + 4 * g)) & 1) << 4;
    return d.x * vec4(q) + d.y;
}

// What the cache holds of a unit, as fetched: four elements of f32, eight of all other types. Of quantized ones: the scale's
// word, the codes, the fifth bits.
uint kv_unit_len(uint type) { return type == KV_F32 ? 4 : 8; }
uvec4 kv_fetch(uvec2 cache, uint type, uint dim, uint at, uint unit) {
    if (type <= KV_BF16) return U32x4(cache).v[at * (dim / kv_unit_len(type)) + unit];
    uint block = (at * (dim / 32) + unit / 4) * KV_WORDS[type], g = unit % 4, d = U32(cache).v[block];
    if (type == KV_Q8_0) return uvec4(d, U32(cache).v[block + 1 + 2 * g], U32(cache).v[block + 2 + 2 * g], 0);
    bool five = type == KV_Q5_0 || type == KV_Q5_1;
    return uvec4(d, U32(cache).v[block + 1 + g], five ? U32(cache).v[block + 5] >> (8 * g) : 0, 0);
}
// The elements of a unit; b is 0 for f32.
void kv_decode(uint type, uvec4 raw, out vec4 a, out vec4 b) {
    b = vec4(0.0);
    if (type == KV_F32) {
        a = uintBitsToFloat(raw);
        return;
    }
    if (type == KV_F16) {
        a = halves4(raw.xy);
        b = halves4(raw.zw);
        return;
    }
    if (type == KV_BF16) {
        a = uintBitsToFloat(uvec4(raw.x << 16, raw.x & 0xffff0000u, raw.y << 16, raw.y & 0xffff0000u));
        b = uintBitsToFloat(uvec4(raw.z << 16, raw.z & 0xffff0000u, raw.w << 16, raw.w & 0xffff0000u));
        return;
    }
    vec2 d = unpackHalf2x16(raw.x);
    if (type == KV_Q8_0) {
        a = d.x * bytes4(raw.y);
        b = d.x * bytes4(raw.z);
        return;
    }
    uvec4 low = (uvec4(raw.y) >> uvec4(0, 4, 8, 12)) & 15, high = (uvec4(raw.y) >> uvec4(16, 20, 24, 28)) & 15;
    if (type == KV_IQ4_NL) {
        a = d.x * kv_level4(low);
        b = d.x * kv_level4(high);
        return;
    }
    low |= ((uvec4(raw.z) >> uvec4(0, 1, 2, 3)) & 1) << 4;
    high |= ((uvec4(raw.z) >> uvec4(4, 5, 6, 7)) & 1) << 4;
    a = d.x * vec4(low) + d.y;
    b = d.x * vec4(high) + d.y;
}
// Those of types but f32 as halves.
uvec4 kv_halves(uint type, uvec4 raw) {
    if (type == KV_F16) return raw;
    vec4 a, b;
    kv_decode(type, raw, a, b);
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}
