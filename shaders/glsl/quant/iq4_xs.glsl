// IQ4_XS: see quant/src/iq4_xs.rs. A chunk is a sub-block; a block is 34 words.
#define Weights U32
#include "quant/levels_iq4.glsl"
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 8) * 34, j = g % 8;
    uint head = w.v[block];
    uint scale = ((w.v[block + 1] >> (4 * j)) & 15) | (((head >> (16 + 2 * j)) & 3) << 4);
    float step = half1(head) * (float(scale) - 32.0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint q = w.v[block + 2 + 4 * j + i];
        v[i] = step * leveled(q);
        v[i + 4] = step * leveled(q >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
