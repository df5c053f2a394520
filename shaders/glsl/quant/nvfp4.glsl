// NVFP4: see quant/src/nvfp4.rs. A chunk is two sub-blocks; a block is nine words.
#define Weights U32
#include "quant/levels_fp4.glsl"
float nvfp4_scale(uint s) {
    uint exponent = (s >> 3) & 15;
    if (s == 127) return 0.0;
    if (exponent == 0) return float(s & 7) * 0.0009765625;
    return uintBitsToFloat((exponent + 119) << 23 | (s & 7) << 20);
}
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 2) * 9, first = 2 * (g % 2);
    uint scales = w.v[block];
    [[unroll]] for (uint s = 0; s < 2; s++) {
        float d = nvfp4_scale((scales >> (8 * (first + s))) & 255);
        [[unroll]] for (uint i = 0; i < 2; i++) {
            uint q = w.v[block + 1 + 2 * (first + s) + i];
            v[4 * s + i] = leveled(q) * d;
            v[4 * s + 2 + i] = leveled(q >> 4) * d;
        }
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
