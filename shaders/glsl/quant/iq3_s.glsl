// IQ3_S: see quant/src/iq3_s.rs. A chunk is two sub-blocks.
#define CHUNK 64
#define PIECES 2
#include "quant/signs.glsl"
struct Raw {
    uvec4 n;
    uvec2 minus;
    uint ninth, scales, d;
};
Raw weight_load(Line l, uint c) {
    uvec2 minus = get_x2(l, part_at(l, SIGNS, c, 4, 8));
    uint ninth = get_u16(l, part_at(l, QH, c, 4, 2)), scales = get_u8(l, part_at(l, SC, c, 4, 1));
    return Raw(get_x4(l, part_at(l, QS, c, 4, 16)), minus, ninth, scales, get_u16(l, field_at(l, D, c / 4)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    [[unroll]] for (uint h = 0; h < 2; h++) {
        s[h] = vec2(half1(r.d) * (1.0 + 2.0 * float((r.scales >> (4 * h)) & 15)), 0.0);
    }
    [[unroll]] for (uint i = 0; i < 8; i++) {
        const uint pair = r.n[i / 2] >> (16 * (i % 2)), ninth = r.ninth >> (2 * i), minus = r.minus[i / 4] >> (8 * (i % 4));
        const uint first = table_entry((pair & 255) | ((ninth & 1) << 8));
        const uint second = table_entry(((pair >> 8) & 255) | ((ninth & 2) << 7));
        q[2 * i] = SOA == 1 ? signed_in(first, r.minus[i / 4], 2 * (i % 4)) : signed_by(first, minus);
        q[2 * i + 1] = SOA == 1 ? signed_in(second, r.minus[i / 4], 2 * (i % 4) + 1) : signed_by(second, minus >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
