// IQ2_XS: see quant/src/iq2_xs.rs. A chunk is two sub-blocks; 74 bytes a block.
#define Weights U16
#include "quant/codes_iq2_xs.glsl"
#include "quant/grid.glsl"
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 8) * 37, j = g % 8;
    float d = half1(uint(w.v[block])) * 0.25;
    uint scales = byte_at(w, 2 * block + 66 + j);
    [[unroll]] for (uint l = 0; l < 4; l++) {
        uint word = uint(w.v[block + 1 + 4 * j + l]);
        float step = d * (0.5 + float((scales >> (4 * (l / 2))) & 15));
        uint code = grid_code(word & 511), minus = eight_signs(word >> 9);
        v[2 * l] = signed_by(step * two_bits(code), minus);
        v[2 * l + 1] = signed_by(step * two_bits(code >> 8), minus >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
