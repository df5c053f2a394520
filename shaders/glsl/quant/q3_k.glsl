// Q3_K: see quant/src/q3_k.rs. A chunk is 16 weights of each quarter of a half.
#define CHUNK 64
#define PIECES 4
#define HAS_OFFSET
struct Raw {
    uvec4 n;
    uvec4 third;
    uvec3 scales;
    uint d;
};
Raw weight_load(Line l, uint c) {
    uint block = c / 4, at = field_at(l, SC, block);
    uvec4 n = get_x4(l, field_at(l, QS, block) + 16 * (c % 4));
    uvec4 third = get_x4(l, field_at(l, HM, block) + 16 * (c % 2));
    return Raw(n, third, uvec3(get_u32(l, at), get_u32(l, at + 4), get_u32(l, at + 8)), get_u16(l, field_at(l, D, block)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    uint h = (c % 4) / 2, p = c % 2;
    float d = half1(r.d);
    uvec4 third = r.third >> (4 * h);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        uint by = 8 * (2 * (k % 2) + p) + 4 * h; // of the half's scale 2k + p
        uint scale = ((r.scales[k / 2] >> by) & 15) | (((r.scales.z >> (by + 2 * (k / 2))) & 3) << 4);
        float step = d * (float(scale) - 32.0);
        s[k] = vec2(step, -4.0 * step);
        [[unroll]] for (uint i = 0; i < 4; i++) {
            q[4 * k + i] = ((r.n[i] >> (2 * k)) & 0x03030303u) | (((third[i] >> k) & 0x01010101u) << 2);
        }
    }
}
uint chunk_col(uint c, uint i) {
    return (c / 4) * 256 + ((c % 4) / 2) * 128 + (i / 4) * 32 + (c % 2) * 16 + (i % 4) * 4;
}
