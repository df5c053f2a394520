// NVFP4: see quant/src/nvfp4.rs. A chunk is two sub-blocks.
#define CHUNK 32
#define PIECES 2
#include "quant/levels.glsl"
struct Raw {
    uvec4 n;
    uint scales;
};
float nvfp4_scale(uint scale) {
    uint exponent = (scale >> 3) & 15;
    if (scale == 127) return 0.0;
    if (exponent == 0) return float(scale & 7) * 0.0009765625;
    return uintBitsToFloat((exponent + 119) << 23 | (scale & 7) << 20);
}
Raw weight_load(Line l, uint c) {
    return Raw(get_x4(l, field_at(l, QS, c / 2) + 16 * (c % 2)), get_u32(l, field_at(l, SC, c / 2)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    [[unroll]] for (uint h = 0; h < 2; h++) {
        s[h] = vec2(nvfp4_scale((r.scales >> (16 * (c % 2) + 8 * h)) & 255), 0.0);
        [[unroll]] for (uint i = 0; i < 2; i++) leveled(r.n[2 * h + i], q[4 * h + i], q[4 * h + 2 + i]);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
