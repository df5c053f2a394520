// IQ4_NL: see quant/src/iq4_nl.rs. A block is a chunk.
#define CHUNK 32
#define PIECES 1
#include "quant/levels.glsl"
struct Raw {
    uvec4 n;
    uint d;
};
Raw weight_load(Line l, uint c) { return Raw(get_x4(l, field_at(l, QS, c)), get_u16(l, field_at(l, D, c))); }
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    s[0] = vec2(half1(r.d), 0.0);
    leveled_words(r.n, q);
}
#define LEVEL_APART 4
uint level_word(Raw r, uint i) { return SOA == 1 ? r.n[i / 2] >> (16 * (i % 2)) : r.n[i % 4]; }
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
