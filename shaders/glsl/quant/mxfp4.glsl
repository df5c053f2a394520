// MXFP4: see quant/src/mxfp4.rs. A block is a chunk; 17 bytes, so a word is put together from two.
#define Weights U32
#define PIECES 1
#include "quant/levels_fp4.glsl"
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint at = g * 17, word = at / 4, by = 8 * (at % 4);
    uint raw[5];
    [[unroll]] for (uint i = 0; i < 5; i++) raw[i] = w.v[word + i];
    uint e = (raw[0] >> by) & 255;
    s[0] = vec2(uintBitsToFloat(e < 2 ? 0x00200000u << e : (e - 1) << 23), 0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint n = by == 24 ? raw[i + 1] : (raw[i] >> (by + 8)) | (raw[i + 1] << (24 - by));
        q[i] = leveled(n);
        q[i + 4] = leveled(n >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
