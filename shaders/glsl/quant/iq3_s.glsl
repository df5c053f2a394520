// IQ3_S: see quant/src/iq3_s.rs. A chunk is a sub-block.
#define CHUNK 32
#define PIECES 1
#include "quant/signs.glsl"
struct Raw {
    uvec2 n;
    uint minus, ninth, scales, d;
};
Raw weight_load(Line l, uint c) {
    uint block = c / 8, j = c % 8;
    uint minus = get_u32(l, field_at(l, SIGNS, block) + 4 * j), ninth = get_u8(l, field_at(l, QH, block) + j);
    uint scales = get_u8(l, field_at(l, SC, block) + j / 2);
    uvec2 n = get_x2(l, field_at(l, QS, block) + 8 * j);
    return Raw(n, minus, ninth, scales, get_u16(l, field_at(l, D, block)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    s[0] = vec2(half1(r.d) * (1.0 + 2.0 * float((r.scales >> (4 * (c % 2))) & 15)), 0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uvec2 mask = sign_masks((r.minus >> (8 * i)) & 255);
        uint pair = r.n[i / 2] >> (16 * (i % 2)), ninth = r.ninth >> (2 * i);
        q[2 * i] = signed_by(table_word((pair & 255) | ((ninth & 1) << 8)), mask.x);
        q[2 * i + 1] = signed_by(table_word(((pair >> 8) & 255) | ((ninth & 2) << 7)), mask.y);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
