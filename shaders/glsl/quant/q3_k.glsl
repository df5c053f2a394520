// Q3_K: see quant/src/q3_k.rs. A chunk is 16 weights of each quarter of a half.
#define CHUNK 64
#define PIECES 4
#define HAS_OFFSET
#define UNSIGNED_CODES 0
struct Raw {
    uvec4 n;
    uvec4 third;
    uvec3 scales;
    uint d;
};
Raw weight_load(Line l, uint c) {
    uint block = c / 4, at = field_at(l, SC, block);
    uvec4 n = get_x4(l, field_at(l, QS, block) + 16 * (c % 4));
    uvec4 third;
    if (SOA == 1) third.xy = get_x2(l, part_at(l, HM, c, 4, 8));
    else third = get_x4(l, field_at(l, HM, block) + 16 * (c % 2));
    return Raw(n, third, uvec3(get_u32(l, at), get_u32(l, at + 4), get_u32(l, at + 8)), get_u16(l, field_at(l, D, block)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    uint h = (c % 4) / 2, p = c % 2;
    float d = half1(r.d);
    const uvec4 third = r.third >> (4 * h);
    const uvec2 more = r.third.xy;
    [[unroll]] for (uint k = 0; k < 4; k++) {
        uint by = 8 * (2 * (k % 2) + p) + 4 * h; // of the half's scale 2k + p
        uint scale = ((r.scales[k / 2] >> by) & 15) | (((r.scales.z >> (by + 2 * (k / 2))) & 3) << 4);
        float step = d * (float(scale) - 32.0);
        s[k] = vec2(SOA == 1 && k == 1 ? step / 8.0 : step, -4.0 * step);
        [[unroll]] for (uint i = 0; i < 4; i++) {
            if (SOA == 1) {
                if (k == 0) q[i] = r.n[i] & 0x07070707u;
                else if (k == 1) q[4 + i] = r.n[i] & 0x38383838u;
                else if (k == 2) q[8 + i] = (more[i % 2] >> (i / 2 * 3)) & 0x07070707u;
                else q[12 + i] = ((r.n[i] >> 6) & 0x03030303u) | ((more[i / 2] >> (4 + i % 2)) & 0x04040404u);
            } else q[4 * k + i] = ((r.n[i] >> (2 * k)) & 0x03030303u) | (((third[i] >> k) & 0x01010101u) << 2);
        }
    }
}
uint chunk_col(uint c, uint i) {
    return (c / 4) * 256 + ((c % 4) / 2) * 128 + (i / 4) * 32 + (c % 2) * 16 + (i % 4) * 4;
}
