// IQ2_XS: see quant/src/iq2_xs.rs. A chunk is four sub-blocks.
#define CHUNK 64
#define PIECES 4
#include "quant/signs.glsl"
struct Raw {
    uvec4 n;
    uint scales, ninth;
    uint d;
};
Raw weight_load(Line l, uint c) {
    uint scales = get_u16(l, part_at(l, SC, c, 4, 2));
    uint ninth = SOA == 1 ? get_u8(l, part_at(l, QH, c, 4, 1)) : 0;
    return Raw(get_x4(l, part_at(l, QS, c, 4, 16)), scales, ninth, get_u16(l, field_at(l, D, c / 4)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    float d = half1(r.d) * 0.25;
    [[unroll]] for (uint p = 0; p < 4; p++) s[p] = vec2(d * (0.5 + float((r.scales >> (4 * p)) & 15)), 0.0);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        if (SOA == 1) {
            const uint low = r.n[i / 4] >> (8 * (i % 4));
            const uvec2 two = table_entry((low & 255) | ((r.ninth << (8 - i)) & 256));
            q[2 * i] = signed_in(two.x, r.n[2 + i / 4], 2 * (i % 4));
            q[2 * i + 1] = signed_in(two.y, r.n[2 + i / 4], 2 * (i % 4) + 1);
            continue;
        }
        const uint by = 16 * (i % 2), minus = evened((r.n[i / 2] >> 9) & 0x007f007fu) >> by;
        const uvec2 entry = table_entry((r.n[i / 2] >> by) & 511);
        q[2 * i] = signed_by(entry.x, minus);
        q[2 * i + 1] = signed_by(entry.y, minus >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
