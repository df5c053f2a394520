// IQ3_S, its values written out: see quant/src/expanded.rs. A chunk is two sub-blocks: the nibbles of 32 bytes.
// A value is twice its code less 15.
#define CHUNK 64
#define PIECES 2
#define HAS_OFFSET
#define UNSIGNED_CODES 1
struct Raw {
    uvec4 n0, n1;
    uint scales, d;
};
Raw weight_load(Line l, uint c) {
    Raw r;
    get_2x4(l, part_at(l, QS, c, 4, 32), 1, r.n0, r.n1);
    r.scales = get_u8(l, part_at(l, SC, c, 4, 1));
    r.d = get_u16(l, field_at(l, D, c / 4));
    return r;
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    const float d = half1(r.d);
    [[unroll]] for (uint h = 0; h < 2; h++) {
        const float step = d * (1.0 + 2.0 * float((r.scales >> (4 * h)) & 15));
        s[h] = vec2(h == 0 ? 2.0 * step : 0.125 * step, -15.0 * step); // codes of the second stay in the high nibbles
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        q[i] = bytes_of_nibbles(r.n0[i]);
        q[4 + i] = bytes_of_nibbles(r.n1[i]);
        q[8 + i] = r.n0[i] & 0xf0f0f0f0u;
        q[12 + i] = r.n1[i] & 0xf0f0f0f0u;
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
