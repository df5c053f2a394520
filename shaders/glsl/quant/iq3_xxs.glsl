// IQ3_XXS: see quant/src/iq3_xxs.rs. A chunk is a sub-block; 98 bytes a block.
#define Weights U16
#define PIECES 1
#include "quant/codes_iq3_xxs.glsl"
#include "quant/grid.glsl"
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 49, j = g % 8;
    uint word = pair_at(w, block + 33 + 2 * j);
    s[0] = vec2(half1(uint(w.v[block])) * (0.5 + float(word >> 28)) * 0.5, 0.0);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint level = three_bits(grid_code(byte_at(w, 2 * block + 2 + 8 * j + i)));
        uint top = level & (level >> 1) & (level >> 2) & 0x01010101u; // level 7 is 62, not 60
        uint minus = eight_signs(word >> (7 * (i / 2))) >> (4 * (i % 2));
        q[i] = signed_by(0x04040404u + 8 * level + 2 * top, minus);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
