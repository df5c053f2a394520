// IQ1_S: see quant/src/iq1_s.rs. A chunk is a sub-block.
#define CHUNK 32
#define PIECES 1
#include "quant/grid_iq1.glsl"
struct Raw {
    uint low, word, d;
};
Raw weight_load(Line l, uint c) {
    uint block = c / 8, j = c % 8;
    uint low = get_u32(l, field_at(l, QS, block) + 4 * j), word = get_u16(l, field_at(l, QH, block) + 2 * j);
    return Raw(low, word, get_u16(l, field_at(l, D, block)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    s[0] = vec2(half1(r.d) * float(2 * ((r.word >> 12) & 7) + 1) * 0.125, 0.0);
    bool down = r.word >> 15 == 1;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint entry = table_word(((r.low >> (8 * i)) & 255) | (((r.word >> (3 * i)) & 7) << 8));
        q[2 * i] = shifted(entry, down);
        q[2 * i + 1] = shifted(entry >> 4, down);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
