// IQ4_XS: see quant/src/iq4_xs.rs. A chunk is a sub-block.
#define CHUNK 32
#define PIECES 1
#include "quant/levels.glsl"
struct Raw {
    uvec4 n;
    uvec2 head;
};
Raw weight_load(Line l, uint c) {
    return Raw(get_x4(l, field_at(l, QS, c / 8) + 16 * (c % 8)), get_x2(l, field_at(l, HEAD, c / 8)));
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    uint j = c % 8, scale = ((r.head.y >> (4 * j)) & 15) | (((r.head.x >> (16 + 2 * j)) & 3) << 4);
    s[0] = vec2(half1(r.head.x & 0xffff) * (float(scale) - 32.0), 0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) leveled(r.n[i], q[i], q[i + 4]);
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
