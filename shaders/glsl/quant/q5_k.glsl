// Q5_K: see quant/src/q5_k.rs. Q4_K's chunks with a fifth bit.
#define Weights U32x4
#include "quant/scale_min.glsl"
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 8) * 11, j = (g % 8) / 2;
    uvec4 head = w.v[block];
    uvec4 fifth = w.v[block + 1 + g % 2] >> (2 * j);
    uvec4 q = w.v[block + 3 + g % 8];
    vec2 d = unpackHalf2x16(head.x);
    uvec2 low = scale_min(head.yzw, 2 * j), high = scale_min(head.yzw, 2 * j + 1);
    vec2 a = d * vec2(low), b = d * vec2(high);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        v[i] = a.x * (nibbles(q[i]) + 16.0 * nibbles(fifth[i] & 0x01010101u)) - a.y;
        v[i + 4] = b.x * (nibbles(q[i] >> 4) + 16.0 * nibbles((fifth[i] >> 1) & 0x01010101u)) - b.y;
    }
}
uint chunk_col(uint c, uint i) { return (c / 2) * 64 + (c % 2) * 16 + (i / 4) * 32 + (i % 4) * 4; }
