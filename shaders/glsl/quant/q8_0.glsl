// Q8_0: see quant/src/q8_0.rs. A block is a chunk.
#define CHUNK 32
#define PIECES 1
struct Raw {
    uvec4 n0, n1;
    uint d;
};
Raw weight_load(Line l, uint c) {
    Raw r;
    get_2x4(l, field_at(l, QS, c), 1, r.n0, r.n1);
    r.d = get_u16(l, field_at(l, D, c));
    return r;
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    s[0] = vec2(half1(r.d), 0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        q[i] = r.n0[i];
        q[i + 4] = r.n1[i];
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
