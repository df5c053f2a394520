// IQ2_S: see quant/src/iq2_s.rs. A chunk is four sub-blocks.
#define CHUNK 64
#define PIECES 4
#include "quant/signs.glsl"
struct Raw {
    uvec2 low, minus;
    uint high, scales, d;
};
Raw weight_load(Line l, uint c) {
    uvec2 low = get_x2(l, part_at(l, QS, c, 4, 8)), minus = get_x2(l, part_at(l, SIGNS, c, 4, 8));
    uint high = get_u16(l, part_at(l, QH, c, 4, 2)), scales = get_u16(l, part_at(l, SC, c, 4, 2));
    return Raw(low, minus, high, scales, get_u16(l, field_at(l, D, c / 4)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    float d = half1(r.d) * 0.25;
    [[unroll]] for (uint p = 0; p < 4; p++) s[p] = vec2(d * (0.5 + float((r.scales >> (4 * p)) & 15)), 0.0);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint index = ((r.low[i / 4] >> (8 * (i % 4))) & 255) | (((r.high >> (2 * i)) & 3) << 8);
        const uvec2 entry = table_entry(index);
        if (SOA == 1) {
            q[2 * i] = signed_in(entry.x, r.minus[i / 4], 2 * (i % 4));
            q[2 * i + 1] = signed_in(entry.y, r.minus[i / 4], 2 * (i % 4) + 1);
            continue;
        }
        const uint minus = r.minus[i / 4] >> (8 * (i % 4));
        q[2 * i] = signed_by(entry.x, minus);
        q[2 * i + 1] = signed_by(entry.y, minus >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
