// Q4_K: see quant/src/q4_k.rs. A chunk is 16 bytes of nibbles: 16 weights of sub-block 2i and 16 of 2i + 1.
#define Weights U32x4
#define PIECES 2
#define HAS_OFFSET
#include "quant/scale_min.glsl"
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 9, j = (g % 8) / 2;
    uvec4 head = w.v[block];
    uvec4 n = w.v[block + 1 + g % 8];
    piece_scales(unpackHalf2x16(head.x), head.yzw, j, s);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        q[i] = bytes_of_nibbles(n[i]);
        q[i + 4] = bytes_of_nibbles(n[i] >> 4);
    }
}
uint chunk_col(uint c, uint i) { return (c / 2) * 64 + (c % 2) * 16 + (i / 4) * 32 + (i % 4) * 4; }
