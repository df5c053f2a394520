// IQ4_XS: see quant/src/iq4_xs.rs. A chunk is a sub-block; a block is 34 words.
#define Weights U32
#define PIECES 1
#include "quant/levels_iq4.glsl"
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 34, j = g % 8;
    uint head = w.v[block];
    uint scale = ((w.v[block + 1] >> (4 * j)) & 15) | (((head >> (16 + 2 * j)) & 3) << 4);
    s[0] = vec2(half1(head) * (float(scale) - 32.0), 0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint n = w.v[block + 2 + 4 * j + i];
        q[i] = leveled(n);
        q[i + 4] = leveled(n >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
