// MXFP4: see quant/src/mxfp4.rs. A block is a chunk.
#define CHUNK 32
#define PIECES 1
#include "quant/levels.glsl"
struct Raw {
    uvec4 n;
    uint e;
};
Raw weight_load(Line l, uint c) { return Raw(get_x4(l, field_at(l, QS, c)), get_u8(l, field_at(l, E, c))); }
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    s[0] = vec2(uintBitsToFloat(r.e < 2 ? 0x00200000u << r.e : (r.e - 1) << 23), 0.0);
    leveled_words(r.n, q);
}
#define LEVEL_APART 4
uint level_word(Raw r, uint i) { return SOA == 1 ? r.n[i / 2] >> (16 * (i % 2)) : r.n[i % 4]; }
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
