// Q2_K: see quant/src/q2_k.rs. A chunk is 16 weights of each quarter of a half.
#define CHUNK 64
#define PIECES 4
#define HAS_OFFSET
#define UNSIGNED_CODES 1
struct Raw {
    uvec4 n;
    uvec2 scales;
    uint d;
};
Raw weight_load(Line l, uint c) {
    uint block = c / 4, h = (c % 4) / 2;
    uvec4 n = get_x4(l, field_at(l, QS, block) + 16 * (c % 4));
    return Raw(n, get_x2(l, field_at(l, SC, block) + 8 * h), get_u32(l, field_at(l, DM, block)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    vec2 d = unpackHalf2x16(r.d);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        uint pair = r.scales[k / 2] >> (16 * (k % 2) + 8 * (c % 2));
        s[k] = vec2(d.x * float(pair & 15) / float(1 << (2 * k)), -d.y * float((pair >> 4) & 15));
        [[unroll]] for (uint i = 0; i < 4; i++) q[4 * k + i] = r.n[i] & (0x03030303u << (2 * k));
    }
}
uint chunk_col(uint c, uint i) {
    return (c / 4) * 256 + ((c % 4) / 2) * 128 + (i / 4) * 32 + (c % 2) * 16 + (i % 4) * 4;
}
