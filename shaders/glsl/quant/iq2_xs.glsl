// IQ2_XS: see quant/src/iq2_xs.rs. A chunk is two sub-blocks; 74 bytes a block.
#define Weights U16
#define PIECES 2
#include "quant/codes_iq2_xs.glsl"
#include "quant/grid.glsl"
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 37, j = g % 8;
    float d = half1(uint(w.v[block])) * 0.25;
    uint scales = byte_at(w, 2 * block + 66 + j);
    s[0] = vec2(d * (0.5 + float(scales & 15)), 0.0);
    s[1] = vec2(d * (0.5 + float(scales >> 4)), 0.0);
    [[unroll]] for (uint l = 0; l < 4; l++) {
        uint word = uint(w.v[block + 1 + 4 * j + l]);
        uint code = grid_code(word & 511), minus = eight_signs(word >> 9);
        q[2 * l] = signed_by(two_bits(code), minus);
        q[2 * l + 1] = signed_by(two_bits(code >> 8), minus >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
