// MXFP4: see quant/src/mxfp4.rs. A block is a chunk; 17 bytes, so a word is put together from two.
#define Weights U32
#include "quant/levels_fp4.glsl"
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint at = g * 17, word = at / 4, by = 8 * (at % 4);
    uint q[5];
    [[unroll]] for (uint i = 0; i < 5; i++) q[i] = w.v[word + i];
    uint e = (q[0] >> by) & 255;
    float d = uintBitsToFloat(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint n = by == 24 ? q[i + 1] : (q[i] >> (by + 8)) | (q[i + 1] << (24 - by));
        v[i] = leveled(n) * d;
        v[i + 4] = leveled(n >> 4) * d;
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
