// IQ4_XS: see quant/src/iq4_xs.rs. A chunk is two sub-blocks.
#define CHUNK 64
#define PIECES 2
#include "quant/levels.glsl"
struct Raw {
    uvec4 n0, n1;
    uvec2 head;
};
Raw weight_load(Line l, uint c) {
    Raw r;
    get_2x4(l, part_at(l, QS, c, 4, 32), 1, r.n0, r.n1);
    r.head = get_x2(l, field_at(l, HEAD, c / 4));
    return r;
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    const uint low = r.head.y >> (8 * (c % 4)), high = r.head.x >> (16 + 4 * (c % 4));
    [[unroll]] for (uint h = 0; h < 2; h++) {
        const uint scale = ((low >> (4 * h)) & 15) | (((high >> (2 * h)) & 3) << 4);
        s[h] = vec2(half1(r.head.x & 0xffff) * (float(scale) - 32.0), 0.0);
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        leveled(r.n0[i], q[i], q[i + 4]);
        leveled(r.n1[i], q[i + 8], q[i + 12]);
    }
}
#define LEVEL_APART 4
uint level_word(Raw r, uint i) { return i < 8 ? r.n0[i % 4] : r.n1[i % 4]; }
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
