// IQ1_M: see quant/src/iq1_m.rs. A chunk is two sub-blocks; 56 bytes a block.
#define Weights U16
#define PIECES 2
#include "quant/grid_iq1.glsl"
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 28, j = g % 8;
    uvec4 top = uvec4(w.v[block + 24], w.v[block + 25], w.v[block + 26], w.v[block + 27]);
    float d = half1((top.x >> 12) | ((top.y >> 8) & 0xf0) | ((top.z >> 4) & 0xf00) | (top.w & 0xf000)) * 0.125;
    uint low = pair_at(w, block + 2 * j), high = uint(w.v[block + 16 + j]), scales = top[j / 2] >> (6 * (j % 2));
    s[0] = vec2(d * float(2 * (scales & 7) + 1), 0.0);
    s[1] = vec2(d * float(2 * ((scales >> 3) & 7) + 1), 0.0);
    [[unroll]] for (uint l = 0; l < 4; l++) {
        uint part = high >> (4 * l);
        uint code = grid_code(((low >> (8 * l)) & 255) | ((part & 7) << 8));
        q[2 * l] = ternary(code, (part & 8) != 0);
        q[2 * l + 1] = ternary(code >> 8, (part & 8) != 0);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
