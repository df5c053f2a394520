// IQ1_S, its values written out: see quant/src/expanded.rs. A chunk is four sub-blocks.
#define CHUNK 128
#define PIECES 4
#define HAS_OFFSET
#define UNSIGNED_CODES 1
struct Raw {
    uvec4 n0, n1;
    uint scales, d;
};
Raw weight_load(Line l, uint c) {
    Raw r;
    get_2x4(l, part_at(l, QS, c, 2, 32), 1, r.n0, r.n1);
    r.scales = get_u16(l, part_at(l, SC, c, 2, 2));
    r.d = get_u16(l, field_at(l, D, c / 2));
    return r;
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    const float d = half1(r.d);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        const uint scale = r.scales >> (4 * k);
        const float step = d * float(2 * (scale & 7) + 1);
        s[k] = vec2(step / float(1 << (2 * k)), step * ((scale & 8) != 0 ? -1.125 : -0.875));
        [[unroll]] for (uint i = 0; i < 4; i++) {
            q[8 * k + i] = r.n0[i] & (0x03030303u << (2 * k));
            q[8 * k + 4 + i] = r.n1[i] & (0x03030303u << (2 * k));
        }
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
