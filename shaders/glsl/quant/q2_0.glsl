// Q2_0: see quant/src/q2_0.rs. A block is a chunk.
#define CHUNK 64
#define PIECES 4
#define HAS_OFFSET
#define UNSIGNED_CODES 1
struct Raw {
    uvec4 n;
    uint d;
};
Raw weight_load(Line l, uint c) { return Raw(get_x4(l, field_at(l, QS, c)), get_u16(l, field_at(l, D, c))); }
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    float d = half1(r.d);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        s[k] = vec2(SOA == 1 ? d / float(1 << (2 * k)) : d, -d);
        [[unroll]] for (uint i = 0; i < 4; i++) {
            q[4 * k + i] = SOA == 1 ? r.n[i] & (0x03030303u << (2 * k)) : spread_pairs((r.n[k] >> (8 * i)) & 255);
        }
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
