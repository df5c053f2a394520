// Q2_0: see quant/src/q2_0.rs. A block is a chunk.
#define CHUNK 64
#define PIECES 2
#define HAS_OFFSET
struct Raw {
    uvec4 n;
    uint d;
};
Raw weight_load(Line l, uint c) { return Raw(get_x4(l, field_at(l, QS, c)), get_u16(l, field_at(l, D, c))); }
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    float d = half1(r.d);
    s[0] = s[1] = vec2(d, -d);
    [[unroll]] for (uint j = 0; j < 4; j++) {
        [[unroll]] for (uint i = 0; i < 4; i++) q[4 * j + i] = spread_pairs((r.n[j] >> (8 * i)) & 255);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
