// NVFP4: see quant/src/nvfp4.rs. A block is a chunk.
#define CHUNK 64
#define PIECES 4
#include "quant/levels.glsl"
struct Raw {
    uvec4 n0, n1;
    uint scales;
};
// Its seven bits are those of a half over 256; what counts is half of it.
float nvfp4_scale(uint scale) { return scale == 127 ? 0.0 : unpackHalf2x16((scale & 127) << 7).x * 128.0; }
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
        [[unroll]] for (uint i = 0; i < 2; i++) {
            if (SOA == 1) leveled_pairs(n[2 * (p % 2) + i], q[4 * p + 2 * i], q[4 * p + 2 * i + 1]);
            else leveled(n[2 * (p % 2) + i], q[4 * p + i], q[4 * p + 2 + i]);
        }
    }
}
#define LEVEL_APART 2
uint level_word(Raw r, uint i) {
    const uvec4 n = i < 8 ? r.n0 : r.n1;
    return SOA == 1 ? n[i % 8 / 2] >> (16 * (i % 2)) : n[i / 4 % 2 * 2 + i % 2];
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
