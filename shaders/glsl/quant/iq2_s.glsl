// IQ2_S: see quant/src/iq2_s.rs. A chunk is two sub-blocks; 82 bytes a block.
#define Weights U16
#define PIECES 2
#include "quant/codes_iq2_s.glsl"
#include "quant/grid.glsl"
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 41, j = g % 8;
    float d = half1(uint(w.v[block])) * 0.25;
    uint low = pair_at(w, block + 1 + 2 * j), minus = pair_at(w, block + 17 + 2 * j);
    uint high = byte_at(w, 2 * block + 66 + j), scales = byte_at(w, 2 * block + 74 + j);
    s[0] = vec2(d * (0.5 + float(scales & 15)), 0.0);
    s[1] = vec2(d * (0.5 + float(scales >> 4)), 0.0);
    [[unroll]] for (uint l = 0; l < 4; l++) {
        uint code = grid_code(((low >> (8 * l)) & 255) | (((high >> (2 * l)) & 3) << 8));
        q[2 * l] = signed_by(two_bits(code), minus >> (8 * l));
        q[2 * l + 1] = signed_by(two_bits(code >> 8), minus >> (8 * l + 4));
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
