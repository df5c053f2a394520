// IQ2_XXS: see quant/src/iq2_xxs.rs. A chunk is a sub-block.
#define CHUNK 32
#define PIECES 1
#include "quant/signs.glsl"
struct Raw {
    uvec2 n;
    uint d;
};
Raw weight_load(Line l, uint c) {
    return Raw(get_x2(l, field_at(l, QS, c / 8) + 8 * (c % 8)), get_u16(l, field_at(l, D, c / 8)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    s[0] = vec2(half1(r.d) * (0.5 + float(r.n.y >> 28)) * 0.25, 0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uvec2 entry = table[(r.n.x >> (8 * i)) & 255], mask = sign_masks((r.n.y >> (7 * i)) & 127);
        q[2 * i] = signed_by(entry.x, mask.x);
        q[2 * i + 1] = signed_by(entry.y, mask.y);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
