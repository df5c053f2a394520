// IQ3_XXS: see quant/src/iq3_xxs.rs. A chunk is a sub-block.
#define CHUNK 32
#define PIECES 1
#include "quant/signs.glsl"
struct Raw {
    uvec2 n;
    uint word;
    uint d;
};
Raw weight_load(Line l, uint c) {
    uint block = c / 8, j = c % 8;
    uint word = get_u32(l, field_at(l, SIGNS, block) + 4 * j);
    return Raw(get_x2(l, field_at(l, QS, block) + 8 * j), word, get_u16(l, field_at(l, D, block)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    s[0] = vec2(half1(r.d) * (0.5 + float(r.word >> 28)) * 0.5, 0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uvec2 mask = sign_masks((r.word >> (7 * i)) & 127);
        uint pair = r.n[i / 2] >> (16 * (i % 2));
        q[2 * i] = signed_by(table_word(pair & 255), mask.x);
        q[2 * i + 1] = signed_by(table_word((pair >> 8) & 255), mask.y);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
