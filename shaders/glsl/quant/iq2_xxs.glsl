// IQ2_XXS: see quant/src/iq2_xxs.rs. A chunk is two sub-blocks.
#define CHUNK 64
#define PIECES 2
#include "quant/signs.glsl"
struct Raw {
    uvec4 n;
    uint scales, d;
};
Raw weight_load(Line l, uint c) {
    const uint scales = SOA == 1 ? get_u8(l, part_at(l, SC, c, 4, 1)) : 0;
    return Raw(get_x4(l, part_at(l, QS, c, 4, 16)), scales, get_u16(l, field_at(l, D, c / 4)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    [[unroll]] for (uint h = 0; h < 2; h++) {
        const uint codes = r.n[2 * h], word = r.n[2 * h + 1], minus = SOA == 1 ? word : eight_signs(word);
        const uint scale = SOA == 1 ? (r.scales >> (4 * h)) & 15 : word >> 28;
        s[h] = vec2(half1(r.d) * (0.5 + float(scale)) * 0.25, 0.0);
        [[unroll]] for (uint i = 0; i < 4; i++) {
            const uvec2 entry = table_entry((codes >> (8 * i)) & 255);
            q[8 * h + 2 * i] = SOA == 1 ? signed_in(entry.x, minus, 2 * i) : signed_by(entry.x, minus >> (8 * i));
            q[8 * h + 2 * i + 1] = SOA == 1 ? signed_in(entry.y, minus, 2 * i + 1) : signed_by(entry.y, minus >> (8 * i + 4));
        }
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
