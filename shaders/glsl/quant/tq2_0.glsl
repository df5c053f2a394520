// TQ2_0: see quant/src/tq2_0.rs. A chunk is 16 weights of each quarter of a half.
#define CHUNK 64
#define PIECES 4
#define HAS_OFFSET
#define UNSIGNED_CODES 1
struct Raw {
    uvec4 n;
    uint d;
};
Raw weight_load(Line l, uint c) {
    return Raw(get_x4(l, field_at(l, QS, c / 4) + 16 * (c % 4)), get_u16(l, field_at(l, D, c / 4)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    float d = half1(r.d);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        s[k] = vec2(d / float(1 << (2 * k)), -d);
        [[unroll]] for (uint i = 0; i < 4; i++) q[4 * k + i] = r.n[i] & (0x03030303u << (2 * k));
    }
}
uint chunk_col(uint c, uint i) {
    return (c / 4) * 256 + ((c % 4) / 2) * 128 + (i / 4) * 32 + (c % 2) * 16 + (i % 4) * 4;
}
