// IQ3_XXS: see quant/src/iq3_xxs.rs. A chunk is a sub-block; 98 bytes a block.
#define Weights U16
#include "quant/codes_iq3_xxs.glsl"
#include "quant/grid.glsl"
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 8) * 49, j = g % 8;
    uint word = pair_at(w, block + 33 + 2 * j);
    float step = half1(uint(w.v[block])) * (0.5 + float(word >> 28)) * 0.5;
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uvec4 level = three_bits(grid_code(byte_at(w, 2 * block + 2 + 8 * j + i)));
        vec4 x = vec4(4 + 8 * level + 2 * (level / 7)); // 4, 12, ... 52, 62
        v[i] = signed_by(step * x, eight_signs(word >> (7 * (i / 2))) >> (4 * (i % 2)));
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
