// Q5_K: see quant/src/q5_k.rs. Q4_K's chunks with a fifth bit.
#define CHUNK 64
#define PIECES 2
#define HAS_OFFSET
#include "quant/scale_min.glsl"
struct Raw {
    uvec4 n0, n1, fifth0, fifth1, head;
};
Raw weight_load(Line l, uint c) {
    Raw r;
    get_2x4(l, part_at(l, QS, c, 4, 32), 1, r.n0, r.n1);
    get_2x4(l, field_at(l, QH, c / 4), 1, r.fifth0, r.fifth1);
    r.head = get_x4(l, field_at(l, HEAD, c / 4));
    return r;
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    piece_scales(unpackHalf2x16(r.head.x), r.head.yzw, c % 4, s);
    uvec4 fifth0 = r.fifth0 >> (2 * (c % 4)), fifth1 = r.fifth1 >> (2 * (c % 4));
    [[unroll]] for (uint i = 0; i < 4; i++) {
        q[i] = bytes_of_nibbles(r.n0[i]) | ((fifth0[i] & 0x01010101u) << 4);
        q[4 + i] = bytes_of_nibbles(r.n1[i]) | ((fifth1[i] & 0x01010101u) << 4);
        q[8 + i] = bytes_of_nibbles(r.n0[i] >> 4) | ((fifth0[i] & 0x02020202u) << 3);
        q[12 + i] = bytes_of_nibbles(r.n1[i] >> 4) | ((fifth1[i] & 0x02020202u) << 3);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
