// IQ1_S: see quant/src/iq1_s.rs. A chunk is two sub-blocks.
// An entry of the grid has eight values 0, 1, 2: the first four in the low nibbles of its bytes.
#define CHUNK 64
#define PIECES 2
#define HAS_OFFSET
#define UNSIGNED_CODES 0
struct Raw {
    uvec2 low;
    uint words, d;
};
Raw weight_load(Line l, uint c) {
    uvec2 low = get_x2(l, part_at(l, QS, c, 4, 8));
    return Raw(low, get_u32(l, part_at(l, QH, c, 4, 4)), get_u16(l, field_at(l, D, c / 4)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    [[unroll]] for (uint h = 0; h < 2; h++) {
        const uint word = (r.words >> (16 * h)) & 0xffff;
        const float step = half1(r.d) * float(2 * ((word >> 12) & 7) + 1);
        s[h] = vec2(step, step * (word >> 15 == 1 ? -1.125 : -0.875));
        [[unroll]] for (uint i = 0; i < 4; i++) {
            uint entry = table_entry(((r.low[h] >> (8 * i)) & 255) | (((word >> (3 * i)) & 7) << 8));
            q[8 * h + 2 * i] = bytes_of_nibbles(entry);
            q[8 * h + 2 * i + 1] = bytes_of_nibbles(entry >> 4);
        }
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
