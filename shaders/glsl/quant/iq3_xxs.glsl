// IQ3_XXS: see quant/src/iq3_xxs.rs. A chunk is two sub-blocks.
#define CHUNK 64
#define PIECES 2
#include "quant/signs.glsl"
struct Raw {
    uvec4 n;
    uvec2 words;
    uint scales, d;
};
Raw weight_load(Line l, uint c) {
    uvec2 words = get_x2(l, part_at(l, SIGNS, c, 4, 8));
    const uint scales = SOA == 1 ? get_u8(l, part_at(l, SC, c, 4, 1)) : 0;
    return Raw(get_x4(l, part_at(l, QS, c, 4, 16)), words, scales, get_u16(l, field_at(l, D, c / 4)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    [[unroll]] for (uint h = 0; h < 2; h++) {
        const uint scale = SOA == 1 ? (r.scales >> (4 * h)) & 15 : r.words[h] >> 28;
        s[h] = vec2(half1(r.d) * (0.5 + float(scale)) * 0.5, 0.0);
    }
    [[unroll]] for (uint i = 0; i < 8; i++) {
        const uint pair = r.n[i / 2] >> (16 * (i % 2)), first = table_entry(pair & 255), second = table_entry((pair >> 8) & 255);
        if (SOA == 1) {
            q[2 * i] = signed_in(first, r.words[i / 4], 2 * (i % 4));
            q[2 * i + 1] = signed_in(second, r.words[i / 4], 2 * (i % 4) + 1);
            continue;
        }
        const uint minus = eight_signs(r.words[i / 4]) >> (8 * (i % 4));
        q[2 * i] = signed_by(first, minus);
        q[2 * i + 1] = signed_by(second, minus >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
