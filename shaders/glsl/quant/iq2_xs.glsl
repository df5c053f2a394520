// IQ2_XS: see quant/src/iq2_xs.rs. A chunk is two sub-blocks.
#define CHUNK 32
#define PIECES 2
#include "quant/signs.glsl"
struct Raw {
    uvec2 n;
    uint scales;
    uint d;
};
Raw weight_load(Line l, uint c) {
    uint block = c / 8, j = c % 8;
    uint scales = get_u8(l, field_at(l, SC, block) + j);
    return Raw(get_x2(l, field_at(l, QS, block) + 8 * j), scales, get_u16(l, field_at(l, D, block)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    float d = half1(r.d) * 0.25;
    s[0] = vec2(d * (0.5 + float(r.scales & 15)), 0.0);
    s[1] = vec2(d * (0.5 + float(r.scales >> 4)), 0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint word = r.n[i / 2] >> (16 * (i % 2));
        uvec2 entry = table[word & 511], mask = sign_masks((word >> 9) & 127);
        q[2 * i] = signed_by(entry.x, mask.x);
        q[2 * i + 1] = signed_by(entry.y, mask.y);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
