// Q1_0: see quant/src/q1_0.rs. A block is a chunk.
#define CHUNK 128
#define PIECES 4
#define HAS_OFFSET
#define UNSIGNED_CODES 0
struct Raw {
    uvec4 n;
    uint d;
};
Raw weight_load(Line l, uint c) { return Raw(get_x4(l, field_at(l, QS, c)), get_u16(l, field_at(l, D, c))); }
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    float d = half1(r.d);
    [[unroll]] for (uint p = 0; p < 4; p++) {
        s[p] = vec2(2.0 * d, -d);
        [[unroll]] for (uint i = 0; i < 8; i++) {
            q[8 * p + i] = SOA == 1 ? (r.n[p] >> i) & 0x01010101u : spread_bits(r.n[p] >> (4 * i));
        }
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
