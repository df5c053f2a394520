// IQ1_M: see quant/src/iq1_m.rs. A chunk is two sub-blocks.
#define CHUNK 32
#define PIECES 2
#include "quant/grid_iq1.glsl"
struct Raw {
    uint low, high;
    uvec2 scales;
};
Raw weight_load(Line l, uint c) {
    uint block = c / 8, j = c % 8;
    uint low = get_u32(l, field_at(l, QS, block) + 4 * j), high = get_u16(l, field_at(l, QH, block) + 2 * j);
    return Raw(low, high, get_x2(l, field_at(l, SC, block)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    uint j = c % 8;
    uvec2 t = r.scales;
    float d = half1(((t.x >> 12) & 15) | ((t.x >> 24) & 0xf0) | ((t.y >> 4) & 0xf00) | ((t.y >> 16) & 0xf000)) * 0.125;
    uint scales = (j < 4 ? t.x : t.y) >> (16 * ((j / 2) % 2) + 6 * (j % 2));
    s[0] = vec2(d * float(2 * (scales & 7) + 1), 0.0);
    s[1] = vec2(d * float(2 * ((scales >> 3) & 7) + 1), 0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint part = r.high >> (4 * i);
        uint entry = table_word(((r.low >> (8 * i)) & 255) | ((part & 7) << 8));
        q[2 * i] = shifted(entry, (part & 8) != 0);
        q[2 * i + 1] = shifted(entry >> 4, (part & 8) != 0);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
