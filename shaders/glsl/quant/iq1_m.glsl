// IQ1_M: see quant/src/iq1_m.rs. A chunk is four sub-blocks.
#define CHUNK 64
#define PIECES 4
// The grid of IQ1_S and IQ1_M: eight values 0, 1, 2 to a word, the first four in the low nibbles of its bytes.
// Eight times (value - 1), less or more one: the shift by an eighth is a whole number then. Bytes are kept from borrowing by
// a bit that no value reaches.
uint shifted(uint values, bool down) { return (8 * (values & 0x0f0f0f0fu) + (down ? 0x77777777u : 0x79797979u)) ^ 0x80808080u; }
struct Raw {
    uvec2 low;
    uint high;
    uvec2 scales;
};
Raw weight_load(Line l, uint c) {
    uvec2 low = get_x2(l, part_at(l, QS, c, 4, 8));
    return Raw(low, get_u32(l, part_at(l, QH, c, 4, 4)), get_x2(l, field_at(l, SC, c / 4)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    uvec2 t = r.scales;
    float d = half1(((t.x >> 12) & 15) | ((t.x >> 24) & 0xf0) | ((t.y >> 4) & 0xf00) | ((t.y >> 16) & 0xf000)) * 0.125;
    uint scales = (c % 4 < 2 ? t.x : t.y) >> (16 * (c % 2));
    [[unroll]] for (uint p = 0; p < 4; p++) s[p] = vec2(d * float(2 * ((scales >> (3 * p)) & 7) + 1), 0.0);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint part = r.high >> (4 * i);
        uint entry = table_entry(((r.low[i / 4] >> (8 * (i % 4))) & 255) | ((part & 7) << 8));
        q[2 * i] = shifted(entry, (part & 8) != 0);
        q[2 * i + 1] = shifted(entry >> 4, (part & 8) != 0);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
