// NVFP4: see quant/src/nvfp4.rs. A chunk is two sub-blocks; a block is nine words.
#define Weights U32
#define PIECES 2
#include "quant/levels_fp4.glsl"
float nvfp4_scale(uint scale) {
    uint exponent = (scale >> 3) & 15;
    if (scale == 127) return 0.0;
    if (exponent == 0) return float(scale & 7) * 0.0009765625;
    return uintBitsToFloat((exponent + 119) << 23 | (scale & 7) << 20);
}
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 2) * 9, first = 2 * (g % 2);
    uint scales = w.v[block];
    [[unroll]] for (uint h = 0; h < 2; h++) {
        s[h] = vec2(nvfp4_scale((scales >> (8 * (first + h))) & 255), 0.0);
        [[unroll]] for (uint i = 0; i < 2; i++) {
            uint n = w.v[block + 1 + 2 * (first + h) + i];
            q[4 * h + i] = leveled(n);
            q[4 * h + 2 + i] = leveled(n >> 4);
        }
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
