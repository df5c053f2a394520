// Q6_K: see quant/src/q6_k.rs. A chunk is 16 weights of each quarter of a half.
#define CHUNK 64
#define PIECES 4
#define HAS_OFFSET
struct Raw {
    uvec4 low0, low1, high;
    uvec2 scales;
    uint d;
};
Raw weight_load(Line l, uint c) {
    Raw r;
    get_2x4(l, part_at(l, QL, c / 2, 2, 64) + 16 * (c % 2), 2, r.low0, r.low1);
    r.high = get_x4(l, part_at(l, QH, c, 4, 16));
    r.scales = get_x2(l, part_at(l, SC, c / 2, 2, 8));
    r.d = get_u16(l, field_at(l, D, c / 4));
    return r;
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    float d = half1(r.d);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        q[i] = bytes_of_nibbles(r.low0[i]) | ((r.high[i] & 0x03030303u) << 4);
        q[4 + i] = bytes_of_nibbles(r.low1[i]) | ((r.high[i] & 0x0c0c0c0cu) << 2);
        q[8 + i] = bytes_of_nibbles(r.low0[i] >> 4) | (r.high[i] & 0x30303030u);
        q[12 + i] = bytes_of_nibbles(r.low1[i] >> 4) | ((r.high[i] & 0xc0c0c0c0u) >> 2);
    }
    [[unroll]] for (uint k = 0; k < 4; k++) {
        float step = d * float(bitfieldExtract(int(r.scales[k / 2]), int(16 * (k % 2) + 8 * (c % 2)), 8));
        s[k] = vec2(step, -32.0 * step);
    }
}
uint chunk_col(uint c, uint i) {
    return (c / 4) * 256 + ((c % 4) / 2) * 128 + (i / 4) * 32 + (c % 2) * 16 + (i % 4) * 4;
}
