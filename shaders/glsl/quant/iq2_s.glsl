// IQ2_S: see quant/src/iq2_s.rs. A chunk is two sub-blocks.
#define CHUNK 32
#define PIECES 2
#include "quant/signs.glsl"
struct Raw {
    uint low, minus, high, scales, d;
};
Raw weight_load(Line l, uint c) {
    uint block = c / 8, j = c % 8;
    uint low = get_u32(l, field_at(l, QS, block) + 4 * j), minus = get_u32(l, field_at(l, SIGNS, block) + 4 * j);
    uint high = get_u8(l, field_at(l, QH, block) + j), scales = get_u8(l, field_at(l, SC, block) + j);
    return Raw(low, minus, high, scales, get_u16(l, field_at(l, D, block)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    float d = half1(r.d) * 0.25;
    s[0] = vec2(d * (0.5 + float(r.scales & 15)), 0.0);
    s[1] = vec2(d * (0.5 + float(r.scales >> 4)), 0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint index = ((r.low >> (8 * i)) & 255) | (((r.high >> (2 * i)) & 3) << 8);
        uvec2 entry = table[index], mask = sign_masks((r.minus >> (8 * i)) & 255);
        q[2 * i] = signed_by(entry.x, mask.x);
        q[2 * i + 1] = signed_by(entry.y, mask.y);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
