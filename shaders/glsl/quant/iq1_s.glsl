// IQ1_S: see quant/src/iq1_s.rs. A chunk is a sub-block; 50 bytes a block.
#define Weights U16
#define PIECES 1
#include "quant/grid_iq1.glsl"
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 25, j = g % 8;
    uint low = pair_at(w, block + 1 + 2 * j), word = uint(w.v[block + 17 + j]);
    s[0] = vec2(half1(uint(w.v[block])) * float(2 * ((word >> 12) & 7) + 1) * 0.125, 0.0);
    bool down = word >> 15 == 1;
    [[unroll]] for (uint l = 0; l < 4; l++) {
        uint code = grid_code(((low >> (8 * l)) & 255) | (((word >> (3 * l)) & 7) << 8));
        q[2 * l] = ternary(code, down);
        q[2 * l + 1] = ternary(code >> 8, down);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
