// Q4_K: see quant/src/q4_k.rs. A chunk is sub-blocks 2i and 2i + 1: the nibbles of 32 bytes.
#define CHUNK 64
#define PIECES 2
#define HAS_OFFSET
#define UNSIGNED_CODES 1
#include "quant/scale_min.glsl"
struct Raw {
    uvec4 n0, n1, head;
};
Raw weight_load(Line l, uint c) {
    Raw r;
    get_2x4(l, part_at(l, QS, c, 4, 32), 1, r.n0, r.n1);
    r.head = get_x4(l, field_at(l, HEAD, c / 4));
    return r;
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    piece_scales(unpackHalf2x16(r.head.x), r.head.yzw, c % 4, s);
    s[1].x *= 0.0625; // its codes stay in the high nibbles
    [[unroll]] for (uint i = 0; i < 4; i++) {
        q[i] = bytes_of_nibbles(r.n0[i]);
        q[4 + i] = bytes_of_nibbles(r.n1[i]);
        q[8 + i] = r.n0[i] & 0xf0f0f0f0u;
        q[12 + i] = r.n1[i] & 0xf0f0f0f0u;
    }
}
#ifdef SMALL_HALVES
#define SMALL
struct Small {
    uvec4 n0, n1;
    f16vec2 scale[1], offset[1];
};
float16_t weight_small(Raw r, uint c, out Small w) {
    w.n0 = r.n0;
    w.n1 = r.n1;
    return small_scales(unpackHalf2x16(r.head.x), r.head.yzw, c % 4, w.scale[0], w.offset[0]);
}
uvec2 small_codes(Small w, uint i) {
    uint n = i / 4 % 2 == 0 ? w.n0[i % 4] : w.n1[i % 4], mask = i < 8 ? 0x000f000fu : 0x00f000f0u;
    return uvec2(n, n >> 8) & mask;
}
uint small_piece(uint i) { return i / 8; }
#endif
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
