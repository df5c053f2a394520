// Q4_K: see quant/src/q4_k.rs. A chunk is 16 bytes of nibbles: 16 weights of sub-block 2i and 16 of 2i + 1.
#define Weights U32x4
#include "quant/scale_min.glsl"
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 8) * 9, j = (g % 8) / 2;
    uvec4 head = w.v[block];
    uvec4 q = w.v[block + 1 + g % 8];
    vec2 d = unpackHalf2x16(head.x);
    uvec2 low = scale_min(head.yzw, 2 * j), high = scale_min(head.yzw, 2 * j + 1);
    vec2 a = d * vec2(low), b = d * vec2(high);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        v[i] = a.x * nibbles(q[i]) - a.y;
        v[i + 4] = b.x * nibbles(q[i] >> 4) - b.y;
    }
}
uint chunk_col(uint c, uint i) { return (c / 2) * 64 + (c % 2) * 16 + (i / 4) * 32 + (i % 4) * 4; }
