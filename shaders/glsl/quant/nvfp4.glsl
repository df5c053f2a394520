// NVFP4: see quant/src/nvfp4.rs. A block is a chunk.
#define CHUNK 64
#define PIECES 4
#include "quant/levels.glsl"
struct Raw {
    uvec4 n0, n1;
    uint scales;
};
float nvfp4_scale(uint scale) {
    uint exponent = (scale >> 3) & 15;
    if (scale == 127) return 0.0;
    if (exponent == 0) return float(scale & 7) * 0.0009765625;
    return uintBitsToFloat((exponent + 119) << 23 | (scale & 7) << 20);
}
Raw weight_load(Line l, uint c) {
    Raw r;
    get_2x4(l, field_at(l, QS, c), 1, r.n0, r.n1);
    r.scales = get_u32(l, field_at(l, SC, c));
    return r;
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    [[unroll]] for (uint p = 0; p < 4; p++) {
        s[p] = vec2(nvfp4_scale((r.scales >> (8 * p)) & 255), 0.0);
        const uvec4 n = p < 2 ? r.n0 : r.n1;
        [[unroll]] for (uint i = 0; i < 2; i++) leveled(n[2 * (p % 2) + i], q[4 * p + i], q[4 * p + 2 + i]);
    }
}
#define LEVEL_APART 2
uint level_word(Raw r, uint i) { return i < 8 ? r.n0[i / 4 * 2 + i % 2] : r.n1[i / 4 % 2 * 2 + i % 2]; }
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
