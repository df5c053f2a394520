// IQ1_M: see quant/src/iq1_m.rs. A chunk is two sub-blocks; 56 bytes a block.
#define Weights U16
#include "quant/grid_iq1.glsl"
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 8) * 28, j = g % 8;
    uvec4 top = uvec4(w.v[block + 24], w.v[block + 25], w.v[block + 26], w.v[block + 27]);
    float d = half1((top.x >> 12) | ((top.y >> 8) & 0xf0) | ((top.z >> 4) & 0xf00) | (top.w & 0xf000));
    uint low = pair_at(w, block + 2 * j), high = uint(w.v[block + 16 + j]), scales = top[j / 2] >> (6 * (j % 2));
    [[unroll]] for (uint l = 0; l < 4; l++) {
        float step = d * float(2 * ((scales >> (3 * (l / 2))) & 7) + 1);
        uint part = high >> (4 * l);
        uint code = grid_code(((low >> (8 * l)) & 255) | ((part & 7) << 8));
        float shift = (part & 8) != 0 ? -0.125 : 0.125;
        v[2 * l] = step * (ternary(code) + shift);
        v[2 * l + 1] = step * (ternary(code >> 8) + shift);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
