// IQ3_S: see quant/src/iq3_s.rs. A chunk is a sub-block; 110 bytes a block.
#define Weights U16
#define PIECES 1
#include "quant/codes_iq3_s.glsl"
#include "quant/grid.glsl"
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 55, j = g % 8;
    uint scale = (byte_at(w, 2 * block + 106 + j / 2) >> (4 * (j % 2))) & 15;
    s[0] = vec2(half1(uint(w.v[block])) * (1.0 + 2.0 * float(scale)), 0.0);
    uint ninth = byte_at(w, 2 * block + 66 + j), minus = pair_at(w, block + 37 + 2 * j);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint index = byte_at(w, 2 * block + 2 + 8 * j + i) | (((ninth >> i) & 1) << 8);
        q[i] = signed_by(0x01010101u + 2 * three_bits(grid_code(index)), minus >> (4 * i));
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
