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
    uint q0[8], q1[8];
    leveled_words(r.n0, q0);
    leveled_words(r.n1, q1);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        q[i] = q0[i];
        q[8 + i] = q1[i];
    }
}
#define LEVEL_APART 4
uint level_word(Raw r, uint i) {
    const uvec4 n = i < 8 ? r.n0 : r.n1;
    return SOA == 1 ? n[i % 8 / 2] >> (16 * (i % 2)) : n[i % 4];
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
