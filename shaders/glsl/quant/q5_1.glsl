// Q5_1: see quant/src/q5_1.rs. A block is a chunk.
#define CHUNK 32
#define PIECES 1
#define HAS_OFFSET
struct Raw {
    uvec4 n;
    uint d;
    uint fifth;
};
Raw weight_load(Line l, uint c) {
    return Raw(get_x4(l, field_at(l, QS, c)), get_u32(l, field_at(l, DM, c)), get_u32(l, field_at(l, QH, c)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    s[0] = unpackHalf2x16(r.d);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        q[i] = bytes_of_nibbles(r.n[i]) | (spread_bits(r.fifth >> (4 * i)) << 4);
        q[i + 4] = bytes_of_nibbles(r.n[i] >> 4) | (spread_bits(r.fifth >> (16 + 4 * i)) << 4);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
