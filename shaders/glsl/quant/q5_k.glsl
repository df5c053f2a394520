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
#ifdef SMALL_HALVES
#define SMALL
struct Small {
    uvec4 n0, n1, fifth0, fifth1;
    f16vec2 scale[1], offset[1];
};
float16_t weight_small(Raw r, uint c, out Small w) {
    w.n0 = r.n0;
    w.n1 = r.n1;
    w.fifth0 = r.fifth0 >> (2 * (c % 4));
    w.fifth1 = r.fifth1 >> (2 * (c % 4));
    return small_scales(unpackHalf2x16(r.head.x), r.head.yzw, c % 4, w.scale[0], w.offset[0]);
}
uvec2 small_codes(Small w, uint i) {
    uint n = i / 4 % 2 == 0 ? w.n0[i % 4] : w.n1[i % 4], fifth = i / 4 % 2 == 0 ? w.fifth0[i % 4] : w.fifth1[i % 4];
    if (i < 8) return (uvec2(n, n >> 8) & 0x000f000fu) | (uvec2(fifth << 4, fifth >> 4) & 0x00100010u);
    return (uvec2(n, n >> 8) & 0x00f000f0u) | (uvec2(fifth << 7, fifth >> 1) & 0x01000100u);
}
uint small_piece(uint i) { return i / 8; }
#endif
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
