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
#ifdef SMALL_HALVES
#define SMALL
const float PART = 1.0 / 65536.0;
struct Small {
    uvec4 low0, low1, high;
    f16vec2 scale[2], offset[2];
};
float16_t weight_small(Raw r, uint c, out Small w) {
    w.low0 = r.low0;
    w.low1 = r.low1;
    w.high = r.high;
    [[unroll]] for (uint k = 0; k < 2; k++) {
        uint bytes = (r.scales[k] >> (8 * (c % 2))) & 0x00ff00ffu;
        f16vec2 scales = unpackFloat2x16(bytes ^ 0x64806480u) - float16_t(1152.0);
        precise f16vec2 scale = scales * float16_t(k == 0 ? 256.0 : 16.0), offset = scales * float16_t(-32.0 * PART);
        w.scale[k] = scale; // precise: not to be made one product with their sum
        w.offset[k] = offset;
    }
    return unpackFloat2x16(r.d).x;
}
uvec2 small_codes(Small w, uint i) {
    uint n = i / 4 % 2 == 0 ? w.low0[i % 4] : w.low1[i % 4], high = w.high[i % 4];
    uvec2 two = uvec2(n, n >> 8), top = i / 4 % 2 == 0 ? uvec2(high << 4, high >> 4) : uvec2(high << 2, high >> 6);
    return i < 8 ? (two & 0x000f000fu) | (top & 0x00300030u) : (two & 0x00f000f0u) | (top & 0x03000300u);
}
uint small_piece(uint i) { return i / 4; }
#endif
uint chunk_col(uint c, uint i) {
    return (c / 4) * 256 + ((c % 4) / 2) * 128 + (i / 4) * 32 + (c % 2) * 16 + (i % 4) * 4;
}
