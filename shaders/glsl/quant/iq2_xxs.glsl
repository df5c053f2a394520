// IQ2_XXS: see quant/src/iq2_xxs.rs. A chunk is a sub-block; 66 bytes a block.
#define Weights U16
#define PIECES 1
#include "quant/codes_iq2_xxs.glsl"
#include "quant/grid.glsl"
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 33, at = block + 1 + 4 * (g % 8);
    uint indices = pair_at(w, at), word = pair_at(w, at + 2);
    s[0] = vec2(half1(uint(w.v[block])) * (0.5 + float(word >> 28)) * 0.25, 0.0);
    [[unroll]] for (uint l = 0; l < 4; l++) {
        uint code = grid_code((indices >> (8 * l)) & 255), minus = eight_signs(word >> (7 * l));
        q[2 * l] = signed_by(two_bits(code), minus);
        q[2 * l + 1] = signed_by(two_bits(code >> 8), minus >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
