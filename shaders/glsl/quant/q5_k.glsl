// Q5_K: see quant/src/q5_k.rs. Q4_K's chunks with a fifth bit.
#define Weights U32x4
#define PIECES 2
#define HAS_OFFSET
#include "quant/scale_min.glsl"
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 11, j = (g % 8) / 2;
    uvec4 head = w.v[block];
    uvec4 fifth = w.v[block + 1 + g % 2] >> (2 * j);
    uvec4 n = w.v[block + 3 + g % 8];
    piece_scales(unpackHalf2x16(head.x), head.yzw, j, s);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        q[i] = bytes_of_nibbles(n[i]) | ((fifth[i] & 0x01010101u) << 4);
        q[i + 4] = bytes_of_nibbles(n[i] >> 4) | (((fifth[i] >> 1) & 0x01010101u) << 4);
    }
}
uint chunk_col(uint c, uint i) { return (c / 2) * 64 + (c % 2) * 16 + (i / 4) * 32 + (i % 4) * 4; }
